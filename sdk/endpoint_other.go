//go:build !unix

package sdk

import (
	"errors"
	"fmt"
)

// checkPrivateDir refuses: ownership cannot be checked here, so there is no default socket.
func checkPrivateDir(dir string) error {
	return fmt.Errorf("%s: %w", dir, errors.ErrUnsupported)
}
