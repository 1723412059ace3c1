package sdk

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// pidNamespace is the inode number of the process's PID namespace, 0 when it cannot be known.
var pidNamespace = sync.OnceValue(func() uint64 {
	link, err := os.Readlink("/proc/self/ns/pid") // "pid:[4026531836]"
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]"), 10, 64)
	return n
})
