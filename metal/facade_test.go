package metal

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFacadeLinksNoPurego: linking purego makes a Linux binary dynamic, so what the root module imports must be free of
// it, and so must the packages that build everywhere.
func TestFacadeLinksNoPurego(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to list dependencies with")
	}
	for _, pkg := range []string{".", "./abi", "./clock", "./manifest", "./ring"} {
		cmd := exec.CommandContext(t.Context(), goTool, "list", "-deps", pkg)
		cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", pkg, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if strings.Contains(dep, "purego") || strings.HasSuffix(dep, "internal/objc") || dep == "runtime/cgo" {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}
