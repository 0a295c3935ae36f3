// Package picture draws what the documents show, as SVG: the frame and the colours that all their
// pictures share, and films of what terminals show. A picture needs no font, script or file but its own.
package picture

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Style is the style sheet of every picture: classes for text, areas and lines, for light pages and,
// by a media query, for dark ones. A picture has a paper of its own, so that it can be read on
// a page that differs from what the browser prefers.
//
//go:embed style.css
var Style string

// A Picture is an SVG drawing that grows as its methods are called. Coordinates are pixels from
// the top left, as large as the picture is shown where there is room for it. A class is one of
// Style's, or several with spaces between.
type Picture struct {
	title, description string
	width, height      float64
	body               strings.Builder
	length             time.Duration // of a film
	shown              []Interval    // its parts, in the order in which they are drawn
}

// New begins a picture. Screen readers read its title and its description.
func New(title, description string, width, height float64) *Picture {
	return &Picture{title: title, description: description, width: width, height: height}
}

// AddRect draws a rectangle with corners of that radius.
func (p *Picture) AddRect(class string, x, y, width, height, radius float64) {
	corners := ""
	if radius > 0 {
		corners = fmt.Sprintf(` rx="%s"`, formatLength(radius))
	}
	p.addf(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s/>`, class,
		formatLength(x), formatLength(y), formatLength(width), formatLength(height), corners)
}

// AddLine draws a straight line.
func (p *Picture) AddLine(class string, x1, y1, x2, y2 float64) {
	p.addf(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class,
		formatLength(x1), formatLength(y1), formatLength(x2), formatLength(y2))
}

// AddCircle draws a filled circle.
func (p *Picture) AddCircle(class string, x, y, radius float64) {
	p.addf(`<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, formatLength(x), formatLength(y), formatLength(radius))
}

// A Span is a part of a line of text with a class of its own.
type Span struct {
	Class string
	Text  string
}

// AddText writes a line of text, which begins at x; y is its baseline. The spans follow each other.
func (p *Picture) AddText(class string, x, y float64, spans ...Span) {
	p.addf(`<text class="%s" x="%s" y="%s">%s</text>`, class, formatLength(x), formatLength(y), formatSpans(spans))
}

func (p *Picture) addf(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

func formatSpans(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		if s.Class == "" {
			b.WriteString(escape(s.Text))
			continue
		}
		fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, s.Class, escape(s.Text))
	}
	return b.String()
}

// Encode returns the picture as the text of an SVG file. The same calls give the same bytes.
func (p *Picture) Encode() []byte {
	width, height := formatLength(p.width), formatLength(p.height)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-labelledby="title description">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"description\">%s</desc>\n", escape(p.title), escape(p.description))
	fmt.Fprintf(&b, "<style>\n%s%s</style>\n", Style, p.encodeMotion())
	fmt.Fprintf(&b, `<rect class="paper" x="0.5" y="0.5" width="%s" height="%s" rx="8"/>`+"\n", formatLength(p.width-1), formatLength(p.height-1))
	b.WriteString(p.body.String())
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// escape makes text that XML takes as text, in an attribute too. What XML cannot hold is left out.
func escape(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}

// formatLength writes a length with a tenth of a pixel at most.
func formatLength(pixels float64) string {
	return strconv.FormatFloat(math.Round(pixels*10)/10+0, 'f', -1, 64) // + 0 makes 0 of −0
}
