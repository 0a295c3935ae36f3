package integration

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/picture"
)

// TestPictures: a picture in the documents is what a page may show from anywhere, says in words what
// it is, has the colours of all, and is shown by a page.
func TestPictures(t *testing.T) {
	pictures := slices.Concat(glob(t, "../docs/pictures/*.svg"), glob(t, "../docs/benchmarks/*.svg"))
	if len(pictures) < 4 {
		t.Errorf("%d pictures found: have their folders moved?", len(pictures))
	}
	shown := ""
	for _, page := range append(glob(t, "../docs/*.md"), "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(text)
	}
	for _, path := range pictures {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range findPictureProblems(string(text)) {
			t.Errorf("%s: %s", path, problem)
		}
		if !strings.Contains(shown, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)+")") {
			t.Errorf("%s: no page shows it", path)
		}
	}
}

// pictureElements are those that draw, and what describes them: nothing that runs, links or loads.
var pictureElements = []string{"svg", "title", "desc", "style", "rect", "line", "circle", "path", "text", "tspan", "g"}

// motionRules are what a film adds to the style: parts of it come and go, but not for readers who want less motion.
var motionRules = regexp.MustCompile(`^\n\.gone{visibility:hidden}\n\.hollow{fill:none;stroke-width:2}\n@media \(prefers-reduced-motion:no-preference\){\n` +
	`(\.f\d+{animation:f\d+ [\d.]+s step-end infinite}\n@keyframes f\d+{([\d.]+%{visibility:(hidden|visible)})+}\n)+}$`)

// findPictureProblems says what is wrong with an SVG file.
func findPictureProblems(text string) (problems []string) {
	const namespace = "http://www.w3.org/2000/svg"
	said := map[string]string{}
	var open []string
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return append(problems, "it is no XML: "+err.Error())
		}
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			if !slices.Contains(pictureElements, name) || token.Name.Space != namespace {
				problems = append(problems, "it has an element "+name)
			}
			attrs := map[string]string{}
			for _, a := range token.Attr {
				attrs[a.Name.Local] = a.Value
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "style" {
					problems = append(problems, "it has an attribute "+a.Name.Local)
				}
			}
			if len(open) == 0 && (attrs["viewBox"] == "" || attrs["width"] == "" || attrs["height"] == "" || attrs["role"] != "img" || attrs["aria-labelledby"] != "title description") {
				problems = append(problems, "it lacks a viewBox, a size, or what screen readers read")
			}
			open = append(open, name)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				said[open[len(open)-1]] += string(token)
			}
		case xml.ProcInst, xml.Directive:
			problems = append(problems, "it has instructions for XML")
		}
	}
	if strings.TrimSpace(said["title"]) == "" || strings.TrimSpace(said["desc"]) == "" {
		problems = append(problems, "it has no title or no desc")
	}
	if motion, ok := strings.CutPrefix(strings.TrimSpace(said["style"]), strings.TrimSpace(picture.Style)); !ok || motion != "" && !motionRules.MatchString(motion) {
		problems = append(problems, "its style is not integration/picture/style.css: copy that")
	}
	rest := strings.ReplaceAll(text, `xmlns="`+namespace+`"`, "")
	if found := regexp.MustCompile(`https?:|url\(|@import|@font-face|data:`).FindString(rest); found != "" {
		problems = append(problems, "it fetches: "+found)
	}
	if found := regexp.MustCompile(`/(home|root|tmp|work|usr|var|Users|private)/[^ <]*`).FindString(rest); found != "" {
		problems = append(problems, "it has a path of one machine: "+found)
	}
	return problems
}

func TestFindPictureProblems(t *testing.T) {
	good := string(picture.New("A title", "A description", 10, 10).Encode())
	if problems := findPictureProblems(good); problems != nil {
		t.Errorf("of a good picture: %q", problems)
	}
	for want, text := range map[string]string{
		"it is no XML":               strings.TrimSuffix(good, "</svg>\n"),
		"an element script":          strings.Replace(good, "</svg>", "<script>alert(1)</script></svg>", 1),
		"an element image":           strings.Replace(good, "</svg>", "<image/></svg>", 1),
		"an attribute onload":        strings.Replace(good, "role=", `onload="alert(1)" role=`, 1),
		"no title or no desc":        strings.Replace(good, "A description", "", 1),
		"its style is not":           strings.Replace(good, ".ink{", ".inc{", 1),
		"its style":                  strings.Replace(good, "</style>", ".gone{visibility:visible}\n</style>", 1),
		"it fetches: https:":         strings.Replace(good, "A title", "https://nats.example.org", 1),
		"a path of one machine: /tm": strings.Replace(good, "A title", "it lies in /tmp/acpd", 1),
		"what screen readers read":   strings.Replace(good, ` role="img"`, "", 1),
	} {
		if problems := findPictureProblems(text); !strings.Contains(strings.Join(problems, "; "), want) {
			t.Errorf("found %q, want %q", problems, want)
		}
	}
}

// TestFilm: the film is small enough for a page, ends within half a minute, and shows question and answer in the still
// that readers see who want less motion.
func TestFilm(t *testing.T) {
	text, err := os.ReadFile("../docs/pictures/film.svg")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 150<<10 {
		t.Errorf("it has %d bytes", len(text))
	}
	length := regexp.MustCompile(`animation:f0 ([\d.]+)s`).FindSubmatch(text)
	if length == nil {
		t.Fatal("nothing moves")
	}
	if seconds, err := strconv.ParseFloat(string(length[1]), 64); err != nil || seconds < 10 || seconds > 30 {
		t.Errorf("it takes %g s: %v", seconds, err)
	}
	still := regexp.MustCompile(`(?s)<g class="f\d+ gone">.*?</g>|<[^>]*>`).ReplaceAllString(string(text[bytes.Index(text, []byte("</style>")):]), "")
	for _, want := range []string{"desk · Claude Code", "laptop · Codex", "Ask laptop/codex which schema", "acp.acp_reply", "The Codex on your laptop says", "The answer arrives"} {
		if !strings.Contains(still, want) {
			t.Errorf("its still does not show %q:\n%s", want, still)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
