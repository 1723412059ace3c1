package query

import (
	"context"
	"fmt"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

const maxFailures = 10

// recheck verifies every certificate from the raw facts.
func (v *view) recheck(ctx context.Context) (CertificateAudit, error) {
	out := CertificateAudit{Failures: []CertificateFailure{}}
	version, ok := v.r.HasDerived()
	out.Stored = ok && version == origin.Version
	ev, err := v.evidence(ctx)
	if err != nil {
		return out, err
	}
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, _ *archive.Link) {
		out.Checked++
		if want := ev.certificate(d); want != *c {
			out.Failed++
			if len(out.Failures) < maxFailures {
				out.Failures = append(out.Failures, CertificateFailure{
					Runtime: d.Runtime, Dispatch: HexID(d.ID), Class: c.Class, Text: fmt.Sprintf("the facts give %s", want.Class),
				})
			}
		}
	})
	return out, err
}
