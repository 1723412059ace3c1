//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"runtime"

	"github.com/stax-otel/stax/metal/abi"
	"github.com/stax-otel/stax/metal/internal/objc"
)

// CheckABI compares what the running system says about every method that is bound with the table. different lists
// methods whose encoding is another one: nothing that needs them may be used. absent lists methods that the runtime
// does not know, by protocol or by class, which an older system explains.
func (s *System) CheckABI(f *abi.Facts) (different []abi.Mismatch, absent []string) {
	for _, b := range abi.Bindings(Table(), objc.FoundationTable()) {
		r := f.Method(b.Key)
		if r == nil {
			different = append(different, abi.Mismatch{Key: b.Key, Want: "a record", Got: "none"})
			continue
		}
		want := r.Encoding
		if runtime.GOOS == "darwin" && runtime.GOARCH == "amd64" && r.EncodingAMD != "" {
			want = r.EncodingAMD
		}
		got := ""
		if r.OwnerKind == "protocol" {
			got = s.rt.ProtocolEncoding(r.Owner, r.Selector, r.Required)
		} else if c, err := s.rt.Class(r.Owner); err == nil {
			got = s.rt.ClassEncoding(c, r.Selector, r.ClassMethod)
		}
		switch want, got = abi.Normalize(want), abi.Normalize(got); got {
		case want:
		case "":
			absent = append(absent, b.Key)
		default:
			different = append(different, abi.Mismatch{Key: b.Key, Want: want, Got: got})
		}
	}
	return different, absent
}
