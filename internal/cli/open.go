package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/recording"
)

func newOpenCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "open [ARCHIVE]",
		Short: "Summarise an archive, and register it with a running stax serve",
		Long: `Summarise an archive. When stax serve runs, the archive is registered there too, and the address of its
answers is printed.`,
		Example: "  stax open demo.stax",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			path, err := a.pick(cmd.Context(), first(given))
			if err != nil {
				return err
			}
			if path, err = filepath.Abs(path); err != nil {
				return err
			}
			if err := a.summary(cmd.Context(), path); err != nil {
				return err
			}
			for _, c := range findCollectors() {
				url := c.url()
				if url == "" {
					continue // not a daemon, or without an address
				}
				var info recording.Info
				err := c.call(cmd.Context(), http.MethodPost, "/api/v1/archives", map[string]string{"path": path}, &info)
				if err != nil {
					return fmt.Errorf("register the archive with stax serve (pid %d): %w", c.pid, err)
				}
				fmt.Fprintf(a.stdout, "%-12s %s/api/v1/recordings/%s/query/lanes\n", "URL", url, info.ID)
				return nil
			}
			a.say("no stax serve is running, so there is no URL; start one with: stax serve")
			return nil
		},
	}
}

// urlFile is where a daemon notes the address of its API, beside its sockets.
const urlFile = "url"

// url is the address of a daemon's API; "" when there is none.
func (c *collectorClient) url() string {
	b, err := os.ReadFile(filepath.Join(filepath.Dir(c.control), urlFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
