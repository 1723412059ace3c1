package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// formatDuration renders nanoseconds with three significant digits: 123 ns, 1.23 ms, 1,234 s.
func formatDuration(nanos int64) string {
	if nanos < 0 {
		if nanos == math.MinInt64 {
			nanos++
		}
		return "-" + formatDuration(-nanos)
	}
	if nanos < 1000 {
		return strconv.FormatInt(nanos, 10) + " ns"
	}
	x := float64(nanos)
	for _, unit := range []string{"µs", "ms", "s"} {
		x /= 1000
		// 999.5 and up would round to four digits: the next unit reads better.
		if x < 999.5 || unit == "s" {
			return threeDigits(x) + " " + unit
		}
	}
	return "" // not reached
}

func threeDigits(x float64) string {
	switch {
	case x < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return formatCount(int64(math.Round(x)))
}

// formatDurationOf renders a duration that may be missing.
func formatDurationOf(nanos *int64) string {
	if nanos == nil {
		return "bad times"
	}
	return formatDuration(*nanos)
}

// formatCount renders a number with thousands separators.
func formatCount[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

// formatNonZero renders 0 as a dash, so that the eye finds the rest.
func formatNonZero(n int64) string {
	if n == 0 {
		return "-"
	}
	return formatCount(n)
}

// formatShare renders part of whole as a percentage.
func formatShare(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}

// formatValue renders a counter value: integers with separators, others with about four significant digits.
func formatValue(x float64) string {
	if abs := math.Abs(x); abs < 1e15 && (x == math.Trunc(x) || abs >= 1000) {
		return formatCount(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// formatOffset renders an instant relative to the begin of the recording.
func formatOffset(nanos, started int64) string {
	if nanos <= 0 {
		return strconv.FormatInt(nanos, 10) // not a time: shown as it came
	}
	return fmt.Sprintf("%+.6f s", float64(nanos-started)/1e9)
}

// formatBytes renders a size.
func formatBytes(n int64) string {
	const unit = 1000
	if n < unit {
		return strconv.FormatInt(n, 10) + " B"
	}
	x := float64(n)
	for _, u := range []string{"kB", "MB", "GB", "TB"} {
		x /= unit
		if x < 999.5 || u == "TB" {
			return threeDigits(x) + " " + u
		}
	}
	return ""
}

// formatClock renders an instant for people, in their zone.
func formatClock(nanos int64) string {
	if nanos == 0 {
		return "-"
	}
	return time.Unix(0, nanos).Format("2006-01-02 15:04:05")
}

// formatTID renders a thread id; pseudo-threads of lanes in hex.
func formatTID(tid int64) string {
	switch {
	case tid == 0:
		return "-"
	case tid >= 0xFFF0_0000:
		return fmt.Sprintf("0x%X", tid)
	}
	return strconv.FormatInt(tid, 10)
}

// plural renders a count with its noun.
func plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}

// clean makes text from outside safe for a terminal: what does not print is shown as an escape.
func clean(s string) string {
	printable := func(r rune) bool { return r == ' ' || unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !printable(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if printable(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// shorten cuts the middle out of text that is longer than width.
func shorten(s string, width int) string {
	n := utf8.RuneCountInString(s)
	switch {
	case n <= width:
		return s
	case width <= 1:
		return strings.Repeat("…", max(width, 0))
	}
	runes := []rune(s)
	head := max((width-1)/3, min(width-2, 1)) // the end of a qualified name says more than its begin
	tail := width - 1 - head
	return string(runes[:head]) + "…" + string(runes[n-tail:])
}

// shortFunction drops the directories of a qualified Go function name: a/b/pkg.(*T).M becomes pkg.(*T).M.
func shortFunction(name string) string {
	// Type parameters may hold slashes; they stay.
	end := len(name)
	if i := strings.IndexByte(name, '['); i >= 0 {
		end = i
	}
	return name[strings.LastIndexByte(name[:end], '/')+1:]
}

// shortFile keeps the last element of a path.
func shortFile(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

// site renders a place in the code: function and file:line.
func site(function, file string, line int64) string {
	if function == "" {
		return ""
	}
	s := shortFunction(function)
	if file != "" && line > 0 {
		s += fmt.Sprintf(" %s:%d", shortFile(file), line)
	}
	return s
}

// tightSite renders a place in the code where there is little room: function:line.
func tightSite(function string, line int64) string {
	if function == "" || line <= 0 {
		return shortFunction(function)
	}
	return fmt.Sprintf("%s:%d", shortFunction(function), line)
}
