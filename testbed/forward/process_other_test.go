//go:build unix && !linux

package forward

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
