package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"

	"github.com/stax-otel/stax/sdk"
)

var update = flag.Bool("update", false, "rewrite the snapshots in testdata/script")

// TestMain makes this test binary into the commands of the scripts: stax itself, and a target to record.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stax": main, "target": target})
}

// target reports a few dispatches and ends as its flags say.
func target() {
	n := flag.Int("n", 50, "dispatches")
	code := flag.Int("exit", 0, "exit code")
	leave := flag.Bool("leave", false, "exit without sdk.Shutdown")
	stay := flag.Bool("stay", false, "stay until SIGTERM or SIGINT")
	flag.Parse()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	lane := sdk.NewLane("work", sdk.LaneExecutor)
	name, wait := lane.Name("step"), lane.Name("wait for step")
	// The gate is asked for 50 ms at once, then about once a second: a loaded machine needs the second.
	for deadline := time.Now().Add(10 * time.Second); os.Getenv("STAX_ENDPOINT") != "" && !sdk.ReportingActive() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	for range *n {
		origin := lane.CaptureOrigin(context.Background())
		w := sdk.BeginWait(context.Background(), wait)
		start := sdk.Now() // the work runs while the wait lasts
		w.Await(lane.ReportFrom(origin, name, start, max(sdk.Now(), start+1)))
		w.End()
	}
	fmt.Println("ready")
	if *stay {
		<-stop
	}
	end := sdk.Shutdown
	if *leave {
		end = sdk.Flush
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := end(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
	}
	os.Exit(*code)
}

// TestScript runs testdata/script/*.txtar. Each has the texts of small archives: demo.txt with everything about lanes in
// it, cpu.txt with CPU samples and waits, links.txt with an origin of each status.
func TestScript(t *testing.T) {
	texts := map[string][]byte{}
	for _, name := range []string{"demo", "cpu", "links"} {
		a, err := txtar.ParseFile("../../internal/query/testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		texts[name+".txt"] = a.Files[0].Data
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor, "waitcollector": waitCollector,
		},
		Setup: func(env *testscript.Env) error {
			runtime, err := os.MkdirTemp("", "sx") //nolint:usetesting // a socket path must be short, and t.TempDir need not be
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(runtime) })
			env.Setenv("XDG_RUNTIME_DIR", runtime)
			env.Setenv("STAX_DIR", filepath.Join(env.WorkDir, "data"))
			env.Setenv("TZ", "UTC")
			env.Setenv("RUNTIME", runtime)
			for name, text := range texts {
				if err := os.WriteFile(filepath.Join(env.WorkDir, name), text, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// waitFor waits until the live recording with a name has data: "waitfor NAME".
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, "recording "+args[0], func() bool {
		return ts.Exec("stax", "target", "top", "--name", "step", "--limit", "1") == nil && strings.Contains(ts.ReadFile("stdout"), "step") &&
			strings.Contains(ts.ReadFile("stderr"), "asking the live recording "+args[0]+" ")
	})
}

// waitCollector waits until a collector answers on its control socket.
func waitCollector(ts *testscript.TestScript, _ bool, _ []string) {
	poll(ts, "collector", func() bool {
		return ts.Exec("stax", "status") == nil && strings.HasPrefix(ts.ReadFile("stdout"), "Collector")
	})
}

func poll(ts *testscript.TestScript, what string, ready func() bool) {
	deadline := time.Now().Add(20 * time.Second)
	for !ready() {
		if time.Now().After(deadline) {
			ts.Fatalf("no %s within 20 s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
