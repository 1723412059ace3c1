package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// column is a column of a table.
type column struct {
	head string
	left bool // text; numbers are right-aligned
	// least, if positive, lets the column be shortened to that width when the table is too wide.
	least int
}

func text(head string, least int) column { return column{head: head, left: true, least: least} }

func num(head string) column { return column{head: head} }

// table is text in columns. Its output depends only on its content and width.
type table struct {
	columns []column
	rows    [][]string
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// drop removes the named column, where it says nothing.
func (t *table) drop(head string) {
	for i, c := range t.columns {
		if c.head != head {
			continue
		}
		t.columns = append(t.columns[:i:i], t.columns[i+1:]...)
		for j, row := range t.rows {
			t.rows[j] = append(row[:i:i], row[i+1:]...)
		}
		return
	}
}

// dropSame removes a column in which every row says the same, and returns what they say.
func (t *table) dropSame(head string) (same string, ok bool) {
	for i, c := range t.columns {
		if c.head != head || len(t.rows) == 0 {
			continue
		}
		for _, row := range t.rows {
			if row[i] != t.rows[0][i] {
				return "", false
			}
		}
		same = t.rows[0][i]
		t.drop(head)
		return same, true
	}
	return "", false
}

// narrowest is the width of the table when every column that may be is shortened.
func (t *table) narrowest() int {
	total := 2 * (len(t.columns) - 1)
	for i, c := range t.columns {
		width := utf8.RuneCountInString(c.head)
		for _, row := range t.rows {
			width = max(width, utf8.RuneCountInString(row[i]))
		}
		if c.least > 0 {
			width = min(width, c.least)
		}
		total += width
	}
	return total
}

// write prints the table within width characters, as far as its columns can be shortened.
func (t *table) write(w io.Writer, width int) error {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.head)
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	t.fit(widths, width)
	var b strings.Builder
	line := func(cells func(i int) string) {
		var l strings.Builder
		for i, c := range t.columns {
			if i > 0 {
				l.WriteString("  ")
			}
			cell := shorten(cells(i), widths[i])
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if c.left {
				l.WriteString(cell + pad)
			} else {
				l.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " "))
		b.WriteByte('\n')
	}
	line(func(i int) string { return t.columns[i].head })
	for _, row := range t.rows {
		line(func(i int) string { return row[i] })
		if b.Len() > 1<<14 {
			if _, err := io.WriteString(w, b.String()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit shortens the widest of the columns that may be, until the table fits.
func (t *table) fit(widths []int, width int) {
	total := 2 * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for ; total > width; total-- {
		widest := -1
		for i, c := range t.columns {
			if c.least > 0 && widths[i] > c.least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}
