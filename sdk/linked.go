package sdk

import (
	"context"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/otlp"
	"github.com/stax-otel/stax/sdk/semconv"
)

func init() {
	link.Of = func(runtime any) link.Target {
		rt, _ := runtime.(*Runtime)
		if rt == nil {
			rt = &std
		}
		rt.init()
		return linked{rt}
	}
	link.Process = processAttributes
	link.NewRuntime = func(s link.Sink, o link.SinkOptions) any {
		rt := NewRuntime(Config{MemoryLimit: o.MemoryLimit})
		rt.sink = s
		if o.Drain > 0 {
			rt.cfg.timing.drain = o.Drain
		}
		return rt
	}
}

// processAttributes are the attributes of [appendResource] that hold for every runtime of the process.
func processAttributes() []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.Int(semconv.ProcessPIDKey, os.Getpid()),
		attribute.Int(semconv.ProcessParentPIDKey, os.Getppid()),
		attribute.String(semconv.ProcessExecutableNameKey, executable()),
		attribute.Int64(semconv.ClockErrorNanosKey, clock.bound.Load()),
	}
	if ns := pidNamespace(); ns != 0 {
		list = append(list, attribute.Int64(semconv.PIDNamespaceKey, int64(ns)))
	}
	return list
}

// linked is a runtime as the optional packages see it.
type linked struct{ rt *Runtime }

func (l linked) Context() context.Context { return l.rt.ctx }

func (l linked) Client() *otlp.Client {
	l.rt.mu.Lock()
	defer l.rt.mu.Unlock()
	return l.rt.endpoint.client
}

func (l linked) Resource(recording string) []byte { return appendResource(nil, l.rt, recording) }

func (l linked) Hold(recording string) (release func()) {
	rt := l.rt
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.holds == nil {
		rt.holds = map[string]int{}
	}
	rt.holds[recording]++
	var once sync.Once
	return func() {
		once.Do(func() {
			rt.mu.Lock()
			if rt.holds[recording]--; rt.holds[recording] == 0 {
				delete(rt.holds, recording)
			}
			rt.mu.Unlock()
			rt.wake()
		})
	}
}

func (l linked) Capture() (thread, at int64, stack uint64) {
	m := OriginMode(l.rt.active.Load())
	if m <= OriginOff {
		return 0, 0, 0
	}
	o := l.rt.capture(nil, m, 3) //nolint:staticcheck // a nil context is allowed
	return o.thread, o.time, l.rt.wireStack(o.stack)
}

// held reports whether the last word of s has to wait. A holder that takes too long is not waited for.
func (rt *Runtime) held(s *session, now time.Time) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.holds[s.id] > 0 && (s.ended.IsZero() || now.Sub(s.ended) < rt.cfg.timing.holdTimeout)
}
