//go:build !linux && !darwin

package cli

import "os"

// terminalWidth knows no terminals on this system: text stays stable and 100 columns wide.
func terminalWidth(*os.File) (int, bool) { return 0, false }
