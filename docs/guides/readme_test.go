package guides

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk"
)

type goPool struct{}

func (goPool) Go(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	return done
}

// The code of README.md, compiled.

func readme(ctx context.Context, pool goPool, resizeImage func()) {
	lane := sdk.NewLane("resize pool", sdk.LaneThreadPool) // once
	resize, waiting := sdk.NewName("resize"), sdk.NewName("wait for resize")

	d := lane.Dispatch(resize) // where the work is queued: reserves its id ...
	d.CaptureOrigin(ctx)       // ... and remembers this thread, instant and stack
	done := pool.Go(func() {
		start := sdk.Now()
		resizeImage()
		d.Report(start, sdk.Now())
	})

	w := sdk.BeginWait(ctx, waiting)
	w.Await(d.ID()) // a declared wait can prove that the CPU was blocked by this work
	<-done
	w.End()
}

// TestReadme keeps the README's code equal to the code above, which compiles and runs.
func TestReadme(t *testing.T) {
	requireSameCode(t, "../../README.md", "readme_test.go", 1)
	ran := false
	readme(t.Context(), goPool{}, func() { ran = true })
	require.True(t, ran)
	require.NoError(t, sdk.Shutdown(t.Context()))
}

// requireSameCode requires that each Go block of a document stands, indented once, in a source file.
func requireSameCode(t *testing.T, document, source string, blocks int) {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	code, err := os.ReadFile(source)
	require.NoError(t, err)
	found := strings.Split(string(text), "```go\n")[1:]
	require.Len(t, found, blocks)
	for _, b := range found {
		b, _, _ = strings.Cut(b, "```")
		var want strings.Builder
		for line := range strings.Lines(b) {
			if line != "\n" {
				want.WriteByte('\t')
			}
			want.WriteString(line)
		}
		require.Contains(t, string(code), want.String())
	}
}
