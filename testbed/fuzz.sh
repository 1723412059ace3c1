#!/bin/sh
# Runs every fuzz target of every module for FUZZTIME (default 30s), one after the other. Minimising each new input for the usual minute would take all the time.
set -eu
for module in . sdk metal; do
	(
		cd "$module"
		for file in $(grep -rl --include='*_test.go' '^func Fuzz' . || true); do
			dir=$(dirname "$file")
			[ "$module" = . ] && case "$dir" in ./sdk*|./metal*|./testbed/bench*|./testbed/realprograms*) continue ;; esac
			for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
				echo "== $module $dir $target"
				go test -run='^$' -fuzz="^$target\$" -fuzztime="${FUZZTIME:-30s}" -fuzzminimizetime=10x "$dir"
			done
		done
	)
done
