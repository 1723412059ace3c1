package archive

// SchemaVersion is the version of the format that this package writes. A reader refuses a higher
// major version; everything that may grow (tables, columns, manifest fields) grows within it.
const SchemaVersion = 1

// States of a recording in RecordingInfo.State.
const (
	StateRecording = "recording"
	StateFinished  = "finished"
)

// RecordingInfo says what an archive is a recording of.
type RecordingInfo struct {
	ID              string      `json:"id"`
	Name            string      `json:"name"`
	Mode            string      `json:"mode,omitempty"` // launch | attach | import ...
	State           string      `json:"state"`          // StateRecording or StateFinished; kept by the Writer
	Command         []string    `json:"command,omitempty"`
	PIDs            []int64     `json:"pids,omitempty"`
	StartedNanos    int64       `json:"started_ns"`           // collector clock, Unix nanoseconds
	StoppedNanos    int64       `json:"stopped_ns,omitempty"` // 0: not stopped
	ExitCode        *int        `json:"exit_code,omitempty"`  // of the launched command; nil: unknown
	ExitSignal      string      `json:"exit_signal,omitempty"`
	StopReason      string      `json:"stop_reason,omitempty"`
	Host            Host        `json:"host"`
	RecorderVersion string      `json:"recorder_version,omitempty"`
	RecorderPID     int         `json:"recorder_pid,omitempty"`
	Privacy         []DataClass `json:"privacy,omitempty"` // classes beyond those that follow from the tables
}

// Host is the machine of the recorder.
type Host struct {
	OS       string `json:"os,omitempty"`
	Arch     string `json:"arch,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	CPUs     int    `json:"cpus,omitempty"`
}

// DataClass is one line of the privacy manifest: one class of data that the archive holds.
type DataClass struct {
	Class  string   `json:"class"`            // stable snake_case
	Tables []string `json:"tables,omitempty"` // where; empty: in the manifest
	Detail string   `json:"detail"`           // one sentence for a person
}

// Manifest is the content of manifest.json.
type Manifest struct {
	Schema     int              `json:"schema"`     // SchemaVersion
	Generation uint64           `json:"generation"` // grows with each rewrite
	Recording  RecordingInfo    `json:"recording"`
	Clock      ClockInfo        `json:"clock"`
	SealedLog  uint64           `json:"sealed_log"` // logs up to this number are superseded by Segments
	Segments   []SegmentInfo    `json:"segments"`
	Counts     map[string]int64 `json:"counts"` // sealed rows by table
	Derived    *DerivedInfo     `json:"derived,omitempty"`
	Privacy    []DataClass      `json:"privacy"`
	Check      string           `json:"crc32c"` // of the file with eight zeros in this place; always the last field
}

// ClockInfo names the time domains of the archive.
type ClockInfo struct {
	Target    string `json:"target"`    // of the times in target tables
	Collector string `json:"collector"` // of first_seen_ns, drops, passthrough
}

// SegmentInfo is one sealed segment: the rows of the logs First … Last.
type SegmentInfo struct {
	Dir    string      `json:"dir"` // relative to the archive, with slashes
	First  uint64      `json:"first"`
	Last   uint64      `json:"last"`
	Tables []TableInfo `json:"tables"`
	Losses []Loss      `json:"losses,omitempty"` // what could not be read from the logs when they were sealed
}

// TableInfo is one Parquet file.
type TableInfo struct {
	Table     string `json:"table"`
	Rows      int64  `json:"rows"`
	Bytes     int64  `json:"bytes"`
	CRC       uint32 `json:"crc32c"`        // of the whole file; Verify checks it
	FooterCRC uint32 `json:"footer_crc32c"` // of the Parquet footer with its length and magic; every reader checks it
}

// DerivedInfo is the current set of derived tables.
type DerivedInfo struct {
	Version string      `json:"version"`
	Dir     string      `json:"dir"`
	Tables  []TableInfo `json:"tables"`
}

// Loss is something that should be in the archive and cannot be read.
type Loss struct {
	File   string `json:"file"`   // relative to the archive
	Offset int64  `json:"offset"` // first byte that is lost; -1: the whole file
	Bytes  int64  `json:"bytes"`  // how many bytes are not readable; -1: unknown
	Rows   int64  `json:"rows"`   // how many rows are lost; -1: unknown
	Reason string `json:"reason"`
}
