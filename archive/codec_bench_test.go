package archive

import "testing"

func BenchmarkEncodeFrame(b *testing.B) {
	g := newGenerator(1)
	batches := make([]Batch, 256)
	for i := range batches {
		batches[i].Dispatches = make([]Dispatch, 256)
		g.dispatches(batches[i].Dispatches)
	}
	e := newBatchEncoder()
	var buf []byte
	var bytes, rows int64
	for i := 0; b.Loop(); i++ {
		var err error
		buf, err = e.encode(buf[:0], &batches[i%len(batches)])
		if err != nil {
			b.Fatal(err)
		}
		e.commit()
		bytes += int64(len(buf))
		rows += 256
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	b.ReportMetric(float64(bytes)/float64(rows), "B/row")
}

func BenchmarkDecodeFrame(b *testing.B) {
	g := newGenerator(1)
	e := newBatchEncoder()
	var frames [][]byte
	for range 256 {
		batch := Batch{Dispatches: make([]Dispatch, 256)}
		g.dispatches(batch.Dispatches)
		f, err := e.encode(nil, &batch)
		if err != nil {
			b.Fatal(err)
		}
		e.commit()
		frames = append(frames, f)
	}
	schema, err := parseSchema(appendSchema(nil))
	if err != nil {
		b.Fatal(err)
	}
	rows := make([]Dispatch, 256)
	var d sectionDecoder
	var sections []section
	n := 0
	for b.Loop() {
		var st stringTable
		for _, f := range frames {
			if sections, err = parseBatch(sections, f, schema, &st); err != nil {
				b.Fatal(err)
			}
			if err := d.decode(refTo(rows), sections[0], &st); err != nil {
				b.Fatal(err)
			}
			n += len(rows)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}
