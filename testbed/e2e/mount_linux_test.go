package e2e

import "syscall"

// mountSmall mounts a file system of its own in dir.
func mountSmall(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
