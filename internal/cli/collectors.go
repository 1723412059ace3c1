package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stax-otel/stax/internal/recording"
)

// collectorClient speaks the control API of a running collector of this user over its unix socket.
type collectorClient struct {
	pid     int
	control string
	http    *http.Client
}

func newCollectorClient(pid int, control string) *collectorClient {
	return &collectorClient{pid: pid, control: control, http: &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", control)
			},
			DisableKeepAlives: true,
		},
	}}
}

// maxReply bounds what is read of a reply.
const maxReply = 64 << 20

// call sends a request and decodes the reply into out, if there is one.
func (c *collectorClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://stax"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the collector (pid %d): %w", c.pid, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return fmt.Errorf("ask the collector (pid %d): %w", c.pid, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var problem struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(b, &problem) != nil || problem.Error == "" {
			problem.Error = cmp.Or(strings.TrimSpace(string(b)), resp.Status)
		}
		return errors.New(problem.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("read the reply of the collector (pid %d): %w", c.pid, err)
	}
	return nil
}

// recordings lists what the collector records and has recorded.
func (c *collectorClient) recordings(ctx context.Context) ([]recording.Info, error) {
	var out struct {
		Recordings []recording.Info `json:"recordings"`
	}
	return out.Recordings, c.call(ctx, http.MethodGet, "/api/v1/recordings", nil, &out)
}

// start starts a recording in the collector.
func (c *collectorClient) start(ctx context.Context, o recording.StartOptions) (recording.Info, error) {
	var out recording.Info
	return out, c.call(ctx, http.MethodPost, "/api/v1/recordings", o, &out)
}

// stop ends a recording and returns when its archive is sealed.
func (c *collectorClient) stop(ctx context.Context, id recording.ID) (recording.Info, error) {
	var out recording.Info
	return out, c.call(ctx, http.MethodPost, "/api/v1/recordings/"+string(id)+"/stop", nil, &out)
}

// get describes one recording.
func (c *collectorClient) get(ctx context.Context, id recording.ID) (recording.Info, error) {
	var out recording.Info
	return out, c.call(ctx, http.MethodGet, "/api/v1/recordings/"+string(id), nil, &out)
}

// findCollectors returns the running collectors of this user, by their control sockets, oldest first. What crashed
// collectors left behind is removed.
func findCollectors() []*collectorClient {
	base := runtimeDir()
	if info, err := os.Lstat(base); err != nil || !info.IsDir() || !ownedByUs(info) {
		return nil // not made yet, or not ours to trust
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	type found struct {
		*collectorClient
		since time.Time
	}
	var all []found
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 0 || !e.IsDir() {
			continue
		}
		dir := filepath.Join(base, e.Name())
		control := filepath.Join(dir, controlSocket)
		conn, err := net.DialTimeout("unix", control, time.Second)
		if err != nil {
			if stale(err) && !processExists(pid) {
				_ = os.RemoveAll(dir) // only tidying: somebody else may have done so
			}
			continue
		}
		_ = conn.Close()
		info, err := os.Stat(control)
		if err != nil {
			continue
		}
		all = append(all, found{newCollectorClient(pid, control), info.ModTime()})
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.pid, b.pid)) })
	clients := make([]*collectorClient, len(all))
	for i, f := range all {
		clients[i] = f.collectorClient
	}
	return clients
}

// stale reports whether nobody listens on a socket any more.
func stale(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)
}

// processExists reports whether a process of this user runs.
func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// held is a recording and the collector that holds it.
type held struct {
	recording.Info
	collector *collectorClient
}

// heldRecordings lists the recordings of all running collectors, oldest first.
func heldRecordings(ctx context.Context) []held {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var all []held
	for _, c := range findCollectors() {
		infos, err := c.recordings(ctx)
		if err != nil {
			continue // it is just going away
		}
		for _, info := range infos {
			all = append(all, held{info, c})
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(a.StartedUnixNano, b.StartedUnixNano) })
	return all
}

// live reports whether a recording is still taking data or being sealed.
func live(info recording.Info) bool { return info.State != recording.StateFinished }
