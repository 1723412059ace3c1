// Staticcheck runs all of staticcheck's SA checks over packages of this repository, one package per unit of work.
package main

import (
	"flag"
	"fmt"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	checks "honnef.co/go/tools/staticcheck"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/realprograms/internal/unit"
)

var nameAnalyse = sdk.NewName("analyse")

func main() {
	dir := flag.String("dir", ".", "the module to check")
	patterns := flag.String("packages", "./...", "which of its packages, separated by commas")
	unit.Main("staticcheck", sdk.LaneExecutor, func(l *unit.Lane) (string, error) {
		loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: *dir}, strings.Split(*patterns, ",")...)
		if err != nil {
			return "", err
		}
		if len(loaded) == 0 || packages.PrintErrors(loaded) > 0 {
			return "", fmt.Errorf("load %s in %s: nothing to check", *patterns, *dir)
		}
		var analyzers []*analysis.Analyzer
		for _, a := range checks.Analyzers {
			analyzers = append(analyzers, a.Analyzer)
		}
		findings := 0
		for _, p := range loaded {
			err := l.Do(nameAnalyse, func() error {
				graph, err := checker.Analyze(analyzers, []*packages.Package{p}, nil)
				if err != nil {
					return err
				}
				for _, a := range graph.Roots {
					findings += len(a.Diagnostics)
				}
				return nil
			})
			if err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d packages, %d findings", len(loaded), findings), nil
	})
}
