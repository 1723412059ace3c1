package cli

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFormatDuration(t *testing.T) {
	for nanos, want := range map[int64]string{
		0: "0 ns", 1: "1 ns", 999: "999 ns", 1000: "1.00 µs", 1234: "1.23 µs", 9994: "9.99 µs", 9996: "10.0 µs",
		12_345: "12.3 µs", 99_960: "100 µs", 123_456: "123 µs", 999_499: "999 µs", 999_500: "1.00 ms",
		1_234_567: "1.23 ms", 1_000_000_000: "1.00 s", 59_999_000_000: "60.0 s", 1_234_567_000_000: "1,235 s",
		-1500: "-1.50 µs", math.MaxInt64: "9,223,372,037 s", math.MinInt64: "-9,223,372,037 s",
	} {
		assert.Equal(t, want, formatDuration(nanos), "%d", nanos)
	}
}

func TestFormatNumbers(t *testing.T) {
	assert.Equal(t, "1,234,567", formatCount(1234567))
	assert.Equal(t, "-1,234", formatCount(int64(-1234)))
	assert.Equal(t, "999", formatCount(uint64(999)))
	assert.Equal(t, "-", formatNonZero(0))
	assert.Equal(t, "33.3 %", formatShare(1, 3))
	assert.Equal(t, "-", formatShare(0, 0))
	assert.Equal(t, "81.25", formatValue(81.25))
	assert.Equal(t, "1,501", formatValue(1500.5))
	assert.Equal(t, "1.5e+20", formatValue(1.5e20))
	assert.Equal(t, "999 B", formatBytes(999))
	assert.Equal(t, "1.50 MB", formatBytes(1_500_000))
	assert.Equal(t, "+1.500000 s", formatOffset(2_500_000_000, 1_000_000_000))
	assert.Equal(t, "-1", formatOffset(-1, 1_000_000_000), "what is no time is shown as it came")
	assert.Equal(t, "0xFFF00001", formatTID(0xFFF00001))
	assert.Equal(t, "4242", formatTID(4242))
	assert.Equal(t, "1 lane", plural(1, "lane", "lanes"))
	assert.Equal(t, "2,000 lanes", plural(2000, "lane", "lanes"))
}

func TestShorten(t *testing.T) {
	assert.Equal(t, "abcdef", shorten("abcdef", 6))
	assert.Equal(t, "a…def", shorten("abcxdef", 5))
	assert.Equal(t, "ä…ü", shorten("äxxü", 3))
	assert.Equal(t, "…", shorten("abc", 1))
	assert.Empty(t, shorten("abc", 0))
	for width := range 20 {
		assert.LessOrEqual(t, utf8.RuneCountInString(shorten("some quite long name", width)), width)
	}
}

func TestNames(t *testing.T) {
	assert.Equal(t, "pkg.(*T).M", shortFunction("example.com/a/pkg.(*T).M"))
	assert.Equal(t, "pkg.F[example.com/a.T]", shortFunction("example.com/b/pkg.F[example.com/a.T]"))
	assert.Equal(t, "main.f x.go:7", site("main.f", "/src/x.go", 7))
	assert.Equal(t, "main.f", site("main.f", "", 0))
	assert.Equal(t, "main.f:7", tightSite("main.f", 7))
	assert.Equal(t, "app", safeName("app"))
	assert.Equal(t, "a-b-c", safeName("--a b/c"))
	assert.Empty(t, safeName("..."))
	assert.Equal(t, "'it'\\''s here'", quoteArg("it's here"))
	assert.Equal(t, "/a/b.stax", quoteArg("/a/b.stax"))
}

func TestCleanHidesTerminalCodes(t *testing.T) {
	assert.Equal(t, "plain ünïcode", clean("plain ünïcode"))
	assert.Equal(t, `red\x1b[31m`, clean("red\x1b[31m"))
	assert.Equal(t, `a\nb`, clean("a\nb"))
	assert.Equal(t, `\ufffd`, clean("\xff"))
}

func TestTableFits(t *testing.T) {
	tab := &table{columns: []column{text("NAME", 10), text("WHERE", 6), num("COUNT"), num("TIME")}}
	tab.add(strings.Repeat("n", 200), strings.Repeat("w", 80), "1,234", "1.23 ms")
	tab.add("short", "", "5", "10.0 µs")
	var b strings.Builder
	require.NoError(t, tab.write(&b, 60))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 60, line)
		assert.Equal(t, strings.TrimRight(line, " "), line, "no blanks at the end")
	}
	assert.True(t, strings.HasSuffix(lines[2], "    5  10.0 µs"), "numbers are right-aligned: %q", lines[2])

	same, ok := tab.dropSame("COUNT")
	assert.False(t, ok, same)
	tab.drop("WHERE")
	assert.Len(t, tab.columns, 3)
	assert.Len(t, tab.rows[0], 3)
}

func TestWrapText(t *testing.T) {
	assert.Equal(t, []string{"one two", "three"}, wrapText("one two three", 8))
	assert.Equal(t, []string{"averyveryverylongword", "x"}, wrapText("averyveryverylongword x", 5))
	assert.Equal(t, []string{""}, wrapText("", 10))
}
