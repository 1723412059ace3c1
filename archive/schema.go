package archive

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// This file turns the row structs of rows.go into table descriptions, once, at start. Everything
// else (log frames, Parquet files, the text twin, checks) is driven by these descriptions, so a new
// column is a new field with a tag and nothing more.
//
// A field's tag is `parquet:"column"`, `parquet:"column,dict"` or `parquet:"column,delta"`; the
// option picks the Parquet encoding. `parquet:",inline"` splices the columns of a nested struct in.

// kind is the type of a column's cells.
type kind uint8

// The kinds, as they are stored in the schema frame of a log: never renumber.
const (
	kindBool    kind = 1
	kindInt64   kind = 2
	kindUint64  kind = 3
	kindUint32  kind = 4
	kindFloat64 kind = 5
	kindString  kind = 6
	kindBytes   kind = 7
	kindTrace   kind = 8 // 16 bytes
	lastKind         = kindTrace
)

var kindNames = [...]string{
	kindBool: "bool", kindInt64: "int64", kindUint64: "uint64", kindUint32: "uint32",
	kindFloat64: "float64", kindString: "string", kindBytes: "bytes", kindTrace: "bytes16",
}

func (k kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// columnEncoding is the Parquet encoding of a column.
type columnEncoding uint8

const (
	encodingPlain columnEncoding = iota
	encodingDict
	encodingDelta
)

// column describes one column of a table.
type column struct {
	name     string
	kind     kind
	encoding columnEncoding
	offset   uintptr // of the field in the row struct
}

// table describes one table.
type table struct {
	id      uint8 // in log frames: never renumber
	name    string
	row     reflect.Type
	size    uintptr // of a row
	columns []column
	key     string    // the column that rows are looked up by; it gets a bloom filter
	class   DataClass // for the privacy manifest
	derived bool
}

func (t *table) column(name string) *column {
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}

// tables holds every table in the order of Dump and Verify. The ids are part of the format.
var tables = []*table{
	newTable[Runtime](1, "runtimes", "", "process_identity", "Process ids, executable, service and SDK names of the target; its command line when it is known."),
	newTable[Lane](2, "lanes", "", "lane_names", "Names and kinds of the target's lanes."),
	newTable[Thread](3, "threads", "", "thread_names", "Ids and names of the target's threads."),
	newTable[Dispatch](4, "dispatches", "dispatch", "target_work", "Names, times, thread ids, status texts and free tags of the target's work."),
	newTable[CommandBuffer](5, "command_buffers", "command_buffer", "target_work", "Names, times, thread ids, status texts and free tags of the target's work."),
	newTable[Wait](6, "waits", "wait", "waits", "Names, times, thread ids and free tags of the target's waits."),
	newTable[Await](7, "awaits", "", "waits", "Names, times, thread ids and free tags of the target's waits."),
	newTable[ExtraOrigin](8, "extra_origins", "", "cpu_origins", "Thread ids, times and call stacks of the target's code where it queued, awaited and completed work."),
	newTable[StackFrame](9, "stack_frames", "", "call_stacks", "Function names, source file paths and line numbers of the target's code."),
	newTable[Counter](10, "counters", "", "counters", "Definitions and values of the target's counters."),
	newTable[CounterSample](11, "counter_samples", "", "counters", "Definitions and values of the target's counters."),
	newTable[Heartbeat](12, "heartbeats", "", "bookkeeping", "Counts and clock readings of the recording itself."),
	newTable[Drop](13, "drops", "", "bookkeeping", "Counts and clock readings of the recording itself."),
	newTable[ClockSample](14, "clock_samples", "", "bookkeeping", "Counts and clock readings of the recording itself."),
	newTable[Diagnostic](15, "diagnostics", "", "diagnostics", "Messages of the recorder and the SDKs."),
	newTable[Passthrough](16, "passthrough", "", "foreign_telemetry", "OTLP data of the target outside stax's model, kept as it came, including all its attributes."),
	newTable[Sample](19, "samples", "", "cpu_activity", "When which thread ran which code, and when and why it did not."),
	newTable[OffCPU](20, "off_cpu", "", "cpu_activity", "When which thread ran which code, and when and why it did not."),
	newTable[OriginEvent](21, "origin_events", "", "cpu_origins", "Thread ids, times and call stacks of the target's code where it queued, awaited and completed work."),
	newTable[ProfileSource](22, "profile_sources", "", "bookkeeping", "Counts and clock readings of the recording itself."),
	derivedTable(newTable[Link](firstDerived, "links", "", "derived", "Conclusions drawn from the other tables.")),
	derivedTable(newTable[Certificate](18, "certificates", "dispatch", "derived", "Conclusions drawn from the other tables.")),
}

// Derived tables stand last and never in logs.
const (
	firstDerived  = 17 // id of the first of them
	derivedTables = 2
)

func derivedTable(t *table) *table {
	t.derived = true
	return t
}

var (
	tableByType = map[reflect.Type]*table{}
	tableByName = map[string]*table{}
	tableByID   [256]*table
)

func init() {
	for _, t := range tables {
		tableByType[t.row] = t
		tableByName[t.name] = t
		tableByID[t.id] = t
	}
}

func tableFor[T Row]() *table { return tableByType[reflect.TypeFor[T]()] }

func newTable[T Row](id uint8, name, key, class, detail string) *table {
	t := &table{
		id: id, name: name, row: reflect.TypeFor[T](), size: reflect.TypeFor[T]().Size(),
		key: key, class: DataClass{Class: class, Detail: detail},
	}
	t.addColumns(t.row, 0)
	return t
}

func (t *table) addColumns(row reflect.Type, base uintptr) {
	for i := range row.NumField() {
		f := row.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if option == "inline" {
			t.addColumns(f.Type, base+f.Offset)
			continue
		}
		c := column{name: name, offset: base + f.Offset}
		switch option {
		case "":
		case "dict":
			c.encoding = encodingDict
		case "delta":
			c.encoding = encodingDelta
		default:
			panic(fmt.Sprintf("archive: %s.%s: unknown tag option %q", row, f.Name, option))
		}
		switch f.Type.Kind() {
		case reflect.Bool:
			c.kind = kindBool
		case reflect.Int64:
			c.kind = kindInt64
		case reflect.Uint64:
			c.kind = kindUint64
		case reflect.Uint32:
			c.kind = kindUint32
		case reflect.Float64:
			c.kind = kindFloat64
		case reflect.String:
			c.kind = kindString
		case reflect.Slice:
			c.kind = kindBytes
		case reflect.Array:
			c.kind = kindTrace
		default:
			panic(fmt.Sprintf("archive: %s.%s: no column kind for %s", row, f.Name, f.Type))
		}
		if (c.kind == kindString || c.kind == kindTrace) && c.encoding != encodingDict {
			panic(fmt.Sprintf("archive: %s.%s: text and trace ids are dictionary columns", row, f.Name))
		}
		t.columns = append(t.columns, c)
	}
}

// rowsRef refers to n consecutive rows of one table without their static type. It is valid as long
// as the slice that it was made from. It is the only door to the unsafe field access below: the
// offsets and kinds of a column come from reflection over the very type of the rows, so an access
// through a column of the same table is always inside a row and of the right type.
type rowsRef struct {
	table *table
	base  unsafe.Pointer
	n     int
}

func refTo[T Row](rows []T) rowsRef {
	return rowsRef{table: tableFor[T](), base: unsafe.Pointer(unsafe.SliceData(rows)), n: len(rows)}
}

// slice returns the rows i to j.
func (r rowsRef) slice(i, j int) rowsRef {
	if i == j {
		return rowsRef{table: r.table}
	}
	return rowsRef{table: r.table, base: unsafe.Add(r.base, uintptr(i)*r.table.size), n: j - i}
}

// cell returns the address of column c in row i as a *F. F must fit c.kind.
func cell[F bool | int64 | uint64 | uint32 | float64 | string | []byte | TraceID](r rowsRef, c *column, i int) *F {
	return (*F)(unsafe.Add(r.base, uintptr(i)*r.table.size+c.offset))
}

// newRows returns n zero rows of the table without their static type.
func (t *table) newRows(n int) rowsRef {
	v := reflect.MakeSlice(reflect.SliceOf(t.row), n, n)
	return rowsRef{table: t, base: v.UnsafePointer(), n: n}
}

// clear zeroes the rows.
func (r rowsRef) clear() {
	if r.n > 0 {
		reflect.SliceAt(r.table.row, r.base, r.n).Clear()
	}
}

// sections returns the tables of the batch that have rows.
func (b *Batch) sections(dst []rowsRef) []rowsRef {
	dst = dst[:0]
	dst = addSection(dst, b.Runtimes)
	dst = addSection(dst, b.Lanes)
	dst = addSection(dst, b.Threads)
	dst = addSection(dst, b.StackFrames)
	dst = addSection(dst, b.Counters)
	dst = addSection(dst, b.CommandBuffers)
	dst = addSection(dst, b.Dispatches)
	dst = addSection(dst, b.Waits)
	dst = addSection(dst, b.Awaits)
	dst = addSection(dst, b.ExtraOrigins)
	dst = addSection(dst, b.CounterSamples)
	dst = addSection(dst, b.Heartbeats)
	dst = addSection(dst, b.Drops)
	dst = addSection(dst, b.ClockSamples)
	dst = addSection(dst, b.Diagnostics)
	dst = addSection(dst, b.Samples)
	dst = addSection(dst, b.OffCPU)
	dst = addSection(dst, b.OriginEvents)
	dst = addSection(dst, b.ProfileSources)
	dst = addSection(dst, b.Passthrough)
	return dst
}

func addSection[T Row](dst []rowsRef, rows []T) []rowsRef {
	if len(rows) == 0 {
		return dst
	}
	return append(dst, refTo(rows))
}
