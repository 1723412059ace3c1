package metal

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestSupportedSaysPlainlyThatItIsNot(t *testing.T) {
	err := Supported()
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("Supported() = %v, want an error wrapping errors.ErrUnsupported", err)
	}
	if !strings.Contains(err.Error(), runtime.GOOS) {
		t.Errorf("Supported() = %q, want it to name the platform %s", err, runtime.GOOS)
	}
}
