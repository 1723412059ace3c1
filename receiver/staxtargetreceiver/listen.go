package staxtargetreceiver

import (
	"errors"
	"fmt"
	"syscall"

	"go.opentelemetry.io/collector/config/confignet"
)

// listenError is the one line that says why a server cannot start.
func listenError(protocol string, a confignet.AddrConfig, err error) error {
	hint := ""
	if errors.Is(err, syscall.EADDRINUSE) && a.Transport != confignet.TransportTypeUnix {
		hint = "; another program has this port: stop it, or change the endpoint"
	}
	return fmt.Errorf("staxtarget: protocols::%s: listen on %s: %w%s", protocol, a.Endpoint, err, hint)
}
