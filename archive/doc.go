// Package archive is the on-disk format of a stax recording, its reader and its writer.
package archive
