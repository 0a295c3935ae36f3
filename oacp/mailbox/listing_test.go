package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	p := demo(t)
	a := p.must(t, "reviewer")
	strange(t, a.Inbox())
	at := func(hour int) string { return fmt.Sprintf(`created_at_utc: "2026-01-01T%02d:00:00Z"`, hour) }
	for name, m := range map[string]string{
		"a.yaml": text("priority: P3", "type: task_request"),
		"b.yaml": text("priority: P0", at(5)),
		"c.yaml": text("priority: P0", "type: review_request", at(9)),
		"d.yaml": text("priority: P0", at(4)),
		"e.yaml": text("priority: P0", at(4)),
		"f.yaml": text("priority: P0", `expires_at: "2026-01-02T00:00:00Z"`),
		"g.yaml": "[1]",
		"h.yaml": "",
	} {
		write(t, filepath.Join(a.Inbox(), name), m)
	}
	names := func(byName bool) string {
		l, err := p.ListInboxes("reviewer", byName)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i, m := range l.Agents[0].Messages {
			if rank := [2]int{m.Rank, m.NameRank}; byName && rank[1] != i+1 || !byName && rank[0] != i+1 {
				t.Errorf("%s is number %d and says %v", m.File, i+1, rank)
			}
			if m.Expired != (m.File == "f.yaml") || (m.LoadError != "") != (m.File == "g.yaml") {
				t.Errorf("%+v", m)
			}
			names = append(names, strings.TrimSuffix(m.File, ".yaml"))
		}
		return strings.Join(names, " ")
	}
	if got := names(false); got != "c d e b a g h f" {
		t.Errorf("order of processing: %s", got)
	}
	if got := names(true); got != "a b c d e f g h" {
		t.Errorf("order of names: %s", got)
	}
	l, err := p.ListInboxes("", false)
	if err != nil || l.Mode != "all" || len(l.Agents) != 3 || l.Agents[1].Count != 8 || l.Agents[0].Count != 0 {
		t.Errorf("all: %+v, %v", l, err)
	}
	for _, name := range []string{"nobody", ".."} {
		if _, err := p.ListInboxes(name, false); err == nil {
			t.Errorf("%q has an inbox", name)
		}
	}
}

func TestVanishing(t *testing.T) {
	p := demo(t)
	a := p.must(t, "reviewer")
	done := make(chan error)
	go func() { // agents that process and tools that write, meanwhile
		for range 200 {
			path, err := put(a.Inbox(), "m.yaml", text())
			if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				done <- err
				return
			}
		}
		close(done)
	}()
	w := Watch{Home: p.Home, Agent: "reviewer", Projects: []string{"demo"}}
	for listed := 0; ; listed++ {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			if listed == 0 {
				t.Error("nothing was listed meanwhile")
			}
			return
		default:
		}
		l, err := p.ListInboxes("reviewer", false)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range l.Agents[0].Messages {
			if m.LoadError != "" {
				t.Errorf("a message was seen in part: %s", m.LoadError)
			}
		}
		if !w.Scan(func(Event) {}) {
			t.Error("the watch failed")
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0m", 59 * time.Second: "0m", 59*time.Minute + 59*time.Second: "59m", time.Hour: "1h",
		48*time.Hour - 1: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "plain", "Done: é — ok", "a\"\\b\n\t\r\b\f\x00\x1f\x7f", "\u2028\ufeff😀", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, indent := range []bool{false, true} {
			b, err := FormatJSON(map[string]string{"s": s}, indent)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range b {
				if c != '\n' && (c < ' ' || c > '~') {
					t.Fatalf("%q is not ASCII", b)
				}
			}
			var back map[string]string
			if err := json.Unmarshal(b, &back); err != nil || utf8.ValidString(s) && back["s"] != s {
				t.Fatalf("%q became %q: %v", s, back["s"], err)
			}
		}
	})
}

func TestJSON(t *testing.T) { // as Python prints it
	v := struct {
		A []int             `json:"a"`
		B map[string]string `json:"b"`
		C []int             `json:"c"`
		D *int              `json:"d"`
	}{[]int{}, map[string]string{"y": "é😀/<\x7f\b", "x": ""}, []int{1, 2}, nil}
	line, err := FormatJSON(v, false)
	if want := `{"a": [], "b": {"x": "", "y": "\u00e9\ud83d\ude00/<\u007f\b"}, "c": [1, 2], "d": null}`; string(line) != want || err != nil {
		t.Errorf("%s, %v\nwant %s", line, err, want)
	}
	page, err := FormatJSON(v, true)
	want := "{\n  \"a\": [],\n  \"b\": {\n    \"x\": \"\",\n    \"y\": \"\\u00e9\\ud83d\\ude00/<\\u007f\\b\"\n  },\n  \"c\": [\n    1,\n    2\n  ],\n  \"d\": null\n}"
	if diff := cmp.Diff(want, string(page)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if !jsontext.Value(page).IsValid() {
		t.Error("not JSON")
	}
}
