package sdk

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/semconv"
)

// TestMain runs a child program when asked (see process_test.go), and otherwise checks that no goroutine of the SDK
// outlives the tests.
func TestMain(m *testing.M) {
	if f := children[os.Getenv(childVariable)]; f != nil {
		f()
		return
	}
	_ = os.Setenv(semconv.EnvEndpoint, "off") // the default runtime of the tests talks to nobody
	code := m.Run()
	if left := sdkGoroutines(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left over:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

func sdkGoroutines() (left string) {
	for range 200 {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		left = ""
		for i, g := range bytes.Split(buf, []byte("\n\n")) {
			if i > 0 && bytes.Contains(g, []byte("github.com/stax-otel/stax/sdk")) {
				left += string(g) + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}
