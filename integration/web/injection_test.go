//go:build web

package web

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/kinds"
)

// pageAttacks are what a peer may write to have a browser run it, or to break a page.
var pageAttacks = map[string]string{
	"script":          `<script>window.pwned=1;alert(1)</script>`,
	"image":           `<img src=x onerror="window.pwned=1;alert(1)">`,
	"image elsewhere": `<img src=http://attacker.example/x.png>`,
	"svg":             `"><svg onload=window.pwned=1><animate onbegin=alert(1) attributeName=x>`,
	"attribute":       `" autofocus onfocus=window.pwned=1 x="`,
	"single quotes":   `' onmouseover='window.pwned=1' x='`,
	"frame":           `<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>`,
	"style":           `<style>*{display:none!important}</style></style><link rel=stylesheet href=//attacker.example>`,
	"link":            `javascript:window.pwned=1 <a href="javascript:alert(1)">x</a>`,
	"base":            `<base href=//attacker.example><meta http-equiv=refresh content="0;url=//attacker.example">`,
	"template":        "${window.pwned=1} {{constructor.constructor('pwned=1')()}} `x`",
	"end of script":   `</script></style></title></textarea><script>pwned=1</script>`,
	"JSON":            `"}]});window.pwned=1;//` + "\u2028\u2029",
	"event stream":    "x\n\ndata: {\"reset\":true}\r\rdata: 1\n\n",
	"prototype":       `__proto__`,
	"constructor":     `constructor`,
	"long word":       strings.Repeat("W", 300),
	"long emoji":      strings.Repeat("👩‍👩‍👧‍👦", 60),
	"right to left":   "\u202eexe.txt \u2067gnihtemos\u2069 שלום עולם مرحبا",
	"controls":        "a\x00b\x07c\x1b[31md\x1b]0;t\x07e\u0085f",
	"combining":       "Z" + strings.Repeat("\u0301\u0323\u0335", 80),
	"zero width":      strings.Repeat("\u200b\u2060\ufeff", 60) + "x",
	"blank":           "\u3000\u00a0\u2003",
	"many lines":      strings.Repeat("a\n", 200),
	"selector":        `"] , * { } [data-x="`,
	"ligature":        strings.Repeat("﷽", 20),
	"vertical":        strings.Repeat("ﷺ𒐫", 20),
	"private use":     "\ue000\U000f0000 x",
	"format":          `%s %n %[1]s`,
	"empty":           "",
}

// readCorpus returns what the tests of client have against models.
func readCorpus(t *testing.T) (all []string) {
	b, err := os.ReadFile("../../client/testdata/injection.json")
	if err != nil {
		t.Fatal(err)
	}
	var attacks []struct {
		Text   string `json:"text"`
		Repeat int    `json:"repeat"`
	}
	if err := json.Unmarshal(b, &attacks, json.RejectUnknownMembers(false)); err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks {
		all = append(all, strings.Repeat(a.Text, max(1, a.Repeat)))
	}
	return all
}

// checkInert: nothing has run, and nothing of what peers wrote became an element or an attribute.
func (p *tab) checkInert(t *testing.T) {
	t.Helper()
	if eval[bool](p, `"pwned" in window`) {
		t.Error("a script has run")
	}
	if found := eval[[]string](p, `(() => {
		const tags = new Set("HTML HEAD META TITLE LINK SCRIPT BODY A HEADER DIV IMG H1 P SPAN NAV UL LI B MAIN SECTION H2 H3 SVG PATH STRONG CODE BUTTON FOOTER PROGRESS SMALL".split(" "));
		const own = new Set(["icon.svg", "page.css", "page.js"]);
		const form = new Set("FORM INPUT SELECT OPTION LABEL".split(" ")); // of the page alone
		return [...document.querySelectorAll("*")].filter((e) => !(tags.has(e.tagName.toUpperCase()) || form.has(e.tagName) && e.closest("#filter")) || e.hasAttribute("action")
			|| [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "src" && !own.has(a.value) || a.name === "srcdoc"
				|| a.name === "href" && !own.has(a.value) && !/^#[a-z]+$/.test(a.value) || a.name === "style" && !e.closest(".picture")
				|| a.name === "class" && !/^[a-z0-9 -]*$/.test(a.value))
		).map((e) => e.outerHTML.slice(0, 200)).slice(0, 5);
	})()`); len(found) > 0 {
		t.Errorf("what is no text: %q", found)
	}
	if scripts := eval[int](p, `document.scripts.length + document.styleSheets.length`); scripts != 2 {
		t.Errorf("%d scripts and style sheets", scripts)
	}
}

// TestInjection: whatever stands in the texts of what a daemon answers and of its events, in all of them at once,
// is text on the page, and the page stays in its bounds.
// holds: security.md#the-page-of-acpctl-web
func TestInjection(t *testing.T) {
	p := startBrowser(t).openTab(t)
	try := func(t *testing.T, words func(string) string) {
		w := newWorld(t)
		w.fill(plain)
		w.pass(talk(plain)...)
		w.spoil(t, words)
		for i := range w.entries {
			w.entries[i].Payload, w.entries[i].AnswerPayload = kinds.EncodePayload(map[string]string{"question": words("question"), "data": words("data")}), kinds.EncodePayload(map[string]string{"summary": words("summary")})
		}
		p.t = t
		p.takeProblems() // of an attack before, that has ended the test in the middle
		p.look(360, 740, false)
		p.open(w.serve(t))
		defer p.open("about:blank")
		p.until("all is drawn", `document.querySelectorAll("#waiting-list .call").length > 2 && document.querySelectorAll("#log > *").length > 4 && document.querySelectorAll("#channels-list > li, #held-list > li, #mail-list > li, #tasks-list > li").length === 7 && document.querySelectorAll("#budget-list > li").length > 0 && document.querySelectorAll("#peers > li").length === 5`)
		w.tellEvents(t, p, words)
		p.checkInert(t)
		p.checkLayout(t)
		eval[bool](p, `(() => { for (const b of document.querySelectorAll("#threads button")) b.click(); return true })()`) // as bubbles too
		p.checkInert(t)
		p.checkLayout(t)
		eval[bool](p, `(() => { for (const b of document.querySelectorAll(".bubble[data-act]")) b.click(); return true })()`) // and whole
		p.until("they are open", `document.querySelectorAll("#log .whole").length > 0`)
		p.checkInert(t)
		p.checkLayout(t)
		p.look(1280, 900, true)
		p.checkLayout(t)
		p.checkProblems(t)
	}
	for name, attack := range pageAttacks {
		t.Run(name, func(t *testing.T) {
			try(t, func(s string) string {
				if strings.HasPrefix(s, "acpd ") {
					return attack
				}
				return attack + s[:min(len(s), 3)]
			})
		})
	}
	corpus, at := readCorpus(t), 0
	for range 12 {
		t.Run("corpus", func(t *testing.T) {
			chosen := make(map[string]string) // a peer has one name
			try(t, func(s string) string {
				if _, again := chosen[s]; !again {
					at++
					chosen[s] = corpus[at%len(corpus)]
				}
				return chosen[s]
			})
			at += 7 // another field for each
		})
	}
}
