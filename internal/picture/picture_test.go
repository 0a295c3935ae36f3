package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
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

func TestTerminal(t *testing.T) {
	svg := DrawTerminal("make demo", "What it prints", 20, []string{
		"# A remark.",
		"desk$ acpctl query laptop 'Is it safe?'",
		"  Reviewed <for> des  ",
		"",
		"01234567890123456789…2345",
		"costs 5$ in all",
	})
	want := []string{"make demo", "# A remark.", "desk$ acpctl query", "laptop 'Is it safe?'", "  Reviewed <for> des", "01234567890123456789", "…2345", "costs 5$ in all"}
	got := readText(t, svg, "text")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, part := range []string{
		`<tspan class="faint"># A remark.</tspan>`,
		`<tspan class="blue">desk$ </tspan><tspan class="ink bold">acpctl query</tspan>`,
		`<tspan class="ink bold">laptop 'Is it safe?'</tspan>`,
		`<tspan class="ink">costs 5$ in all</tspan>`,
		`textLength="168"`, // 20 columns
	} {
		if !strings.Contains(string(svg), part) {
			t.Errorf("the picture lacks %s", part)
		}
	}
}
