#!/bin/sh
# Records the corpus target through the real pipeline and asks the questions a performance engineer starts with.
# Usage: demo.sh BIN_DIR [ARCHIVE]. Leaves the archive and nothing running.
set -eu
bin=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/stax-demo.XXXXXX")
archive=${2:-$work/corpus.stax}

ask() {
	printf '\n$ stax %s\n' "$*"
	"$bin/stax" "$@"
}

printf '$ stax record --out %s -- corpus -duration 5s -cputrace\n' "$archive"
"$bin/stax" record --out "$archive" -- "$bin/corpus" -duration 5s -cputrace -truth "$work/truth.json"

ask target lanes "$archive"
ask target top "$archive" --by time --limit 8
ask target top "$archive" --by p99 --limit 5
ask target origins "$archive" --limit 8
ask target waits "$archive" --limit 6
ask target dispatches "$archive" --class timed_out --limit 3
slowest=$("$bin/stax" target dispatches "$archive" --class synchronous --sort duration --limit 1 --json | sed -n 's/.*"dispatch_id": "\([0-9a-f]*\)".*/\1/p')
ask why dispatch "$slowest" "$archive"
ask flame "$archive"
ask flame --wall --limit 3 "$archive"
ask flame --gaps --lane gpu --limit 3 "$archive" | sed '22,$d'
ask threads "$archive"
ask top --limit 8 "$archive"
ask diagnose "$archive"
ask audit "$archive"

printf '\nThe archive is %s (%s).\nAsk it more: %s/stax target --help\n' "$archive" "$(du -sh "$archive" | cut -f1)" "$bin"
