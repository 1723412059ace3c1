package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/testbed/bench/internal/load"
)

// verifyArchive reads an archive back and compares it with what was sent.
func verifyArchive(ctx context.Context, path string, shape load.Shape, want load.Truth) (err error) {
	r, err := archive.Open(path, archive.ReaderOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	got := load.Truth{Bytes: want.Bytes, Parents: 0}
	seen := make(map[shardKey]*numbers)
	note := func(runtime archive.RuntimeID, seq archive.Seq) {
		key := shardKey{string(runtime), seq.Shard}
		n := seen[key]
		if n == nil {
			n = new(numbers)
			seen[key] = n
		}
		n.count++
		n.sum += seq.N
		n.max = max(n.max, seq.N)
	}
	for rows, err := range archive.Scan[archive.Dispatch](ctx, r) {
		if err != nil {
			return err
		}
		for _, d := range rows {
			got.Dispatches++
			got.DispatchIDs += uint64(d.ID)
			got.DispatchTime += uint64(d.EndNanos - d.StartNanos)
			got.Parents += uint64(d.CommandBuffer)
			note(d.Runtime, d.Seq)
		}
	}
	for rows, err := range archive.Scan[archive.CommandBuffer](ctx, r) {
		if err != nil {
			return err
		}
		for _, c := range rows {
			got.Buffers++
			got.BufferIDs += uint64(c.ID)
			note(c.Runtime, c.Seq)
		}
	}
	for rows, err := range archive.Scan[archive.Wait](ctx, r) {
		if err != nil {
			return err
		}
		for _, w := range rows {
			got.Waits++
			got.WaitIDs += uint64(w.ID)
			note(w.Runtime, w.Seq)
		}
	}
	for rows, err := range archive.Scan[archive.CounterSample](ctx, r) {
		if err != nil {
			return err
		}
		got.Counters += uint64(len(rows))
	}
	certificates, links := uint64(0), uint64(0)
	for rows, err := range archive.Scan[archive.Certificate](ctx, r) {
		if err != nil {
			return err
		}
		certificates += uint64(len(rows))
	}
	for rows, err := range archive.Scan[archive.Link](ctx, r) {
		if err != nil {
			return err
		}
		links += uint64(len(rows))
	}
	switch {
	case r.Manifest().Recording.State != archive.StateFinished:
		return fmt.Errorf("%s: recording is %q, not finished", path, r.Manifest().Recording.State)
	case len(r.Losses()) > 0:
		return fmt.Errorf("%s: %d losses, first: %v", path, len(r.Losses()), r.Losses()[0])
	case certificates != want.Dispatches:
		return fmt.Errorf("%s: %d certificates for %d dispatches", path, certificates, want.Dispatches)
	case links < want.Dispatches && shape == load.ShapeStax:
		return fmt.Errorf("%s: %d links for %d dispatches", path, links, want.Dispatches)
	}
	emitted := want.Emitted
	want.Emitted = nil
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		return fmt.Errorf("%s: the archive does not hold what was sent:\n got %+v\nwant %+v", path, got, want)
	}
	if shape != load.ShapeStax {
		return nil
	}
	for runtime, shards := range emitted {
		for i, n := range shards {
			if n == 0 {
				continue
			}
			if s := seen[shardKey{runtime, uint32(i + 1)}]; s == nil || s.count != n || s.max != n || s.sum != n*(n+1)/2 {
				return fmt.Errorf("%s: runtime %s, shard %d: want numbers 1 to %d, got %+v", path, runtime, i+1, n, s)
			}
		}
	}
	return nil
}

type shardKey struct {
	runtime string
	shard   uint32
}

// numbers of a shard: with count, sum and maximum right, each of 1 … max is there once (or the error is made to measure).
type numbers struct{ count, sum, max uint64 }

// verifyFile counts the records in fileexporter's file: messages with 4 bytes of length each, compressed one by one.
func verifyFile(path string, want load.Truth) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer dec.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	var spans, ids uint64
	var packed, plain []byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		packed = slices.Grow(packed[:0], int(binary.BigEndian.Uint32(size[:])))[:binary.BigEndian.Uint32(size[:])]
		if _, err := io.ReadFull(in, packed); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if plain, err = dec.DecodeAll(packed, plain[:0]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		err = countSpans(plain, func(span []byte, isRecord bool) {
			if isRecord {
				spans++
				ids += binary.BigEndian.Uint64(span)
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if sum := want.DispatchIDs + want.BufferIDs + want.WaitIDs; spans != want.Records() || ids != sum {
		return fmt.Errorf("%s: %d records, want %d (sum of ids %x, want %x)", path, spans, want.Records(), ids, sum)
	}
	return nil
}

// countSpans calls yield with the id of each span; a span without parent and with equal times is a segment root, no record.
func countSpans(request []byte, yield func(id []byte, isRecord bool)) error {
	return fields(request, 1, func(resource []byte) error {
		return fields(resource, 2, func(scope []byte) error {
			return fields(scope, 2, func(span []byte) error {
				var id, start, end []byte
				err := eachField(span, func(n protowire.Number, v []byte) error {
					switch n {
					case 2:
						id = v
					case 7:
						start = v
					case 8:
						end = v
					}
					return nil
				})
				if err == nil && len(id) != 8 {
					err = errors.New("span without id")
				}
				if err == nil {
					yield(id, string(start) != string(end))
				}
				return err
			})
		})
	})
}

func fields(b []byte, want protowire.Number, f func([]byte) error) error {
	return eachField(b, func(n protowire.Number, v []byte) error {
		if n != want {
			return nil
		}
		return f(v)
	})
}

// eachField calls f with each field's content, without the length of a message.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		n, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(n, typ, b[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		v := b[tag : tag+size]
		if typ == protowire.BytesType {
			v, _ = protowire.ConsumeBytes(v)
		}
		if err := f(n, v); err != nil {
			return err
		}
		b = b[tag+size:]
	}
	return nil
}
