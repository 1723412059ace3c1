package validate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

const seqBits = 48

// ParseSeq splits the value of stax.seq. It reports false when n is 0: numbers begin at 1.
func ParseSeq(v int64) (archive.Seq, bool) {
	s := archive.Seq{Shard: uint32(uint64(v) >> seqBits), N: uint64(v) & (1<<seqBits - 1)}
	return s, s.N != 0
}

// ParseAwait decodes one string of stax.wait.awaits. Runtime and Wait of the row are left empty. A queue id may contain
// "@": the part behind the last one is the submission number when it is a number.
func ParseAwait(s string) (archive.Await, error) {
	if ref, ok := strings.CutPrefix(s, semconv.AwaitDispatchPrefix); ok {
		id, err := ParseID(ref)
		return archive.Await{Kind: archive.AwaitDispatch, Ref: id}, err
	}
	if ref, ok := strings.CutPrefix(s, semconv.AwaitCommandBufferPrefix); ok {
		id, err := ParseID(ref)
		return archive.Await{Kind: archive.AwaitCommandBuffer, Ref: id}, err
	}
	queue, ok := strings.CutPrefix(s, semconv.AwaitQueuePrefix)
	if !ok {
		return archive.Await{}, errors.New("await: unknown kind")
	}
	var upTo uint64
	if i := strings.LastIndexByte(queue, '@'); i >= 0 {
		n, err := strconv.ParseUint(queue[i+1:], 10, 64)
		if err != nil || n == 0 {
			return archive.Await{}, fmt.Errorf("await: submission number %.20q is not a number from 1", queue[i+1:])
		}
		queue, upTo = queue[:i], n
	}
	if queue == "" || len(queue) > MaxID {
		return archive.Await{}, errors.New("await: queue id empty or longer than 256 bytes")
	}
	return archive.Await{Kind: archive.AwaitQueue, Queue: archive.QueueID(queue), UpTo: upTo}, nil
}

var errID = errors.New("id is not 16 lower-case hex digits other than all zero")

// ParseID decodes a span or stack id: 16 lower-case hex digits, not all zero.
func ParseID(s string) (uint64, error) {
	v, ok := hex64(s)
	if !ok || v == 0 {
		return 0, errID
	}
	return v, nil
}

// hex64 decodes 16 lower-case hex digits in one pass, since every dispatch has several.
func hex64(s string) (v uint64, ok bool) {
	if len(s) != 16 {
		return 0, false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

func isTraceID(s string) bool {
	if len(s) != 32 {
		return false
	}
	hi, ok1 := hex64(s[:16])
	lo, ok2 := hex64(s[16:])
	return ok1 && ok2 && hi|lo != 0
}

// ParseCounterKey splits an attribute key stax.counter.<set>/<point>/<name>. Only name may contain a slash.
func ParseCounterKey(key string) (set, point, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, semconv.CounterPrefix)
	if !ok {
		return "", "", "", false
	}
	set, rest, ok = strings.Cut(rest, "/")
	if !ok {
		return "", "", "", false
	}
	point, name, ok = strings.Cut(rest, "/")
	return set, point, name, ok && set != "" && point != "" && name != ""
}

// KnownLaneKind reports whether kind is of the lane_kind enum.
func KnownLaneKind(kind string) bool {
	switch kind {
	case semconv.LaneKindGeneric, semconv.LaneKindMetal, semconv.LaneKindCUDA, semconv.LaneKindGPU, semconv.LaneKindExecutor,
		semconv.LaneKindThreadPool, semconv.LaneKindCodec, semconv.LaneKindDatabase, semconv.LaneKindTick, semconv.LaneKindJIT,
		semconv.LaneKindNetwork, semconv.LaneKindStorage:
		return true
	}
	return false
}

func knownUnit(unit string) bool {
	switch unit {
	case semconv.CounterUnitTicks, semconv.CounterUnitCycles, semconv.CounterUnitInvocations, semconv.CounterUnitBytes,
		semconv.CounterUnitPercent, semconv.CounterUnitCount, semconv.CounterUnitNanos:
		return true
	}
	return false
}

func knownOriginKind(kind string) bool {
	switch kind {
	case semconv.OriginKindDispatch, semconv.OriginKindWait, semconv.OriginKindCompletion, semconv.OriginKindFault:
		return true
	}
	return false
}

// AllOnes is the time that hardware reports for "did not resolve".
const AllOnes = uint64(math.MaxUint64)
