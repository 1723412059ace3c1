package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stax-otel/stax/testbed/bench/internal/load"
)

// Result is everything that was measured.
type Result struct {
	Machine string     `json:"machine"`
	Date    string     `json:"date"`
	Options string     `json:"options"`
	Rows    []Measured `json:"rows"`
}

// Row is one kind of load.
type Row struct {
	Shape       load.Shape     `json:"shape"`
	Transport   load.Transport `json:"transport"`
	Batch       int            `json:"batch"`
	Calibration bool           `json:"calibration,omitempty"` // otlpreceiver alone
}

func (r Row) String() string {
	s := fmt.Sprintf("%s %s %d", r.Shape, r.Transport, r.Batch)
	if r.Calibration {
		s += " nop"
	}
	return s
}

// Measured holds a row's runs; the i-th of each side are a pair.
type Measured struct {
	Row
	Peer []Run `json:"peer"`
	Stax []Run `json:"stax,omitempty"`
}

// Run is one server's run.
type Run struct {
	Records    uint64        `json:"records"`
	Dispatches uint64        `json:"dispatches"`
	Sent       uint64        `json:"sent_bytes"`
	LoadCPU    time.Duration `json:"load_cpu_ns"` // until the last acknowledgement
	LoadWall   time.Duration `json:"load_wall_ns"`
	CloseCPU   time.Duration `json:"close_cpu_ns"` // from there until everything is closed
	CloseWall  time.Duration `json:"close_wall_ns"`
	LoadRSS    int64         `json:"load_peak_rss_bytes"`
	PeakRSS    int64         `json:"peak_rss_bytes"`
	Disk       int64         `json:"disk_bytes"`
}

// Ingest is records per CPU second until the last acknowledgement.
func (r Run) Ingest() float64 { return float64(r.Records) / r.LoadCPU.Seconds() }

// Closed is records per CPU second with closing included.
func (r Run) Closed() float64 { return float64(r.Records) / (r.LoadCPU + r.CloseCPU).Seconds() }

// CloseEach is the CPU time of closing for one record, in ns.
func (r Run) CloseEach() float64 { return float64(r.CloseCPU.Nanoseconds()) / float64(r.Records) }

// RSS is the peak over the whole run in bytes.
func (r Run) RSS() float64 { return float64(r.PeakRSS) }

// DiskPerDispatch is everything on disk divided by the dispatches.
func (r Run) DiskPerDispatch() float64 { return float64(r.Disk) / float64(r.Dispatches) }

// spread is a median with its range.
type spread struct{ median, min, max float64 }

func spreadOf(vs []float64) spread {
	vs = slices.Sorted(slices.Values(vs))
	n := len(vs)
	if n == 0 {
		return spread{}
	}
	return spread{median: (vs[(n-1)/2] + vs[n/2]) / 2, min: vs[0], max: vs[n-1]}
}

func of(runs []Run, value func(Run) float64) spread {
	vs := make([]float64, len(runs))
	for i, r := range runs {
		vs[i] = value(r)
	}
	return spreadOf(vs)
}

func (s spread) format(digits int, unit float64) string {
	return fmt.Sprintf("%.*f [%.*f–%.*f]", digits, s.median/unit, digits, s.min/unit, digits, s.max/unit)
}

// Print writes the table, at most 100 columns wide.
func (r Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "stax load test · %s · %s\n%s\n\n", r.Date, r.Machine, r.Options)
	const format = "%-5s %-4s %5s  %-6s %-15s %-15s %-18s %9s %13s\n"
	fmt.Fprintf(&b, "%-24s %-50s %9s %13s\n", "", "1000 spans per second of server CPU", "RSS MB", "B/dispatch")
	fmt.Fprintf(&b, format, "shape", "via", "batch", "until", "peer", "stax", "stax/peer", "peer stax", "peer stax")
	for _, m := range r.Rows {
		m.print(&b, format)
	}
	b.WriteString("\npeer     otlpreceiver → fileexporter (protobuf, zstd per message; never synced); (nop): → nothing\n" +
		"until    ack: last request acknowledged, data safe from kill -9 in stax's log, in the peer's buffer\n" +
		"         closed: stax's archive sealed, merged, links derived; peer's file flushed. Both read back\n" +
		"shape    stax: as stax's SDK sends. plain: 4 attributes, 1.33 links with 3 attributes\n" +
		"via      grpc: TCP on loopback. http: OTLP/HTTP on a unix socket. 4 connections\n" +
		"RSS      peak until then. B/dispatch: everything on disk, closed\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (m Measured) print(b *strings.Builder, format string) {
	row := []any{m.Shape, m.Transport, strconv.Itoa(m.Batch)}
	if m.Calibration {
		fmt.Fprintf(b, format, append(row, "(nop)", of(m.Peer, Run.Ingest).format(0, 1e3), "", "",
			fmt.Sprintf("%4.0f %4s", of(m.Peer, Run.RSS).median/1e6, ""), "")...)
		return
	}
	ratio := func(value func(Run) float64) spread {
		vs := make([]float64, min(len(m.Stax), len(m.Peer)))
		for i := range vs {
			vs[i] = value(m.Stax[i]) / value(m.Peer[i])
		}
		return spreadOf(vs)
	}
	line := func(row []any, until string, value, rss func(Run) float64, disk string) {
		fmt.Fprintf(b, format, append(row, until, of(m.Peer, value).format(0, 1e3), of(m.Stax, value).format(0, 1e3),
			ratio(value).format(2, 1), fmt.Sprintf("%4.0f %4.0f", of(m.Peer, rss).median/1e6, of(m.Stax, rss).median/1e6), disk)...)
	}
	line(row, "ack", Run.Ingest, func(r Run) float64 { return float64(r.LoadRSS) }, "")
	line([]any{"", "", ""}, "closed", Run.Closed, Run.RSS,
		fmt.Sprintf("%6.1f %6.1f", of(m.Peer, Run.DiskPerDispatch).median, of(m.Stax, Run.DiskPerDispatch).median))
}
