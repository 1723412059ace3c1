// Package archive is the on-disk format of a stax recording, its reader and its writer. This page is
// the specification of version 1.
//
// # Use
//
// [Create] makes an archive and returns a [Writer]; [Writer.Append] stores a [Batch], all of it or
// nothing; [Writer.Finish] ends the recording. [Open] reads an archive that is finished, one that is
// being written by another process, and one whose writer was killed alike; [Scan] streams one table.
// [Resume] goes on with an archive whose writer ended early. [WriteDerived] replaces the derived
// tables, [Verify] checks everything, [Dump] and [Assemble] are the text twin.
//
// # Folder
//
//	NAME.stax/
//	  manifest.json                    what the archive is, and which segments count
//	  segments/000001-000012/          the rows of the logs 1 to 12, sealed and merged
//	    dispatches.parquet             one file per table that has rows
//	    lanes.parquet ...
//	  segments/000013/                 the rows of log 13
//	  log/000014.log                   full, being sealed
//	  log/000015.log                   the open log
//	  derived/000002/links.parquet ... derived tables, of the version that the manifest names
//	  writer.lock                      empty; locked (flock) by the living writer
//
// Every row stands in exactly one place. The manifest says which:
//
//   - the segments that it lists, in its order;
//   - then the logs with a number above its sealed_log, by number.
//
// Everything else in the folder is left over from a crash, or about to be referred to, and is ignored
// (a writer removes it). Names that begin with .tmp- are never read. Numbers have at least six digits
// and grow without gaps in meaning: a missing number is no loss.
//
// The manifest is replaced by rename, so each of these steps is one instant for a reader:
//
//	rotate   log N is full, log N+1 appears              rows in log N
//	seal     segments/N is written, synced, renamed       rows in log N, the manifest does not list N
//	commit   the manifest lists N, sealed_log = N         rows in segments/N
//	clean    log N is removed                             rows in segments/N
//
// Merging A … B is the same with segments/A-B in the place of segments/N and its parts in the place of
// the log; writing derived tables is the same with the old tables. A reader takes its snapshot so:
// read the manifest, open every file that it names and every later log, read the manifest again; when
// it changed, close everything and start over. Open files stay readable when a writer removes them.
//
// If the manifest is unreadable the folders are enough for the rows: a segment supersedes the logs and
// the segments whose numbers its range covers.
//
// # Manifest
//
// JSON, the fields of [Manifest]; at most 64 MiB. crc32c is the last field: the CRC-32C of the file's
// bytes with eight zeros in the place of its value, as eight hex digits. A wrong checksum is reported,
// the content is used if it is consistent. Fields may be added; a reader ignores those that it does not
// know, and refuses a schema above its own [SchemaVersion]. Folders must lie directly in segments/ and
// derived/. privacy lists every class of data that the archive holds, with its tables.
//
// # Tables
//
// Tables and columns are the structs of rows.go: a struct is a table, a parquet tag a column. In every
// Parquet file all columns are flat and required:
//
//	bool      BOOLEAN               plain
//	int64     INT64                 plain, delta or dictionary
//	uint64    INT64  UINT_64        plain, delta or dictionary
//	uint32    INT32  UINT_32        plain or dictionary
//	float64   DOUBLE                plain
//	string    BYTE_ARRAY  STRING    dictionary (plain once a dictionary is too large)
//	[]byte    BYTE_ARRAY            plain
//	TraceID   FIXED_LEN_BYTE_ARRAY(16)  dictionary
//
// Encodings are a writer's choice. Pages are zstd compressed and carry CRCs; row groups have at most
// 131072 rows, or what one log held; the key column of dispatches, command_buffers, waits and
// certificates has a split-block bloom filter of 10 bits a value. Rows keep the order of Append. Text
// is UTF-8: a byte of a string that is not is written as the four characters \xNN. Any Parquet reader
// can use the files; for a correct answer it reads those that the manifest names, or a finished
// archive, which has one segment.
//
// A reader finds columns by name. A column that a file does not have reads as zero; columns and tables
// that the reader does not know are left alone, and merging by an older writer drops such columns. A
// column never changes its type or meaning: a new meaning is a new name.
//
// # Log
//
// All numbers are little endian. A log is a header and frames:
//
//	 0        8     10    12       16               24               32       36      40
//	┌────────┬─────┬─────┬────────┬────────────────┬────────────────┬────────┬───────┐
//	│STAXLOG\n│vers │size │ zero   │ log number     │ created, ns    │ crc32c │ zero  │
//	└────────┴─────┴─────┴────────┴────────────────┴────────────────┴────────┴───────┘
//
// version is 1, size is that of the header: it may grow to 4096, frames begin there. The CRC is of the
// bytes 0 to 32. A log appears under its name with its header and schema frame complete.
//
//	 0       4     5        8         12       16
//	┌───────┬─────┬────────┬─────────┬────────┬─────────────────┐
//	│ STXF  │kind │ zero   │ length  │ crc32c │ payload         │
//	└───────┴─────┴────────┴─────────┴────────┴─────────────────┘
//
// length is that of the payload, at most 2^28. The CRC is of the bytes 4 to 12 and the payload. Kind 1
// is the schema, kind 2 a batch; a reader skips other kinds and counts them. One Append is one frame
// and one write(2), so a frame that is not intact at the end of a log was never acknowledged. One in
// the middle is damage: a reader reports it and goes on at the next intact frame.
//
// The schema frame stands before the batches and says how to read them. uvarint is LEB128 as in
// encoding/binary; text is a length byte and that many bytes.
//
//	schema   uvarint tables, then per table:
//	           byte id · text name · uvarint columns, then per column: byte kind · text name
//	         more bytes may follow in later versions
//	kind     1 bool  2 int64  3 uint64  4 uint32  5 float64  6 string  7 bytes  8 16 bytes
//
// A batch first extends the log's string table, whose entries are numbered from 1; number 0 is "".
//
//	batch    uvarint strings that the table has · uvarint new strings, then per string:
//	           uvarint length (at most 2^24) · bytes
//	         uvarint sections, then per section:
//	           byte table id · uvarint rows · uint32 length · columns in the order of the schema
//	         more bytes may follow in later versions
//
// All sections of a frame have at most 2^17 rows. A section of a table that the reader does not know
// is skipped by its length, a column by its kind. A column is one vector of 64-bit words:
//
//	vector   byte mode · uvarint first word · the other words, w = mode & 15 bytes each
//	mode     0           all words are equal, nothing follows
//	         1 … 8       the words themselves
//	         17 … 24     zigzag of the difference to the word before, modulo 2^64
//
// bool is 0 or 1, float64 its IEEE bits, string its number. bytes is the vector of lengths followed by
// all bytes; 16 bytes is two vectors, of the first and of the second eight bytes.
//
// A string that an unreadable frame defined is unknown: sections that use it are losses, no guess.
//
// # Losses
//
// Damage is never an error of the whole archive as long as something is readable. [Reader.Losses] and
// [Verify] name the file, the offset or row group, the rows (when that can be known) and the reason.
// Parquet data is checked page by page, the footer against the checksum in the manifest, whole files by
// [Verify].
//
// # Durability
//
// What Append accepted is in the page cache: the death of the process takes nothing of it. A power loss
// takes at most [WriterOptions.Sync]. Segments, derived tables and manifests are synced before they are
// referred to, files first, then folders.
package archive
