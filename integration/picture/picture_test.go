package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// readText reads an SVG and returns the text of each of its elements of that name.
func readText(t *testing.T, svg []byte, name string) []string {
	t.Helper()
	var texts []string
	depth := 0
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == name {
				texts = append(texts, "")
				depth++
			}
		case xml.CharData:
			if depth > 0 {
				texts[len(texts)-1] += string(token)
			}
		case xml.EndElement:
			if token.Name.Local == name {
				depth--
			}
		}
	}
}

func TestPicture(t *testing.T) {
	p := New(`A "title" & more`, "What <it> shows", 100, 50.25)
	p.AddRect("card", 1, 2.26, 3, 4, 0)
	p.AddRect("card", 1, 2, 3, 4, 5)
	p.AddLine("grid", 0, -0.04, 10, 1)
	p.AddCircle("dot", 1.04, 2, 3)
	p.AddText("ink", 5, 6, Span{Text: "a <b> & \x00c"}, Span{"bold", "d"})
	got := string(p.Encode())
	_, body, _ := strings.Cut(got, "</style>\n")
	const want = `<rect class="paper" x="0.5" y="0.5" width="99" height="49.3" rx="8"/>
<rect class="card" x="1" y="2.3" width="3" height="4"/>
<rect class="card" x="1" y="2" width="3" height="4" rx="5"/>
<line class="grid" x1="0" y1="0" x2="10" y2="1"/>
<circle class="dot" cx="1" cy="2" r="3"/>
<text class="ink" x="5" y="6">a &lt;b&gt; &amp; c<tspan class="bold">d</tspan></text>
</svg>
`
	if body != want {
		t.Errorf("the picture is\n%s\nwant\n%s", body, want)
	}
	if text := readText(t, []byte(got), "title"); len(text) != 1 || text[0] != `A "title" & more` {
		t.Errorf("titles: %q", text)
	}
	if text := readText(t, []byte(got), "desc"); len(text) != 1 || text[0] != "What <it> shows" {
		t.Errorf("descriptions: %q", text)
	}
}

// TestStyle: whatever has a colour on a light page has one on a dark page.
func TestStyle(t *testing.T) {
	light, dark, ok := strings.Cut(Style, "@media (prefers-color-scheme:dark){")
	if !ok {
		t.Fatal("no colours for dark pages")
	}
	found := 0
	for line := range strings.Lines(light) {
		name, rules, _ := strings.Cut(line, "{")
		if !strings.Contains(rules, ":#") {
			continue
		}
		found++
		_, there, ok := strings.Cut(dark, "\n"+name+"{")
		if !ok {
			t.Errorf("%s has no colour on a dark page", name)
			continue
		}
		there, _, _ = strings.Cut(there, "}")
		if strings.Count(there, ":#") != strings.Count(rules, ":#") {
			t.Errorf("%s has other parts on a dark page: %s", name, there)
		}
	}
	if found < 10 {
		t.Errorf("%d classes with a colour found: has the form of the sheet changed?", found)
	}
}

func TestScreen(t *testing.T) {
	for written, want := range map[string]string{
		"one\r\ntwo":                          "one  \ntwo  \n     \n",
		"1\r\n2\r\n3\r\n4":                    "2    \n3    \n4    \n",
		"abcdefg":                             "abcde\nfg   \n     \n",
		"abcde\r\nf":                          "abcde\nf    \n     \n",
		"\x1b[2;3Hx\x1b[Ay\x1b[3Gz\x1b[2Bw":   "  zy \n  x  \n   w \n",
		"abc\b\bX\x1b[Cd":                     "aXcd \n     \n     \n",
		"abcde\x1b[2G\x1b[K":                  "a    \n     \n     \n",
		"a\r\nb\r\nc\x1b[2;1H\x1b[J":          "a    \n     \n     \n",
		"a\r\nb\r\nc\x1b[2J":                  "     \n     \n     \n",
		"abcde\x1b[2G\x1b[2P":                 "ade  \n     \n     \n",
		"abcde\x1b[2G\x1b[2@":                 "a  bc\n     \n     \n",
		"abcde\x1b[2G\x1b[2X":                 "a  de\n     \n     \n",
		"a\r\nb\r\nc\x1b[H\x1bM":              "     \na    \nb    \n",
		"a\r\nb\r\nc\x1b[2;1H\x1b[L":          "a    \n     \nb    \n",
		"a\r\nb\r\nc\x1b[2;1H\x1b[M":          "a    \nc    \n     \n",
		"a\r\nb\r\nc\x1b[1;2r\x1b[S":          "b    \n     \nc    \n",
		"a\x1b7b\x1b8c":                       "ac   \n     \n     \n",
		"a\x1b[?2026h\x1b[2Jb":                "a    \n     \n     \n",
		"a\x1b[?2026h\x1b[2Jb\x1b[?2026l":     " b   \n     \n     \n",
		"\x1b]0;title\x07a\x1b]10;?\x1b\\b":   "ab   \n     \n     \n",
		"\x1b[?1007$p\x1b[c\x1b[>1u\x1b[2 qa": "a    \n     \n     \n",
	} {
		whole, pieces := NewScreen(3, 5), NewScreen(3, 5)
		err := whole.Write(written)
		for i := range len(written) {
			err = errors.Join(err, pieces.Write(written[i:i+1]))
		}
		if err != nil || whole.Text() != want || pieces.Text() != want {
			t.Errorf("%q is shown as\n%sand piece by piece as\n%swant\n%s%v", written, whole.Text(), pieces.Text(), want, err)
		}
	}
	if err := NewScreen(3, 5).Write("\x1b[5y"); err == nil {
		t.Error("a sequence that is not known is taken")
	}
}

// A film draws a row once for the time in which it stays, and its last frame without motion too.
func TestFilm(t *testing.T) {
	s, w := NewScreen(2, 10), &Window{Title: "desk", Active: []Interval{{0, 5 * time.Second}}}
	write := func(at time.Duration, text string) {
		if err := s.Write(text); err != nil {
			t.Fatal(err)
		}
		w.Shoot(at*time.Second, s)
	}
	write(0, "\x1b[1;31mask\x1b[0m \x1b[2mit")
	write(2, "")
	write(4, "\r\n\x1b[0;48;5;235;38;2;90;200;250m <b>\x1b[7m \x1b[0m")
	f := Film{Length: 10 * time.Second, Windows: []*Window{w}, Captions: []Caption{{4 * time.Second, "It asks"}}, Note: "A note"}
	svg := string(f.Draw("A title", "What it shows"))
	for _, part := range []string{
		`textLength="46.2" xml:space="preserve"><tspan class="red bold">ask</tspan><tspan class="faint"> it</tspan></text>`,
		`<tspan class="blue">&lt;b&gt;</tspan></text>`,
		`<rect class="track" x="22" y="61" width="30.8" height="17"/>` + "\n" + `<rect class="faint" x="52.8" y="61" width="7.7" height="17"/>`,
		".gone{visibility:hidden}\n",
		"@media (prefers-reduced-motion:no-preference){\n.f0{animation:f0 10.0s step-end infinite}\n@keyframes f0{0.00%{visibility:visible}40.00%{visibility:hidden}}\n",
		"@keyframes f3{0%{visibility:hidden}40.00%{visibility:visible}}\n}\n",
		`<g class="f0 gone">` + "\n" + `<text class="faint middle"`,
		`<g class="f1 gone">` + "\n" + `<rect class="blueline hollow"`,
		`<g class="f2">` + "\n" + `<text class="mono small"`,
		`<g class="f3">` + "\n",
		`>A note</text>`,
	} {
		if !strings.Contains(svg, part) {
			t.Errorf("the film lacks %s", part)
		}
	}
	if n := strings.Count(svg, ">ask<"); n != 1 {
		t.Errorf("a row that stays is drawn %d times", n)
	}
	if t.Failed() {
		t.Log(svg)
	}
}
