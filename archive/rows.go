package archive

// This file is the logical schema: one struct per table, plain values only, flat, in the order of
// the Parquet columns. Writers fill them, readers return them; nothing here knows OTLP. The tags name
// the column and its Parquet encoding (schema.go): dict for what repeats, delta for what grows, plain
// for random ids.
// All times are Unix nanoseconds in the target's clock domain unless a field says otherwise.
// They are stored as reported: zero, all-ones (-1 after the conversion to int64) and end < start
// are legal contents, and it is the reader's business to say so.

// RuntimeID identifies one target-side instrumentation runtime: one SDK instance in one process
// start. It is opaque text (the SDK's is 32 hex digits); for a target that sends no stax.runtime.id
// the receiver derives one.
type RuntimeID string

// LaneID identifies a lane within its runtime. Opaque text.
type LaneID string

// QueueID identifies a concrete queue within its runtime. Empty: not reported.
type QueueID string

// ShaderID is the stable identity of the code a dispatch ran. Empty: not reported.
type ShaderID string

// CounterSetID identifies a counter set within its runtime.
type CounterSetID string

// DispatchID is an OTLP span id read big endian. 0: none.
type DispatchID uint64

// CommandBufferID is an OTLP span id read big endian. 0: none.
type CommandBufferID uint64

// WaitID is an OTLP span id read big endian. 0: none.
type WaitID uint64

// StackID is the content hash of a captured stack within its runtime. 0: no stack.
type StackID uint64

// TraceID is an OTLP trace id. All zero: none.
type TraceID [16]byte

// Seq numbers a record within its runtime before anything can drop it: N counts from 1 within a
// shard. N == 0 means that the target numbers nothing (it is "unsequenced").
type Seq struct {
	Shard uint32 `parquet:"seq_shard,dict"`
	N     uint64 `parquet:"seq_n,delta"`
}

// Runtime is one target-side runtime. A later row for the same id replaces an earlier one.
type Runtime struct {
	ID              RuntimeID `parquet:"runtime,dict"`
	PID             int64     `parquet:"pid"`        // in the collector's PID namespace
	TargetPID       int64     `parquet:"target_pid"` // as the target sees itself
	ParentPID       int64     `parquet:"parent_pid"` // 0: unknown
	ServiceName     string    `parquet:"service_name,dict"`
	Executable      string    `parquet:"executable,dict"`
	CommandLine     string    `parquet:"command_line,dict"`
	SDKName         string    `parquet:"sdk_name,dict"`
	SDKVersion      string    `parquet:"sdk_version,dict"`
	SDKLanguage     string    `parquet:"sdk_language,dict"`
	FirstSeenNanos  int64     `parquet:"first_seen_ns"`  // collector clock
	ClockErrorNanos int64     `parquet:"clock_error_ns"` // bound on |target clock - Unix time on this host|; -1: unknown
	Sequenced       bool      `parquet:"sequenced"`      // the target numbers its records (Seq)
}

// Lane is a logical executor of one runtime. A later row for the same (Runtime, ID) replaces an earlier one.
type Lane struct {
	Runtime   RuntimeID `parquet:"runtime,dict"`
	ID        LaneID    `parquet:"lane,dict"`
	Name      string    `parquet:"name,dict"`
	Kind      string    `parquet:"kind,dict"`  // semconv.LaneKind*; explicit, never guessed
	PseudoTID uint32    `parquet:"pseudo_tid"` // >= 0xFFF0_0000, unique in the archive per (pid, lane)
	// ClockErrorNanos bounds the error of this lane's times against the runtime's clock (a GPU clock, say). 0: same clock.
	ClockErrorNanos int64 `parquet:"clock_error_ns"`
}

// Thread is a CPU thread that some origin, wait or sample names.
type Thread struct {
	Runtime RuntimeID `parquet:"runtime,dict"`
	ID      int64     `parquet:"thread"`
	Name    string    `parquet:"name,dict"`
}

// Origin says where on the CPU something was caused. The zero value means that none was reported.
type Origin struct {
	ThreadID    int64   `parquet:"origin_thread,dict"`    // OS thread id; 0: none
	GoroutineID int64   `parquet:"origin_goroutine,dict"` // 0: unknown or not a Go target
	TimeNanos   int64   `parquet:"origin_ns,delta"`
	Stack       StackID `parquet:"origin_stack,dict"` // exact stack captured in the target; 0: none
	// ThreadLocked says that the target declares thread and code of the origin to belong together (a goroutine locked to
	// its thread, say): evidence about the thread is evidence about the code.
	ThreadLocked bool `parquet:"origin_thread_locked"`
	// CPUTrace and CPUSpan are the CPU span context active at the origin, if any.
	CPUTrace TraceID `parquet:"origin_cpu_trace,dict"`
	CPUSpan  uint64  `parquet:"origin_cpu_span,dict"`
}

// Present reports whether any origin was reported.
func (o Origin) Present() bool {
	return o.ThreadID != 0 || o.TimeNanos != 0 || o.Stack != 0 || o.CPUSpan != 0
}

// Dispatch is one unit of work on a lane. Its dispatch origin is inline: there is at most one.
type Dispatch struct {
	Runtime       RuntimeID       `parquet:"runtime,dict"`
	Lane          LaneID          `parquet:"lane,dict"`
	ID            DispatchID      `parquet:"dispatch"`
	CommandBuffer CommandBufferID `parquet:"command_buffer,dict"`
	Queue         QueueID         `parquet:"queue,dict"`
	QueueSeq      uint64          `parquet:"queue_seq,delta"` // submission number on Queue, from 1; 0: not reported
	Name          string          `parquet:"name,dict"`
	Shader        ShaderID        `parquet:"shader,dict"`
	StartNanos    int64           `parquet:"start_ns,delta"`
	EndNanos      int64           `parquet:"end_ns,delta"`
	Faulted       bool            `parquet:"faulted"`
	StatusMessage string          `parquet:"status_message,dict"`
	Origin        Origin          `parquet:",inline"`
	Trace         TraceID         `parquet:"trace,dict"` // the lane segment's trace
	Tags          string          `parquet:"tags,dict"`  // canonical JSON object (sorted keys) of the free attributes; "" when none
	Seq           Seq             `parquet:",inline"`
}

// CommandBuffer groups dispatches. Its times may lie inside those of its dispatches: stored as reported.
type CommandBuffer struct {
	Runtime       RuntimeID       `parquet:"runtime,dict"`
	Lane          LaneID          `parquet:"lane,dict"`
	ID            CommandBufferID `parquet:"command_buffer"`
	Queue         QueueID         `parquet:"queue,dict"`
	QueueSeq      uint64          `parquet:"queue_seq,delta"`
	Name          string          `parquet:"name,dict"`
	StartNanos    int64           `parquet:"start_ns,delta"`
	EndNanos      int64           `parquet:"end_ns,delta"`
	Faulted       bool            `parquet:"faulted"`
	StatusMessage string          `parquet:"status_message,dict"`
	Origin        Origin          `parquet:",inline"`
	Trace         TraceID         `parquet:"trace,dict"`
	Tags          string          `parquet:"tags,dict"`
	Seq           Seq             `parquet:",inline"`
}

// Wait is an interval in which a CPU thread waited for work that it names in Await rows.
// Origin.TimeNanos equals BeginNanos unless the target says otherwise.
type Wait struct {
	Runtime    RuntimeID `parquet:"runtime,dict"`
	ID         WaitID    `parquet:"wait"`
	Name       string    `parquet:"name,dict"`
	BeginNanos int64     `parquet:"begin_ns,delta"`
	EndNanos   int64     `parquet:"end_ns,delta"`
	TimedOut   bool      `parquet:"timed_out"` // the target says that it gave up waiting
	Origin     Origin    `parquet:",inline"`
	Trace      TraceID   `parquet:"trace,dict"`
	Tags       string    `parquet:"tags,dict"`
	Seq        Seq       `parquet:",inline"`
}

// AwaitKind says how an Await names what is awaited.
type AwaitKind string

// The three ways to name awaited work.
const (
	AwaitDispatch      AwaitKind = "dispatch"
	AwaitCommandBuffer AwaitKind = "command_buffer"
	AwaitQueue         AwaitKind = "queue" // everything on Queue up to UpTo; UpTo 0: everything dispatched before the wait began
)

// Await is one thing that a wait declares to await.
type Await struct {
	Runtime RuntimeID `parquet:"runtime,dict"`
	Wait    WaitID    `parquet:"wait,dict"`
	Kind    AwaitKind `parquet:"kind,dict"`
	Ref     uint64    `parquet:"ref"` // DispatchID or CommandBufferID by Kind
	Queue   QueueID   `parquet:"queue,dict"`
	UpTo    uint64    `parquet:"up_to,delta"`
}

// OwnerKind says what an id in a shared table refers to.
type OwnerKind string

// Owners of origins, counter samples and links.
const (
	OwnerDispatch      OwnerKind = "dispatch"
	OwnerCommandBuffer OwnerKind = "command_buffer"
	OwnerWait          OwnerKind = "wait"
)

// OriginKind is the role of an origin.
type OriginKind string

// The origin kinds.
const (
	OriginDispatch   OriginKind = "dispatch"
	OriginWait       OriginKind = "wait"
	OriginCompletion OriginKind = "completion"
	OriginFault      OriginKind = "fault"
)

// ExtraOrigin is an origin that is not inline in its owner's row: completion and fault.
type ExtraOrigin struct {
	Runtime   RuntimeID  `parquet:"runtime,dict"`
	OwnerKind OwnerKind  `parquet:"owner_kind,dict"`
	Owner     uint64     `parquet:"owner"`
	Kind      OriginKind `parquet:"kind,dict"`
	Origin    Origin     `parquet:",inline"`
}

// StackFrame is one frame of a stack: Depth 0 is the leaf.
type StackFrame struct {
	Runtime  RuntimeID `parquet:"runtime,dict"`
	Stack    StackID   `parquet:"stack,dict"`
	Depth    uint32    `parquet:"depth"`
	Function string    `parquet:"function,dict"`
	File     string    `parquet:"file,dict"`
	Line     int64     `parquet:"line"`
}

// Counter defines one counter of a set.
type Counter struct {
	Runtime RuntimeID    `parquet:"runtime,dict"`
	Set     CounterSetID `parquet:"counter_set,dict"`
	SetName string       `parquet:"set_name,dict"`
	Index   uint32       `parquet:"index"`
	Name    string       `parquet:"name,dict"`
	Unit    string       `parquet:"unit,dict"` // semconv.CounterUnit*
}

// CounterState says whether a counter sample has a value.
type CounterState string

// The states of a counter sample. Only CounterOK has a value; the others are never numbers.
const (
	CounterOK         CounterState = "ok"
	CounterError      CounterState = "error"      // did not resolve (Metal's all-ones)
	CounterUnresolved CounterState = "unresolved" // slot still zero-filled
)

// CounterSample is one value of one counter. Exactly one of Int and Float is meaningful, by IsFloat.
type CounterSample struct {
	Runtime   RuntimeID    `parquet:"runtime,dict"`
	OwnerKind OwnerKind    `parquet:"owner_kind,dict"`
	Owner     uint64       `parquet:"owner,dict"`
	Lane      LaneID       `parquet:"lane,dict"`
	Set       CounterSetID `parquet:"counter_set,dict"`
	Name      string       `parquet:"name,dict"`
	Point     string       `parquet:"sample_point,dict"` // semconv.SamplePoint* or runtime-defined
	State     CounterState `parquet:"state,dict"`
	IsFloat   bool         `parquet:"is_float"`
	Int       int64        `parquet:"int_value"`
	Float     float64      `parquet:"float_value"`
}

// Heartbeat is the target's own cumulative count for one shard at the moment a batch was built.
type Heartbeat struct {
	Runtime      RuntimeID `parquet:"runtime,dict"`
	Shard        uint32    `parquet:"seq_shard,dict"`
	TimeNanos    int64     `parquet:"time_ns,delta"`
	Base         uint64    `parquet:"base,delta"`         // highest N handed out before this recording: it owes Base+1 … Emitted
	Emitted      uint64    `parquet:"emitted,delta"`      // highest N handed out in the shard
	DroppedFull  uint64    `parquet:"dropped_full,delta"` // since Base: ring full, newest dropped
	DroppedSend  uint64    `parquet:"dropped_send,delta"` // since Base: batch given up (no collector, or refused)
	DroppedOther uint64    `parquet:"dropped_other,delta"`
	Final        bool      `parquet:"final"` // the target says that nothing follows in this recording
}

// Drop counts records lost at one place for one reason since the previous row of the same key.
type Drop struct {
	Runtime   RuntimeID `parquet:"runtime,dict"` // "" when it cannot be known
	Shard     uint32    `parquet:"seq_shard,dict"`
	Sequenced bool      `parquet:"sequenced"`     // the records carried sequence numbers, so Shard is meaningful
	TimeNanos int64     `parquet:"time_ns,delta"` // collector clock
	Stage     string    `parquet:"stage,dict"`    // sdk | receiver | linker | archive
	Reason    string    `parquet:"reason,dict"`
	Signal    string    `parquet:"signal,dict"` // dispatch | command_buffer | wait | counter | log | metric | profile | span
	Count     uint64    `parquet:"count"`
}

// ClockSample pairs two clocks at one instant.
type ClockSample struct {
	Runtime    RuntimeID `parquet:"runtime,dict"`
	Clock      string    `parquet:"clock,dict"` // monotonic | gpu:<lane> ...
	RawTicks   int64     `parquet:"raw_ticks,delta"`
	UnixNanos  int64     `parquet:"unix_ns,delta"`
	ErrorNanos int64     `parquet:"error_ns"` // half width of the bracket
}

// Diagnostic is an event that a component wants the reader to know.
type Diagnostic struct {
	Runtime   RuntimeID `parquet:"runtime,dict"`
	TimeNanos int64     `parquet:"time_ns,delta"`
	Source    string    `parquet:"source,dict"` // sdk | receiver | archive | recorder
	Code      string    `parquet:"code,dict"`   // stable snake_case
	Text      string    `parquet:"text,dict"`
	Count     uint64    `parquet:"count"`
}

// DiagnosticSilentRuntime is the code of a recorder's diagnostic about a runtime that was asked to report and sent nothing:
// nothing about it can be proven.
const DiagnosticSilentRuntime = "silent_runtime"

// Sample is one observation of a CPU thread that was running, or a count of such observations without an instant.
type Sample struct {
	Runtime     RuntimeID `parquet:"runtime,dict"`
	ThreadID    int64     `parquet:"thread,dict"`    // OS thread id; 0: the source does not say
	GoroutineID int64     `parquet:"goroutine,dict"` // 0: unknown or not a Go target
	TimeNanos   int64     `parquet:"time_ns,delta"`  // 0: the source keeps no instants (pprof); then Count is a sum
	Stack       StackID   `parquet:"stack,dict"`     // 0: no stack
	Count       uint64    `parquet:"count,dict"`     // observations, 1 for one with an instant
	CPUNanos    int64     `parquet:"cpu_ns,dict"`    // processor time that it stands for; 0: unknown
	Source      string    `parquet:"source,dict"`    // ProfileSource.Source
}

// OffCPU is an interval in which a thread, or a goroutine of a Go target, did not run.
// Begin <= Wake <= End as far as the source is right about them.
type OffCPU struct {
	Runtime        RuntimeID `parquet:"runtime,dict"`
	ThreadID       int64     `parquet:"thread,dict"`        // the thread that stopped running at Begin; 0: unknown
	GoroutineID    int64     `parquet:"goroutine,dict"`     // what stopped running; 0: the thread itself
	ResumeThreadID int64     `parquet:"resume_thread,dict"` // the thread that runs from End on; 0: unknown
	BeginNanos     int64     `parquet:"begin_ns,delta"`
	WakeNanos      int64     `parquet:"wake_ns,delta"`     // when it became runnable; 0: unknown
	EndNanos       int64     `parquet:"end_ns,delta"`      // when it ran again
	Reason         string    `parquet:"reason,dict"`       // semconv.WaitReason*
	Detail         string    `parquet:"detail,dict"`       // the source's own words, such as "chan receive"
	Stack          StackID   `parquet:"stack,dict"`        // where it stopped
	WakerThreadID  int64     `parquet:"waker_thread,dict"` // who ended it; 0: unknown (a timer, the network)
	WakerGoroutine int64     `parquet:"waker_goroutine,dict"`
	WakerStack     StackID   `parquet:"waker_stack,dict"`
	Source         string    `parquet:"source,dict"`
}

// OriginEvent is an event in an execution trace that says exactly which goroutine and stack an origin had: the target
// wrote it when it captured the origin (Span 0; the origin is that of ThreadID and TimeNanos in the same runtime), or when
// an ordinary OpenTelemetry span began (Span).
type OriginEvent struct {
	Runtime     RuntimeID `parquet:"runtime,dict"`
	ThreadID    int64     `parquet:"thread,dict"`
	GoroutineID int64     `parquet:"goroutine,dict"`
	TimeNanos   int64     `parquet:"time_ns,delta"`  // the origin's own instant, as in Origin.TimeNanos; 0 with Span
	EventNanos  int64     `parquet:"event_ns,delta"` // when the trace says it happened
	Stack       StackID   `parquet:"stack,dict"`
	Span        uint64    `parquet:"span"` // span id; 0: none
}

// ProfileSource is what one source of CPU samples says about itself for one stretch of time: what it covered, what it lost
// and what it cost. The rows of a runtime are its self-cost ledger. Counts are of this stretch alone.
type ProfileSource struct {
	Runtime         RuntimeID `parquet:"runtime,dict"`
	Source          string    `parquet:"source,dict"` // semconv.ProfileSource*, or the scope name of a foreign producer
	State           string    `parquet:"state,dict"`  // semconv.ProfileState*: running, reduced, refused, lost, stopped
	Reason          string    `parquet:"reason,dict"` // why it is not simply running
	BeginNanos      int64     `parquet:"begin_ns,delta"`
	EndNanos        int64     `parquet:"end_ns,delta"`
	PeriodNanos     int64     `parquet:"period_ns"` // of sampling; 0: unknown or none
	Samples         uint64    `parquet:"samples"`
	Waits           uint64    `parquet:"waits"`       // off-CPU intervals seen
	WaitsShort      uint64    `parquet:"waits_short"` // of these not stored, shorter than the threshold
	ShortNanos      int64     `parquet:"short_ns"`    // and their time
	OriginEvents    uint64    `parquet:"origin_events"`
	Events          uint64    `parquet:"events"`         // raw events read
	Bytes           uint64    `parquet:"bytes"`          // raw bytes that the target sent
	CostNanos       int64     `parquet:"cost_ns"`        // estimated processor time that the target spent on it; 0: unknown
	ProcessNanos    int64     `parquet:"process_cpu_ns"` // processor time of the whole target in the stretch; 0: unknown
	ClockErrorNanos int64     `parquet:"clock_error_ns"` // bound on |source's instants - the runtime's clock|; -1: unknown
}

// Passthrough is OTLP that is not part of the model (a target's own metrics, foreign spans and logs, and profiles that
// cannot be parsed), kept losslessly: Payload is one ExportRequest in protobuf holding one resource.
type Passthrough struct {
	Runtime   RuntimeID `parquet:"runtime,dict"`
	TimeNanos int64     `parquet:"time_ns,delta"` // collector clock at arrival
	Signal    string    `parquet:"signal,dict"`   // traces | metrics | logs | profiles
	Items     uint64    `parquet:"items"`         // spans, data points, log records or samples
	Payload   []byte    `parquet:"payload"`
}

// Link is derived (by internal/origin): the verdict on one origin.
type Link struct {
	Runtime       RuntimeID  `parquet:"runtime,dict"`
	OwnerKind     OwnerKind  `parquet:"owner_kind,dict"`
	Owner         uint64     `parquet:"owner"`
	Kind          OriginKind `parquet:"kind,dict"`
	Status        string     `parquet:"status,dict"` // REQUIREMENTS vocabulary: linked, missing_thread ...
	Grade         string     `parquet:"grade,dict"`  // A B C D or ""
	Weak          bool       `parquet:"weak"`
	DistanceNanos int64      `parquet:"distance_ns"` // to the nearest sample; -1: none
	Stack         StackID    `parquet:"stack,dict"`
}

// Certificate is derived (by internal/origin): the containment verdict on one dispatch and the evidence for it.
type Certificate struct {
	Runtime         RuntimeID  `parquet:"runtime,dict"`
	Dispatch        DispatchID `parquet:"dispatch"`
	Class           string     `parquet:"class,dict"`  // synchronous timed_out waited_late asynchronous unproven
	Reason          string     `parquet:"reason,dict"` // for unproven: why
	Wait            WaitID     `parquet:"wait,dict"`   // the deciding wait; 0: none
	OriginNanos     int64      `parquet:"origin_ns,delta"`
	BeginNanos      int64      `parquet:"begin_ns,delta"`
	EndNanos        int64      `parquet:"end_ns,delta"` // of the wait
	OwnedNanos      int64      `parquet:"owned_ns"`     // overlap of wait and dispatch; 0 unless synchronous
	ClockErrorNanos int64      `parquet:"clock_error_ns"`
	Faulted         bool       `parquet:"faulted"`
	CrossThread     bool       `parquet:"cross_thread"`
	DifferentStack  bool       `parquet:"different_stack"`
	Corroboration   string     `parquet:"corroboration,dict"` // slept spun claimed contradicted
}
