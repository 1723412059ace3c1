package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestConfidence(t *testing.T) {
	assert.InDelta(t, 2.228, t975(10), 0.005)
	assert.InDelta(t, 2.093, t975(19), 0.002)
	assert.InDelta(t, 1.984, t975(100), 0.001)
	mean, upper := confidence([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	assert.InDelta(t, 6, mean, 1e-9)
	assert.InDelta(t, 6+2.228*1, upper, 0.01) // standard deviation 3.317, 11 values
	assert.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
}
