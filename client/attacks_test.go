package client

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var update = flag.Bool("update", false, "write testdata/injection.golden anew")

// attack is a row of testdata/injection.json.
type attack struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Repeat int    `json:"repeat"` // 0: once
}

func readAttacks(t testing.TB) []attack {
	b, err := os.ReadFile("testdata/injection.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []attack
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Text = strings.Repeat(all[i].Text, max(1, all[i].Repeat))
	}
	return all
}

// TestAttacksOnTheBody: whatever a peer writes stands inert between the boundary lines, and
// the header is ours to the byte.
// holds: security.md#text-that-a-model-reads
func TestAttacksOnTheBody(t *testing.T) {
	plain, _, _ := strings.Cut(renderFixed(newQuestion("x")), "\n")
	for _, a := range readAttacks(t) {
		t.Run(a.Name, func(t *testing.T) {
			quoted, err := jsontext.AppendQuote(nil, a.Text)
			if err != nil {
				t.Fatal(err)
			}
			payloads := map[string]string{
				kinds.KindQuery:    `{"question":TEXT}`,
				kinds.KindDelegate: `{"task":TEXT,"context":{"a":TEXT}}`,
				kinds.KindResult:   `{"status":"completed","outcome":TEXT,"data":TEXT,"error":TEXT}`,
				kinds.KindNotify:   `{"topic":"a.b","data":[TEXT],"x":TEXT,NAME:1}`,
				kinds.KindResponse: `{"data":{"b":{NAME:TEXT}},"summary":TEXT}`,
				kinds.KindError:    `{"code":"internal","message":TEXT,"details":{"x":TEXT}}`,
				kinds.KindCancel:   `{"reason":TEXT}`,
				kinds.KindAck:      `{"accepted":false,"code":"internal","message":TEXT}`,
				"user":             `{"x":TEXT}`, // an unknown kind
				"":                 `{"x":TEXT`,  // no JSON
			}
			name := string(quoted)
			if len(a.Text) > 1000 {
				name = `"name"`
			}
			for kind, form := range payloads {
				m := newQuestion("")
				m.Kind = kind
				m.Payload = wire.Payload(strings.NewReplacer("TEXT", string(quoted), "NAME", name).Replace(form))
				rendered := RenderPeerMessage(m)
				checkInert(t, rendered)
				pages := 0
				for page := 1; page == 1 || page <= pages; page++ {
					if page > 3 && page < pages-1 {
						continue
					}
					var text string
					text, pages = RenderPeerPage(m, page, PeerPageSize)
					if checkInert(t, text); len(text) > PeerPageSize {
						t.Fatalf("page %d has %d bytes", page, len(text))
					}
				}
			}
			rendered := renderFixed(newQuestion(a.Text))
			if body := checkInert(t, rendered); a.Text != "" {
				checkNothingLost(t, a.Text, body)
			}
			header, _, _ := strings.Cut(rendered, "\n")
			if header = countsInHeader.ReplaceAllString(header, ""); header != plain {
				t.Errorf("the header became %q", header)
			}
			raw := newQuestion("")
			raw.Payload = wire.Payload(a.Text) // what no daemon takes
			if a.Text != "" {
				checkNothingLost(t, a.Text, checkInert(t, RenderPeerMessage(raw)))
			}
		})
	}
}

var countsInHeader = regexp.MustCompile(` (Control or hidden|Tags in it).*$`)

// TestAttacksOnTheHeader: a header has nothing of what a peer, or a careless caller, puts into
// its fields but an agent's plain name.
// holds: security.md#text-that-a-model-reads
func TestAttacksOnTheHeader(t *testing.T) {
	plain := renderFixed(newQuestion("hello"))
	agent := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)
	const role, filler = `(user|human|owner|me|self|system|admin|operator|root|assistant|model)[0-9]*`, `(the|your|my|a|notice|code|agent|message|)[0-9]*`
	roles := regexp.MustCompile(`^(` + filler + `[._-])*` + role + `([._-]` + filler + `)*$`)
	for _, a := range readAttacks(t) {
		t.Run(a.Name, func(t *testing.T) {
			m := newQuestion("hello")
			m.Agent = a.Text
			want := strings.Replace(plain, "its agent reviewer", "its agent ?", 1)
			switch {
			case a.Text == "":
				want = strings.Replace(plain, ", its agent reviewer", "", 1)
			case agent.MatchString(a.Text) && !roles.MatchString(a.Text):
				want = strings.Replace(plain, "reviewer", a.Text, 1)
			}
			if d := cmp.Diff(want, renderFixed(m)); d != "" {
				t.Error("agent:", d)
			}

			m = newQuestion("hello")
			m.Peer = a.Text
			want = strings.Replace(plain, "peer desk ", "peer ? ", 1)
			if identity.CheckName(a.Text) == nil || a.Text == "build-7.corp" { // the owner gave it, or an authority of the owner's
				want = strings.Replace(plain, "peer desk ", "peer "+a.Text+" ", 1)
			}
			if d := cmp.Diff(want, renderFixed(m)); d != "" {
				t.Error("peer:", d)
			}

			m = newQuestion("hello")
			m.Kind = a.Text
			if got, _, _ := strings.Cut(renderFixed(m), "\n"); got != strings.Replace(firstLine(plain), "kind query", "kind ?", 1) {
				t.Errorf("kind: %q", got)
			}

			m = newQuestion("hello")
			m.Answer = a.Text
			if body := checkInert(t, RenderPeerMessage(m)); body != "hello" {
				t.Errorf("answer: %.200q", body)
			}
		})
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// TestAttacksLookAsRecorded shows a reader of testdata/injection.golden how attacks arrive.
func TestAttacksLookAsRecorded(t *testing.T) {
	const file = "testdata/injection.golden"
	var b strings.Builder
	for _, a := range readAttacks(t) {
		if a.Repeat > 0 {
			continue
		}
		m := newQuestion(a.Text)
		m.Agent = a.Text
		fmt.Fprintf(&b, "== %s\n%s", a.Name, renderFixed(m))
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Error(d)
	}
}
