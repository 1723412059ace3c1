//go:build unix

package archive

import (
	"io"
	"testing"
)

func BenchmarkParquetWrite(b *testing.B) {
	g := newGenerator(1)
	rows := make([]Dispatch, 1<<16)
	g.dispatches(rows)
	names := map[string]string{} // equal strings are the same bytes, as decoding a log gives them
	for i, d := range rows {
		if _, ok := names[d.Name]; !ok {
			names[d.Name] = d.Name
		}
		rows[i].Name = names[d.Name]
	}
	var info TableInfo
	n := 0
	cpu := cpuTime()
	for b.Loop() {
		w := newTableWriter(tableFor[Dispatch](), io.Discard, int64(len(rows)))
		if err := w.write(refTo(rows)); err != nil {
			b.Fatal(err)
		}
		var err error
		if info, err = w.close(); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
	b.ReportMetric(float64(cpuTime()-cpu)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(info.Bytes)/float64(info.Rows), "B/row")
}
