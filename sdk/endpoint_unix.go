//go:build unix

package sdk

import (
	"fmt"
	"os"
	"syscall"
)

// checkPrivateDir reports nil when dir is a directory of this user that nobody else may enter.
func checkPrivateDir(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.IsDir() || int(st.Uid) != os.Getuid() || fi.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a private directory of this user (want mode 0700)", dir)
	}
	return nil
}
