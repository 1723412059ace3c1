// Esbuild minifies generated TypeScript with esbuild's API, one module per unit of work, and bundles the whole at the
// end.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/realprograms/internal/unit"
)

const (
	modules   = 150
	functions = 120 // per module
)

var (
	nameTransform = sdk.NewName("transform")
	nameBundle    = sdk.NewName("bundle")
)

func main() {
	unit.Main("esbuild", sdk.LaneExecutor, func(l *unit.Lane) (string, error) {
		source := make([]string, modules)
		for i := range source {
			source[i] = module(i)
		}
		sizes := make([]int, modules)
		err := l.Each(nameTransform, 2, modules, func(i int) error {
			r := api.Transform(source[i], api.TransformOptions{
				Loader: api.LoaderTS, MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, Target: api.ES2017,
			})
			sizes[i] = len(r.Code)
			return failed(r.Errors)
		})
		if err != nil {
			return "", err
		}
		size := 0
		if err := l.Do(nameBundle, func() (err error) { size, err = bundle(source); return err }); err != nil {
			return "", err
		}
		small := 0
		for _, n := range sizes {
			small += n
		}
		return fmt.Sprintf("%d modules, %d bytes minified, bundle of %d bytes", modules, small, size), nil
	})
}

func failed(messages []api.Message) error {
	if len(messages) == 0 {
		return nil
	}
	return fmt.Errorf("esbuild: %s", messages[0].Text)
}

func bundle(source []string) (size int, err error) {
	dir, err := os.MkdirTemp("", "realprograms")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	entry := ""
	for i, text := range source {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("m%d.ts", i)), []byte(text), 0o600); err != nil {
			return 0, err
		}
		entry += fmt.Sprintf("export * as m%d from './m%d'\n", i, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.ts"), []byte(entry), 0o600); err != nil {
		return 0, err
	}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(dir, "index.ts")}, Bundle: true, MinifySyntax: true, MinifyWhitespace: true,
		MinifyIdentifiers: true, Sourcemap: api.SourceMapExternal, Outdir: dir, Format: api.FormatESModule, LogLevel: api.LogLevelSilent,
	})
	for _, f := range r.OutputFiles {
		size += len(f.Contents)
	}
	return size, failed(r.Errors)
}

// module is a TypeScript module, different for every i.
func module(i int) string {
	rng := rand.New(rand.NewPCG(uint64(i), 0))
	var b strings.Builder
	b.WriteString("interface Shape { kind: string; size?: number; tags: ReadonlyArray<string> }\n")
	for f := range functions {
		fmt.Fprintf(&b, `
export async function handler%d(input: Shape, ...rest: number[]): Promise<Record<string, unknown>> {
  const { kind, size = %d, tags } = input
  let total = rest.reduce((sum, value) => sum + value ** 2, 0)
  for (const tag of tags) {
    total += tag?.length ?? %d
    if (kind === "%x" && total > %d) continue
    switch (tag) { case "%x": total -= size; break; default: total *= %d }
  }
  return { ...input, total, label: %cpart ${total} of ${kind}%c, nested: { [kind]: [...tags, "%x"] } }
}
`, f, rng.IntN(1000), rng.IntN(10), rng.Uint32(), rng.IntN(5000), rng.Uint32(), 2+rng.IntN(7), '`', '`', rng.Uint64())
	}
	return b.String()
}
