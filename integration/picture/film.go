package picture

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A Film shows terminals side by side, and captions below them. It is drawn as a picture that moves, and that starts
// over at its end. Readers who want less motion see the end only.
type Film struct {
	Length   time.Duration
	Windows  []*Window
	Captions []Caption
	Note     string // below the captions
}

// A Window is a terminal of a film.
type Window struct {
	Title  string
	Active []Interval // when it has a frame that draws the eye
	frames []frame
}

// An Interval is a part of a film.
type Interval struct{ From, To time.Duration }

// A Caption is a sentence that is lit from its time on.
type Caption struct {
	At   time.Duration
	Text string
}

type frame struct {
	at   time.Duration
	rows [][]cell
}

// Shoot adds what a screen shows from a time on, which is later than the times before.
func (w *Window) Shoot(at time.Duration, s *Screen) {
	w.frames = append(w.frames, frame{at, s.shown()})
}

const (
	cellWidth  = 7.7 // of a column at 13 pixels
	lineHeight = 17.0
	windowSide = 12.0 // left and right of the text
	windowHead = 34.0 // above the first row
	filmSide   = 10.0 // around the windows
	filmFoot   = 74.0 // below them
)

// Draw draws a film. A window has as many rows and columns as its screen.
func (f *Film) Draw(title, description string) []byte {
	rows := f.Windows[0].frames[0].rows
	width := 2*windowSide + float64(len(rows[0]))*cellWidth
	height := windowHead + float64(len(rows))*lineHeight + windowSide
	p := New(title, description, filmSide+float64(len(f.Windows))*(width+filmSide), filmSide+height+filmFoot)
	p.length = f.Length

	changes := map[Interval][]func(){} // what is drawn only then
	for i, w := range f.Windows {
		x := filmSide + float64(i)*(width+filmSide)
		p.AddRect("card", x, filmSide, width, height, 8)
		p.AddText("faint small middle", x+width/2, filmSide+20, Span{Text: w.Title})
		for n := range 3 {
			p.AddCircle("faint dot", x+windowSide+5+16*float64(n), filmSide+15.5, 4.5)
		}
		for _, when := range w.Active {
			changes[when] = append(changes[when], func() { p.AddRect("blueline hollow", x, filmSide, width, height, 8) })
		}
		for y := range rows {
			w.eachChange(y, f.Length, func(when Interval, row []cell) {
				changes[when] = append(changes[when], func() {
					p.addCells(x+windowSide, filmSide+windowHead+float64(y)*lineHeight, row)
				})
			})
		}
	}
	place := p.width / float64(len(f.Captions))
	for i, c := range f.Captions {
		x, y := place*(float64(i)+0.5), filmSide+height+32
		add := func(when Interval, class string) {
			changes[when] = append(changes[when], func() {
				p.AddText(class+" middle", x, y, Span{"bold", strconv.Itoa(i+1) + "  "}, Span{Text: c.Text})
			})
		}
		add(Interval{0, c.At}, "faint")
		add(Interval{c.At, f.Length}, "blue")
	}
	p.AddText("faint small middle", p.width/2, filmSide+height+57, Span{Text: f.Note})

	var all []Interval
	for when := range changes {
		all = append(all, when)
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].From < all[j].From || all[i].From == all[j].From && all[i].To < all[j].To
	})
	for _, when := range all {
		p.during(when, changes[when])
	}
	return p.Encode()
}

// eachChange calls do with each content of a row and the time when it is shown. It leaves out empty rows.
func (w *Window) eachChange(y int, length time.Duration, do func(Interval, []cell)) {
	for i := 0; i < len(w.frames); {
		from, row := w.frames[i].at, w.frames[i].rows[y]
		if i == 0 {
			from = 0
		}
		for i++; i < len(w.frames) && slices.Equal(w.frames[i].rows[y], row); i++ {
		}
		to := length
		if i < len(w.frames) {
			to = w.frames[i].at
		}
		if slices.ContainsFunc(row, func(c cell) bool { return c.letter != ' ' || c.style.fill() != "" }) {
			do(Interval{from, to}, row)
		}
	}
}

// during draws what is seen only in a part of the film.
func (p *Picture) during(when Interval, draw []func()) {
	if when.From >= when.To {
		return
	}
	class := fmt.Sprintf("f%d", len(p.shown))
	if when.To < p.length {
		class += " gone"
	}
	p.shown = append(p.shown, when)
	p.addf(`<g class="%s">`, class)
	for _, d := range draw {
		d()
	}
	p.addf("</g>")
}

// encodeMotion returns the style rules that show and hide the parts of a film.
func (p *Picture) encodeMotion() string {
	if p.shown == nil {
		return ""
	}
	seconds := strconv.FormatFloat(p.length.Seconds(), 'f', 1, 64)
	percent := func(at time.Duration) string {
		return strconv.FormatFloat(100*at.Seconds()/p.length.Seconds(), 'f', 2, 64) + "%"
	}
	var b strings.Builder
	b.WriteString(".gone{visibility:hidden}\n.hollow{fill:none;stroke-width:2}\n@media (prefers-reduced-motion:no-preference){\n")
	for i, when := range p.shown {
		fmt.Fprintf(&b, ".f%d{animation:f%d %ss step-end infinite}\n@keyframes f%d{", i, i, seconds, i)
		if when.From > 0 {
			b.WriteString("0%{visibility:hidden}")
		}
		fmt.Fprintf(&b, "%s{visibility:visible}", percent(when.From))
		if when.To < p.length {
			fmt.Fprintf(&b, "%s{visibility:hidden}", percent(when.To))
		}
		b.WriteString("}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// addCells draws a row of a screen. It is as wide as its columns in any font.
func (p *Picture) addCells(x, y float64, row []cell) {
	first, last := -1, 0
	var spans []Span
	for i := 0; i < len(row); {
		fill, from := row[i].style.fill(), i
		for ; i < len(row) && row[i].style.fill() == fill; i++ {
		}
		if fill != "" {
			p.AddRect(fill, x+float64(from)*cellWidth, y, float64(i-from)*cellWidth, lineHeight, 0)
		}
	}
	for i, c := range row {
		if c.letter == ' ' {
			continue
		}
		if first < 0 {
			first, last = i, i
		}
		if ink := c.style.ink(); len(spans) == 0 || spans[len(spans)-1].Class != ink {
			spans = append(spans, Span{Class: ink})
		}
		spans[len(spans)-1].Text += strings.Repeat(" ", max(0, i-last-1)) + string(c.letter)
		last = i
	}
	if first >= 0 {
		p.addf(`<text class="mono small" x="%s" y="%s" textLength="%s" xml:space="preserve">%s</text>`,
			formatLength(x+float64(first)*cellWidth), formatLength(y+13), formatLength(float64(last-first+1)*cellWidth), formatSpans(spans))
	}
}
