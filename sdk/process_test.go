package sdk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/semconv"
)

// childVariable names the child program that the test binary runs instead of its tests.
const childVariable = "STAX_SDK_TEST_CHILD"

// children are programs that use the default runtime as a target does.
var children = map[string]func(){
	// short is a 300 ms program that shuts down.
	"short": func() {
		lane := NewLane("short", LaneExecutor)
		n := lane.Name("work")
		for range 300 {
			s := lane.Begin(context.Background(), n)
			time.Sleep(time.Millisecond)
			s.End()
		}
		if err := Shutdown(context.Background()); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	},
	// quit leaves without Shutdown after a flush.
	"quit": func() {
		lane := NewLane("quit", LaneExecutor)
		lane.Report(lane.Name("work"), 1, 2)
		_ = Flush(context.Background())
		os.Exit(0)
	},
	// idle prints what the default runtime thinks.
	"idle": func() {
		before := Stats().State
		lane := NewLane("idle", LaneExecutor)
		st := Stats()
		fmt.Print(before, " ", st.State, " ", lane.Active(), " ", ReportingActive(), " ", st.Reason)
	},
	// attach waits until the default runtime is recorded, reports one dispatch and leaves.
	"attach": func() {
		lane := NewLane("attach", LaneExecutor)
		for range 2000 {
			if lane.Active() {
				lane.Report(lane.Name("work"), 1, 2)
				_ = Shutdown(context.Background())
				os.Exit(0)
			}
			time.Sleep(5 * time.Millisecond)
		}
		os.Exit(1)
	},
}

func child(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{childVariable + "=" + name, "HOME=" + t.TempDir(), "OTEL_SERVICE_NAME=child"}, env...)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestShortProgramIsRecordedWhole(t *testing.T) {
	c := collectortest.NewUnix(t, filepath.Join(t.TempDir(), "s.sock"))
	c.Record("r")
	if out, err := child(t, "short", "STAX_ENDPOINT="+c.Endpoint(), "STAX_RECORDING=tok").Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.See(func(v collectortest.View) {
		if arrived, dropped := account(t, v, "r"); arrived != 300 || dropped != 0 {
			t.Errorf("%d arrived, %d dropped, want 300 and 0", arrived, dropped)
		}
		if !v.Final("r") {
			t.Error("no final heartbeat")
		}
		r := v.Traces()[0]
		if r.Token != "tok" || r.Resource[semconv.ServiceNameKey] != "child" {
			t.Errorf("token %q, resource %v", r.Token, r.Resource)
		}
	})
}

func TestProgramWithoutShutdown(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	if out, err := child(t, "quit", "STAX_ENDPOINT="+c.Endpoint()).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.See(func(v collectortest.View) {
		if arrived, _ := account(t, v, "r"); arrived != 1 || v.Final("r") {
			t.Errorf("%d arrived, final %v: want 1 and no farewell", arrived, v.Final("r"))
		}
	})
}

func TestDefaultRuntimeStates(t *testing.T) {
	for _, tc := range []struct{ env, want string }{
		{"STAX_ENDPOINT=off", "disabled disabled false false STAX_ENDPOINT=off"},
		{"STAX_ENDPOINT=ftp://x", "disabled disabled false false otlp: endpoint \"ftp://x\" is neither unix:///path nor http://host:port"},
		{"STAX_ENDPOINT=", "disabled disconnected false false "}, // not asked yet, or no socket there
	} {
		out, err := child(t, "idle", tc.env, "TMPDIR="+t.TempDir()).Output()
		if err != nil || !strings.HasPrefix(string(out), tc.want) {
			t.Errorf("%s: got %q (%v), want %q", tc.env, out, err, tc.want)
		}
	}
}

// TestDefaultSocket attaches through the private socket of the user, and refuses a directory that others may enter.
func TestDefaultSocket(t *testing.T) {
	run := t.TempDir()
	dir := filepath.Join(run, "stax")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := collectortest.NewUnix(t, filepath.Join(dir, "target.sock"))
	c.Record("r")
	if out, err := child(t, "attach", "XDG_RUNTIME_DIR="+run).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.See(func(v collectortest.View) {
		if arrived, _ := account(t, v, "r"); arrived != 1 {
			t.Errorf("%d arrived, want 1", arrived)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkPrivateDir(dir); err == nil {
		t.Error("a directory that others may enter was accepted")
	}
	if err := checkPrivateDir(filepath.Join(run, "missing")); err == nil {
		t.Error("a missing directory was accepted")
	}
}
