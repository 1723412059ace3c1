// Zstd compresses generated text with klauspost/compress and decompresses it again, one block per unit of work.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/klauspost/compress/zstd"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/realprograms/internal/unit"
)

const (
	blocks = 160
	size   = 1 << 20
)

var nameBlock = sdk.NewName("block")

func main() {
	unit.Main("zstd", sdk.LaneCodec, func(l *unit.Lane) (string, error) {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(2))
		if err != nil {
			return "", err
		}
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2))
		if err != nil {
			return "", err
		}
		defer decoder.Close()
		packed := make([]int, blocks)
		err = l.Each(nameBlock, 2, blocks, func(i int) error {
			text := block(i)
			small := encoder.EncodeAll(text, nil)
			back, err := decoder.DecodeAll(small, nil)
			if err == nil && !bytes.Equal(back, text) {
				err = errors.New("zstd: what came back is not what went in")
			}
			packed[i] = len(small)
			return err
		})
		total := 0
		for _, n := range packed {
			total += n
		}
		return fmt.Sprintf("%d MiB to %.1f MiB", blocks*size>>20, float64(total)/(1<<20)), err
	})
}

// block is text of words of uneven frequency, different for every i.
func block(i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	words := make([][]byte, 4096)
	for w := range words {
		words[w] = make([]byte, 2+rng.IntN(9))
		for c := range words[w] {
			words[w][c] = 'a' + byte(rng.IntN(26))
		}
	}
	b := make([]byte, 0, size+16)
	for len(b) < size {
		b = append(b, words[min(int(rng.ExpFloat64()*300), len(words)-1)]...)
		b = append(b, ' ')
	}
	return b[:size]
}
