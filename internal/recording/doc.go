// Package recording owns the recordings of one collector process: which processes belong to which recording, what the
// gate tells a target, which data is let in and why the rest is not, and how a recording ends without losing its tail.
//
// A [Manager] is found by the receiver and the exporter through the staxquery extension; `stax record` makes one itself
// and starts the same pipeline around it. The Manager knows nothing about OTLP or files: what arrives goes to [Sink]s.
//
// # Membership
//
// A process belongs to a recording when it presents the recording's token (inherited through the environment, so the
// whole process tree has it), or when its pid, or the pid of an ancestor, is one of the recording's. On a unix socket the
// kernel says which process is asking, so a claimed pid is checked against the peer; a peer of another user needs the
// token. A process belongs to at most one recording at a time: the newest that it is a member of.
//
// # Life of a recording
//
//	starting → recording → draining → sealing → finished
//
// Start opens the sinks, then turns the gate on: data cannot arrive before there is a place for it. Stop turns the gate
// off at once, so that targets flush; while draining, their data is still let in. Draining ends when every live runtime
// has sent its final heartbeat, or after [Options].DrainTimeout. Then nothing
// more is let in and the sinks close, which may take a while for a big archive.
//
// All types are safe for concurrent use.
package recording
