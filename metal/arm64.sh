#!/bin/sh
# Runs this module's tests as linux/arm64 under qemu-user: the argument passing of arm64 is the one of Apple silicon.
# Debian: apt-get install qemu-user libc6-arm64-cross. QEMU and SYSROOT may name other places.
set -eu
cd "$(dirname "$0")"
qemu=${QEMU:-qemu-aarch64}
sysroot=${SYSROOT:-/usr/aarch64-linux-gnu}
if ! command -v "$qemu" >/dev/null || [ ! -d "$sysroot/lib" ]; then
	echo "skipped: no $qemu or no $sysroot/lib (apt-get install qemu-user libc6-arm64-cross)" >&2
	exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for pkg in $(go list ./... | grep -v /internal/mutation); do
	GOARCH=arm64 CGO_ENABLED=0 go test -c -o "$out/t" "$pkg"
	[ -e "$out/t" ] || continue
	echo "arm64 $pkg"
	(cd "$(go list -f '{{.Dir}}' "$pkg")" && "$qemu" -L "$sysroot" -E LD_LIBRARY_PATH="$sysroot/lib" "$out/t" -test.short)
	rm -f "$out/t"
done
