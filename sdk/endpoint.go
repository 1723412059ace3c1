package sdk

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stax-otel/stax/sdk/otlp"
)

// endpoint is where a runtime asks and sends.
type endpoint struct {
	client *otlp.Client // nil: disabled
	// dir, for the default socket only, must be a private directory of this user; it may come and go.
	dir    string
	stated bool   // the program or the environment named the endpoint
	reason string // why client is nil
}

const userAgent = "stax-sdk-go/" + Version

func newEndpoint(cfg Config) endpoint {
	url, dir := cfg.Endpoint, ""
	switch url {
	case "off", "none", "disabled":
		return endpoint{reason: "STAX_ENDPOINT=" + url}
	case "":
		if dir = defaultDir(); dir == "" {
			return endpoint{reason: "no endpoint: this platform has no default socket, set STAX_ENDPOINT"}
		}
		url = "unix://" + filepath.Join(dir, "target.sock")
	}
	c, err := otlp.NewClient(url, otlp.Options{Token: cfg.Token, UserAgent: userAgent})
	if err != nil {
		return endpoint{reason: err.Error()}
	}
	return endpoint{client: c, dir: dir, stated: dir == ""}
}

// check says why the default socket must not be used now, if so: anybody can make a directory under the temporary one.
func (e *endpoint) check() error {
	if e.dir == "" {
		return nil
	}
	if err := checkPrivateDir(e.dir); err != nil {
		return fmt.Errorf("default socket: %w", err)
	}
	return nil
}

// defaultDir is the directory of the default socket, or "" where there is none.
func defaultDir() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "stax")
	}
	if uid := os.Getuid(); uid >= 0 {
		return filepath.Join(os.TempDir(), "stax-"+strconv.Itoa(uid))
	}
	return ""
}
