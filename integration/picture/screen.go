package picture

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Screen shows what a program writes to a terminal.
type Screen struct {
	rows        [][]cell
	held        [][]cell // what is shown until the program has drawn what it announced; nil if it draws nothing
	columns     int
	row, column int
	saved       [2]int
	top, bottom int // the rows that scroll: from top to before bottom
	pen         style
	rest        string // the beginning of a sequence or a character
}

// A cell is one column of a row.
type cell struct {
	letter rune
	style  style
}

// style is how a cell looks.
type style struct {
	fore, back         string // classes; "" is the terminal's own colour
	bold, dim, inverse bool
}

// NewScreen returns an empty screen.
func NewScreen(rows, columns int) *Screen {
	s := &Screen{columns: columns, bottom: rows}
	for range rows {
		s.rows = append(s.rows, newCells(columns, style{}))
	}
	return s
}

func newCells(n int, pen style) []cell {
	return slices.Repeat([]cell{{' ', style{back: pen.back}}}, n)
}

// Text returns what is shown, a line for each row.
func (s *Screen) Text() string {
	var b strings.Builder
	for _, row := range s.shown() {
		for _, c := range row {
			b.WriteRune(c.letter)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// shown returns the rows that are seen, which do not change any more.
func (s *Screen) shown() [][]cell {
	if s.held != nil {
		return s.held
	}
	var rows [][]cell
	for _, row := range s.rows {
		rows = append(rows, slices.Clone(row))
	}
	return rows
}

// control matches a sequence that begins with escape. Of one with parameters, the second part has these and the
// third says what it does.
var control = regexp.MustCompile(`^\x1b(\[([0-9;:?<>=]*)([ -/]*[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()].|[^\[\]P()])`)

// Write shows what a program writes. An error names a sequence that the screen does not know.
func (s *Screen) Write(text string) error {
	for text = s.rest + text; text != ""; {
		if text[0] == '\x1b' {
			m := control.FindStringSubmatch(text)
			if m == nil {
				if len(text) > 4096 {
					return fmt.Errorf("the screen does not know the sequence %q", text[:40])
				}
				break
			}
			if err := s.obey(m); err != nil {
				return err
			}
			text = text[len(m[0]):]
			continue
		}
		if !utf8.FullRuneInString(text) {
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		s.put(r)
	}
	s.rest = text
	return nil
}

// put shows a character, or obeys it.
func (s *Screen) put(r rune) {
	switch {
	case r == '\r':
		s.column = 0
	case r == '\n':
		s.feed()
	case r == '\b':
		s.column = max(0, min(s.column, s.columns-1)-1)
	case r < ' ' || r == 0x7f || r == 0xFE0F: // a bell, or what makes a sign colourful
	default:
		if s.column == s.columns {
			s.column = 0
			s.feed()
		}
		s.rows[s.row][s.column] = cell{r, s.pen}
		s.column++
	}
}

// feed moves the cursor down, and scrolls if it is at the bottom.
func (s *Screen) feed() {
	if s.row == s.bottom-1 {
		s.scroll(s.top, 1)
		return
	}
	s.row = min(s.row+1, len(s.rows)-1)
}

// scroll moves the rows from top on up by n, or down if n is negative.
func (s *Screen) scroll(top, n int) {
	for range max(n, -n) {
		from, to := top, s.bottom-1
		if n < 0 {
			from, to = to, from
		}
		s.rows = slices.Delete(s.rows, from, from+1)
		s.rows = slices.Insert(s.rows, to, newCells(s.columns, s.pen))
	}
}

// obey does what a sequence says.
func (s *Screen) obey(m []string) error {
	if m[3] == "" { // no parameters
		switch m[1] {
		case "7":
			s.saved = [2]int{s.row, s.column}
		case "8":
			s.row, s.column = s.saved[0], s.saved[1]
		case "M":
			if s.row == s.top {
				s.scroll(s.top, -1)
			} else {
				s.row = max(0, s.row-1)
			}
		}
		return nil // titles, character sets, keys
	}
	var numbers []int
	for part := range strings.SplitSeq(strings.ReplaceAll(m[2], ":", ";"), ";") {
		n, _ := strconv.Atoi(part)
		numbers = append(numbers, n)
	}
	n := max(1, numbers[0])
	height, width := len(s.rows), s.columns
	row := s.rows[s.row]
	clear := func(cells []cell) { copy(cells, newCells(len(cells), s.pen)) }
	at := min(s.column, width-1)
	switch m[3] {
	case "A":
		s.row = max(0, s.row-n)
	case "B":
		s.row = min(height-1, s.row+n)
	case "C":
		s.column = min(width-1, s.column+n)
	case "D":
		s.column = max(0, at-n)
	case "G":
		s.column = min(width, n) - 1
	case "d":
		s.row = min(height, n) - 1
	case "H", "f":
		s.row, s.column = min(height, n)-1, 0
		if len(numbers) > 1 {
			s.column = min(width, max(1, numbers[1])) - 1
		}
	case "J":
		first, last := 0, height
		switch numbers[0] {
		case 0:
			clear(row[at:])
			first = s.row + 1
		case 1:
			clear(row[:at+1])
			last = s.row
		}
		for _, r := range s.rows[first:last] {
			clear(r)
		}
	case "K":
		switch numbers[0] {
		case 0:
			clear(row[at:])
		case 1:
			clear(row[:at+1])
		default:
			clear(row)
		}
	case "X":
		clear(row[at:min(width, at+n)])
	case "P":
		n = min(n, width-at)
		copy(row[at:], row[at+n:])
		clear(row[width-n:])
	case "@":
		n = min(n, width-at)
		copy(row[at+n:], row[at:])
		clear(row[at : at+n])
	case "L":
		s.scroll(s.row, -n)
	case "M":
		s.scroll(s.row, n)
	case "S":
		s.scroll(s.top, n)
	case "T":
		s.scroll(s.top, -n)
	case "r":
		s.top, s.bottom = n-1, height
		if len(numbers) > 1 {
			s.bottom = min(height, max(n, numbers[1]))
		}
		s.row, s.column = 0, 0
	case "m":
		if !strings.ContainsAny(m[2], "<>=?") {
			s.pen.change(numbers)
		}
	case "h", "l":
		switch {
		case m[2] != "?2026":
		case m[3] == "l":
			s.held = nil
		default:
			s.held = s.shown()
		}
	case "u", "c", "n", "q", " q", "$p", "t": // keys, questions, the form of the cursor
	default:
		return fmt.Errorf("the screen does not know the sequence %q", m[0])
	}
	return nil
}

// change sets how the next characters look.
func (p *style) change(numbers []int) {
	for i := 0; i < len(numbers); i++ {
		colour := func() string {
			switch rest := numbers[i+1:]; {
			case len(rest) >= 2 && rest[0] == 5:
				i += 2
				return nameColour(rest[1])
			case len(rest) >= 4 && rest[0] == 2:
				i += 4
				return nameMixture(rest[1], rest[2], rest[3])
			}
			return ""
		}
		switch n := numbers[i]; {
		case n == 0:
			*p = style{}
		case n == 1:
			p.bold = true
		case n == 2:
			p.dim = true
		case n == 7:
			p.inverse = true
		case n == 22:
			p.bold, p.dim = false, false
		case n == 27:
			p.inverse = false
		case n >= 30 && n <= 37:
			p.fore = nameColour(n - 30)
		case n >= 90 && n <= 97:
			p.fore = nameColour(n - 90 + 8)
		case n == 38:
			p.fore = colour()
		case n == 39:
			p.fore = ""
		case n >= 40 && n <= 47 || n >= 100 && n <= 107:
			p.back = "track"
		case n == 48:
			colour()
			p.back = "track"
		case n == 49:
			p.back = ""
		}
	}
}

// nameColour returns the class that comes closest to one of the 256 colours of terminals.
func nameColour(n int) string {
	switch {
	case n < 16:
		return []string{"ink", "red", "green", "red", "blue", "purple", "blue", "faint", "faint", "red", "green", "red", "blue", "purple", "blue", "ink"}[n]
	case n < 232:
		n -= 16
		return nameMixture(n/36*51, n/6%6*51, n%6*51)
	}
	grey := (n - 232) * 11
	return nameMixture(grey, grey, grey)
}

// nameMixture returns the class that comes closest to a colour on a dark terminal.
func nameMixture(r, g, b int) string {
	low, high := min(r, g, b), max(r, g, b)
	switch {
	case high-low < 45 && high > 190:
		return "ink"
	case high-low < 45:
		return "faint"
	case high == b && r > g+30:
		return "purple"
	case high == b:
		return "blue"
	case high == g:
		return "green"
	}
	return "red"
}

// fill returns the class of what is behind a cell, "" if nothing is.
func (p style) fill() string {
	if p.inverse {
		return "faint"
	}
	return p.back
}

// ink returns the classes of a cell's letter.
func (p style) ink() string {
	class := p.fore
	switch {
	case p.dim && class == "" || p.dim && class == "ink":
		class = "faint"
	case class == "":
		class = "ink"
	}
	if p.bold {
		class += " bold"
	}
	return class
}
