// Package abi holds what is publicly known about the binary interface of the Objective-C methods, classes, structs,
// enums and C functions that stax uses to talk to Metal, and compares Go types and live runtimes with it.
//
// The table (metal_abi.json, schema "stax.metal-abi/1") was made by machine from public metadata of the macOS 26.5 SDK:
// pyobjc's clang metadata, cross-checked with madsmtm/objc2-generated and with the selector names of metal-cpp. Every
// record carries its sources. It holds only what this module binds. Nothing in it was read from a Mac by us.
//
// Encodings are compared after [Normalize]: frame offsets, the qualifiers r n N o O R V and quoted class names do not
// count. On amd64 the runtime writes BOOL as c where arm64 writes B.
package abi
