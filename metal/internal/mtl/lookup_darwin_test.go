//go:build amd64 || arm64

package mtl

import (
	"slices"
	"testing"

	"github.com/stax-otel/stax/metal/abi"
)

// TestSystemLookup opens the real Metal where there is one, compares it with the table and asks for a device.
func TestSystemLookup(t *testing.T) {
	f, err := abi.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range f.Libraries {
		if !slices.Contains(libraries, path) {
			t.Errorf("library %s (%s) is not loaded", name, path)
		}
	}
	lookup, err := SystemLookup()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(lookup)
	if err != nil {
		t.Fatal(err)
	}
	different, absent := s.CheckABI(f)
	for _, m := range different {
		t.Error(m)
	}
	t.Logf("absent on this system: %q", absent)
	d, err := s.DefaultDevice()
	if err != nil {
		t.Skip(err)
	}
	defer d.Release()
	t.Logf("%+v", d.Info())
}
