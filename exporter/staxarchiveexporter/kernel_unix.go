//go:build unix

package staxarchiveexporter

import "golang.org/x/sys/unix"

// kernelRelease returns the release of the running kernel, as uname -r prints it.
func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
