// Camera is the pipeline that stage profiling is for: a source of 30 frames per second, a tap that takes 40 ms per frame,
// and a link that sends every tenth result on. The tap cannot keep up, and the program's last lines say so:
//
//	camera -duration 10s
//
// Between source and tap lies a small buffer that drops frames when it is full, so that the tap does not slow the source.
package main
