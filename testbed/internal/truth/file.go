package truth

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// File is a truth file read back.
type File struct {
	Process        Process
	Lanes          map[string]Lane // by name
	CommandBuffers map[ID]CommandBuffer
	Dispatches     map[ID]Dispatch
	Simple         []Dispatch      // those reported by a call that tells no id
	Waits          map[uint64]Wait // by number
	Verdicts       map[ID]Verdict  // by dispatch
	End            *End            // nil: the target did not get to say goodbye
}

// Read reads the truth file at path. A torn last line, as a killed target leaves it, is ignored when the file has no
// end line; any other malformed line is an error.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("truth: open: %w", err)
	}
	defer f.Close()
	out := &File{
		Lanes:          map[string]Lane{},
		CommandBuffers: map[ID]CommandBuffer{},
		Dispatches:     map[ID]Dispatch{},
		Waits:          map[uint64]Wait{},
		Verdicts:       map[ID]Verdict{},
	}
	r := bufio.NewReaderSize(f, 1<<16)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 && out.End != nil {
				return nil, fmt.Errorf("truth: %s:%d: text after the end line", path, n)
			}
			return out, nil // what has no newline is torn
		}
		if err != nil {
			return nil, fmt.Errorf("truth: read %s: %w", path, err)
		}
		var l Line
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("truth: %s:%d: %w", path, n, err)
		}
		out.add(l)
	}
}

func (f *File) add(l Line) {
	switch {
	case l.Process != nil:
		f.Process = *l.Process
	case l.Lane != nil:
		f.Lanes[l.Lane.Name] = *l.Lane
	case l.CommandBuffer != nil:
		f.CommandBuffers[l.CommandBuffer.ID] = *l.CommandBuffer
	case l.Dispatch != nil && l.Dispatch.ID == 0:
		f.Simple = append(f.Simple, *l.Dispatch)
	case l.Dispatch != nil:
		f.Dispatches[l.Dispatch.ID] = *l.Dispatch
	case l.Wait != nil:
		f.Waits[l.Wait.Number] = *l.Wait
	case l.Verdict != nil:
		f.Verdicts[l.Verdict.Dispatch] = *l.Verdict
	case l.End != nil:
		f.End = l.End
	}
}

// Records is the number of sequenced records that the target emitted as far as the file knows.
func (f *File) Records() int {
	return len(f.Dispatches) + len(f.Simple) + len(f.CommandBuffers) + len(f.Waits)
}

// Summary describes the durations of a group of dispatches.
type Summary struct {
	Count                   int
	TotalNanos              int64
	MinNanos, MaxNanos      int64
	P50, P95, P99           int64 // nearest rank: the smallest value with at least p % of the values at or below it
	FirstStart, LastEnd     int64
	Faulted                 int
	Classes                 map[string]int
	OwnedMin, OwnedMax      int64
	CountersOK, CountersBad int
}

// Summarise groups all dispatches by key and describes each group.
func (f *File) Summarise(key func(Dispatch) string) map[string]Summary {
	groups := map[string][]Dispatch{}
	for _, d := range f.Dispatches {
		groups[key(d)] = append(groups[key(d)], d)
	}
	for _, d := range f.Simple {
		groups[key(d)] = append(groups[key(d)], d)
	}
	out := map[string]Summary{}
	for k, ds := range groups {
		out[k] = f.summary(ds)
	}
	return out
}

func (f *File) summary(ds []Dispatch) Summary {
	s := Summary{Count: len(ds), Classes: map[string]int{}, FirstStart: ds[0].StartNanos, LastEnd: ds[0].EndNanos}
	durations := make([]int64, 0, len(ds))
	for _, d := range ds {
		durations = append(durations, d.EndNanos-d.StartNanos)
		s.TotalNanos += d.EndNanos - d.StartNanos
		s.FirstStart = min(s.FirstStart, d.StartNanos)
		s.LastEnd = max(s.LastEnd, d.EndNanos)
		if d.Fault != "" {
			s.Faulted++
		}
		for _, c := range d.Counters {
			if c.State == "ok" {
				s.CountersOK++
			} else {
				s.CountersBad++
			}
		}
		if v, ok := f.Verdicts[d.ID]; ok {
			s.Classes[v.Class]++
			s.OwnedMin += v.OwnedMin
			s.OwnedMax += v.OwnedMax
		}
	}
	slices.Sort(durations)
	s.MinNanos, s.MaxNanos = durations[0], durations[len(durations)-1]
	s.P50, s.P95, s.P99 = Rank(durations, 50), Rank(durations, 95), Rank(durations, 99)
	return s
}

// Rank returns the p-th percentile of the sorted values by nearest rank. It needs at least one value.
func Rank(sorted []int64, p int) int64 {
	i := (len(sorted)*p + 99) / 100 // ceil
	return sorted[max(i, 1)-1]
}

// SortedIDs returns the keys of m in ascending order.
func SortedIDs[V any](m map[ID]V) []ID { return slices.Sorted(maps.Keys(m)) }
