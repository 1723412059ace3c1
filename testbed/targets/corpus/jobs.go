package main

import (
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"slices"
)

// The CPU work of the pool. Each returns how many inner iterations it did.

//go:noinline
func hashBlock(size int) int {
	block := make([]byte, size)
	sum := sha256.Sum256(block)
	runtime.KeepAlive(sum)
	return size / sha256.BlockSize
}

//go:noinline
func sortNumbers(size int) int {
	numbers := make([]uint32, size)
	x := uint32(size)
	for i := range numbers {
		x = x*1664525 + 1013904223
		numbers[i] = x
	}
	slices.Sort(numbers)
	return size
}

//go:noinline
func multiplyMatrices(size int) int {
	a, b, c := make([]float64, size*size), make([]float64, size*size), make([]float64, size*size)
	for i := range a {
		a[i], b[i] = float64(i%7), float64(i%5)
	}
	for i := range size {
		for k := range size {
			for j := range size {
				c[i*size+j] += a[i*size+k] * b[k*size+j]
			}
		}
	}
	return size * size * size
}

//go:noinline
func sievePrimes(size int) int {
	composite := make([]bool, size)
	n := 0
	for i := 2; i < size; i++ {
		for j := 2 * i; j < size && !composite[i]; j += i {
			composite[j] = true
			n++
		}
	}
	return n
}

//go:noinline
func checksum(frame []byte, n uint64) uint64 {
	for i := 0; i+8 <= len(frame); i += 8 {
		n = n*31 + binary.LittleEndian.Uint64(frame[i:])
	}
	return n
}
