package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/semconv"
)

const (
	synchronous = "synchronous"
	unproven    = "unproven"

	slept        = "slept"
	spun         = "spun"
	contradicted = "contradicted"

	shortWork = 3 * time.Millisecond
	longWork  = 40 * time.Millisecond // long enough for samples
)

// blockers makes the kinds that leave the processor. Each is used by one pair of goroutines.
func blockers() ([]kind, error) {
	signal := make(chan struct{})
	var mutex, condMutex sync.Mutex
	cond := sync.NewCond(&condMutex)
	done := false
	var group sync.WaitGroup
	near, far, err := connection()
	if err != nil {
		return nil, err
	}
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	block := func(name, reason string, prepare, wake func(), wait func(*waiter, *job)) kind {
		return kind{
			name: name, reason: reason, corroboration: slept, class: synchronous, length: shortWork,
			prepare: prepare, wake: wake, wait: wait,
		}
	}
	return []kind{
		block("channel", semconv.WaitReasonIPC, nil,
			func() { signal <- struct{}{} },
			func(w *waiter, j *job) { waitChannel(w, j, signal) }),
		block("mutex", semconv.WaitReasonLock,
			mutex.Lock, mutex.Unlock,
			func(w *waiter, j *job) { waitMutex(w, j, &mutex) }),
		block("sleep", semconv.WaitReasonSleep, nil, nil, waitSleep),
		block("network", semconv.WaitReasonConn, nil,
			func() { _, _ = far.Write([]byte{1}) },
			func(w *waiter, j *job) { waitNetwork(w, j, near) }),
		block("cond", semconv.WaitReasonIdle, nil,
			func() { condMutex.Lock(); done = true; condMutex.Unlock(); cond.Signal() },
			func(w *waiter, j *job) { waitCond(w, j, cond, &done) }),
		block("group", semconv.WaitReasonSem,
			func() { group.Add(1) }, group.Done,
			func(w *waiter, j *job) { waitGroup(w, j, &group) }),
		block("pipe", semconv.WaitReasonSyscall, nil,
			func() { _, _ = syscall.Write(pipe[1], []byte{1}) },
			func(w *waiter, j *job) { waitPipe(w, j, pipe[0]) }),
	}, nil
}

func connection() (near, far net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, fmt.Errorf("dial: %w", err)
	}
	if far, err = l.Accept(); err != nil {
		return nil, nil, fmt.Errorf("accept: %w", err)
	}
	return near, far, nil
}

// Each of these begins a wait and blocks, at a place of its own.

//go:noinline
func waitChannel(w *waiter, j *job, c <-chan struct{}) {
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameChannel))
	<-c
}

//go:noinline
func waitMutex(w *waiter, j *job, m *sync.Mutex) {
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameMutex))
	m.Lock()
	w.unlock(j, m)
}

// unlock gives the mutex back, after the instant at which it was obtained has been noted.
func (w *waiter) unlock(j *job, m *sync.Mutex) {
	w.end(j)
	m.Unlock()
}

//go:noinline
func waitSleep(w *waiter, j *job) {
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameSleep))
	time.Sleep(j.length + 2*shortWork)
	for !j.done.Load() { // the executor was late
		j.again = true
		time.Sleep(time.Millisecond)
	}
}

//go:noinline
func waitNetwork(w *waiter, j *job, c net.Conn) {
	var b [1]byte
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameNetwork))
	_, _ = c.Read(b[:])
}

//go:noinline
func waitCond(w *waiter, j *job, c *sync.Cond, done *bool) {
	c.L.Lock()
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameCond))
	for !*done {
		c.Wait()
	}
	*done = false
	c.L.Unlock()
}

//go:noinline
func waitGroup(w *waiter, j *job, g *sync.WaitGroup) {
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameGroup))
	g.Wait()
}

//go:noinline
func waitPipe(w *waiter, j *job, fd int) {
	var b [1]byte
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), namePipe))
	_, _ = syscall.Read(fd, b[:])
}

// released is set by the executor of the spinning wait and of the lying one.
var released atomic.Bool

var spinKind = kind{
	name: "spin", corroboration: spun, class: synchronous, length: longWork,
	wake: func() { released.Store(true) }, wait: waitSpin,
}

//go:noinline
func waitSpin(w *waiter, j *job) {
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameSpin))
	for !released.Load() {
		scrap = scramble(scrap)
	}
	released.Store(false)
}

var liarKind = kind{
	name: "liar", corroboration: contradicted, class: unproven, length: longWork,
	wake: func() { released.Store(true) }, wait: waitLiar,
}

// waitLiar claims to wait, deep in something that has returned since, and computes something else until the work happens
// to be done. The depth is what gives it away: that a helper or two of a real wait have returned is usual.
//
//go:noinline
func waitLiar(w *waiter, j *job) {
	enterLie(w, j)
	computeElsewhere()
}

//go:noinline
func enterLie(w *waiter, j *job) { prepareLie(w, j) }

//go:noinline
func prepareLie(w *waiter, j *job) { beginLie(w, j) }

//go:noinline
func beginLie(w *waiter, j *job) {
	at := int64(sdk.Now())
	w.begun(j, at, sdk.BeginWait(context.Background(), nameLiar))
}

//go:noinline
func computeElsewhere() {
	for !released.Load() {
		scrap = scramble(scrap)
	}
	released.Store(false)
}

var scrap uint64 = 1

// scramble is about a microsecond of arithmetic.
func scramble(x uint64) uint64 {
	for range 400 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

var (
	nameChannel = sdk.NewName("channel")
	nameMutex   = sdk.NewName("mutex")
	nameSleep   = sdk.NewName("sleep")
	nameNetwork = sdk.NewName("network")
	nameCond    = sdk.NewName("cond")
	nameGroup   = sdk.NewName("group")
	namePipe    = sdk.NewName("pipe")
	nameSpin    = sdk.NewName("spin")
	nameLiar    = sdk.NewName("liar")
)
