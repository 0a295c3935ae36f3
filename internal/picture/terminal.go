package picture

import (
	"strings"
	"unicode/utf8"
)

const (
	cellWidth    = 8.4 // of a column at 14 pixels, as most fonts have it
	lineHeight   = 18.0
	terminalSide = 20.0 // left and right of the text
	terminalHead = 44.0 // above the first line: the bar with the title
)

// DrawTerminal draws lines as a terminal of so many columns shows them; longer ones go on in the next
// one. A line that begins with "# " is a remark, and one that begins with the name of a machine
// and "$ " is a command.
func DrawTerminal(title, description string, columns int, lines []string) []byte {
	rows := wrapRows(lines, columns)
	p := New(title, description, 2*terminalSide+float64(columns)*cellWidth, terminalHead+float64(len(rows))*lineHeight+terminalSide)
	p.AddLine("grid", 1, terminalHead-12, p.width-1, terminalHead-12)
	for i := range 3 {
		p.AddCircle("faint dot", terminalSide+4+18*float64(i), (terminalHead-12)/2, 5)
	}
	p.AddText("faint small middle", p.width/2, (terminalHead-12)/2+4.5, Span{Text: title})
	for i, row := range rows {
		p.addRow(terminalHead+float64(i)*lineHeight+15, row)
	}
	return p.Encode()
}

// A row is what one line of the terminal shows.
type row []Span

// wrapRows colours the lines, and breaks them where they are longer than the columns.
func wrapRows(lines []string, columns int) []row {
	var rows []row
	for _, line := range lines {
		var rest row
		for i, part := range breakLine(strings.TrimRight(line, " "), columns) {
			if i == 0 {
				rest = colourLine(part)
				rows = append(rows, rest)
				continue
			}
			rows = append(rows, row{{rest[len(rest)-1].Class, part}})
		}
	}
	return rows
}

// breakLine breaks a line at its last space before so many columns, or within a word that fills
// half of them.
func breakLine(line string, columns int) []string {
	var parts []string
	for utf8.RuneCountInString(line) > columns {
		head, tail := cutRunes(line, columns)
		if space := strings.LastIndexByte(head, ' '); space >= 0 && utf8.RuneCountInString(head[:space]) > columns/2 && !strings.HasPrefix(tail, " ") {
			head, tail = line[:space], line[space:]
		}
		parts = append(parts, head)
		line = strings.TrimLeft(tail, " ")
	}
	return append(parts, line)
}

// colourLine tells remarks, prompts, commands and what they print from each other.
func colourLine(line string) row {
	if strings.HasPrefix(line, "# ") {
		return row{{"faint", line}}
	}
	if machine, command, ok := strings.Cut(line, "$ "); ok && machine != "" && !strings.ContainsAny(machine, " \t") {
		return row{{"blue", machine + "$ "}, {"ink bold", command}}
	}
	return row{{"ink", line}}
}

// cutRunes cuts text after n characters, or after its last one.
func cutRunes(text string, n int) (head, tail string) {
	for i := range text {
		if n == 0 {
			return text[:i], text[i:]
		}
		n--
	}
	return text, ""
}

// addRow writes a row as wide as its columns, whatever font there is.
func (p *Picture) addRow(y float64, r row) {
	letters := 0
	for _, s := range r {
		letters += utf8.RuneCountInString(s.Text)
	}
	if letters == 0 {
		return
	}
	p.addf(`<text class="mono" x="%s" y="%s" textLength="%s" xml:space="preserve">%s</text>`,
		formatLength(terminalSide), formatLength(y), formatLength(float64(letters)*cellWidth), formatSpans(r))
}
