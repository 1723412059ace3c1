// Command stax records what the lanes of a program do, over OpenTelemetry, and answers questions about the recording.
package main

import (
	"os"

	"github.com/stax-otel/stax/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
