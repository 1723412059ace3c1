package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// The committed files are what the committed model generates.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	outputs, err := generate(filepath.Join(root, "sdk/semconv/model.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range outputs {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Errorf("read %s: %v (run make generate)", path, err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale, run make generate (-want +got):\n%s", path, diff)
		}
	}
}

func TestModelRejects(t *testing.T) {
	attr := func(key, goName string) string {
		return "groups:\n  - {id: g, title: T, brief: B, attributes: [{key: stax.a, go: A, type: int, brief: b}, {key: " + key + ", go: " + goName + ", type: int, brief: b}]}\n"
	}
	for _, tc := range []struct{ name, yaml, want string }{
		{"a key twice", attr("stax.a", "B"), "key stax.a is in groups g and g"},
		{"a Go name twice", attr("stax.b", "A"), "identifier A is used twice"},
		{"a foreign namespace", attr("gpu.b", "B"), "neither standard nor in the stax namespace"},
		{"an unknown enum", strings.Replace(attr("stax.b", "B"), "go: B, type: int", "go: B, type: enum, enum: nope", 1), `unknown enum "nope"`},
		{"an unknown field", "grups: []\n", "field grups not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.yaml")
			if err := os.WriteFile(path, []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := generate(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("generate(%q) error = %v, want one that contains %q", tc.yaml, err, tc.want)
			}
		})
	}
}
