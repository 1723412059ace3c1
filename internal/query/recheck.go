package query

import (
	"context"

	"github.com/stax-otel/stax/internal/origin"
)

// CertificateAudit is the result of checking every certificate and link again from the raw facts.
type CertificateAudit struct {
	// StoredVersion names the rules by which the archive's own links and certificates were derived; "" when it stores
	// none. Compared says that they were compared, row by row, with what the facts give now.
	StoredVersion string `json:"stored_version"`
	Compared      bool   `json:"compared"`
	Certificates  int64  `json:"certificates"`
	Links         int64  `json:"links"`
	// Rechecked counts the certificates that rest on a wait: each condition was verified by itself.
	Rechecked int64    `json:"rechecked"`
	Failed    int64    `json:"failed"`
	Failures  []string `json:"failures"` // the first few
}

func (v *view) recheck(ctx context.Context) (CertificateAudit, error) {
	a, err := origin.Audit(ctx, v.r, origin.Config{})
	return CertificateAudit{
		StoredVersion: a.Stored, Compared: a.Current, Certificates: a.Certificates, Links: a.Links, Rechecked: a.Rechecked,
		Failed: a.Problems, Failures: orEmpty(a.Examples),
	}, err
}
