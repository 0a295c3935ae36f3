package setup

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/txtar"
)

// Entries go where the others are, in the file's own form; taking them away leaves what was there.
func TestJSONEntries(t *testing.T) {
	entry := object{{"command", "x"}, {"args", []string{"a", "b"}}}
	for _, c := range []struct{ text, want string }{
		{`{}`, "{\n  \"s\": {\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"a\", \"b\"]\n    }\n  }\n}"},
		{`{"a":1}`, `{"a":1,"s":{"n":{"command":"x","args":["a","b"]}}}`},
		{`{"a": 1, "b": 2}`, `{"a": 1, "b": 2, "s":{"n":{"command":"x","args":["a","b"]}}}`},
		{"{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"s\": {\n\t\t\"n\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"a\", \"b\"]\n\t\t}\n\t}\n}\n"},
		{"{\n \"s\": {}\n}", "{\n \"s\": {\n  \"n\": {\n   \"command\": \"x\",\n   \"args\": [\"a\", \"b\"]\n  }\n }\n}"},
		{"{\n  \"s\": { // none\n  },\n}", "{\n  \"s\": { // none\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"a\", \"b\"]\n    }\n  },\n}"},
		{"{\n  \"s\": {\n    \"m\": 1 // last\n    /* end */\n  }\n}", "{\n  \"s\": {\n    \"m\": 1, // last\n    /* end */\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"a\", \"b\"]\n    }\n  }\n}"},
	} {
		d, err := newJSONText([]byte(c.text), true)
		if err != nil {
			t.Fatal(err)
		}
		made, err := d.set(entry, "s", "n")
		if err != nil || string(d.text) != c.want {
			t.Errorf("%q: %v\ngot  %q\nwant %q", c.text, err, d.text, c.want)
		}
		if _, err := d.set(entry, "s", "n"); err != nil || string(d.text) != c.want {
			t.Errorf("%q: set again: %v, %q", c.text, err, d.text)
		}
		if err = d.remove("s", "n"); err == nil {
			err = d.removeEmpty(made)
		}
		if err != nil || string(d.text) != c.text {
			t.Errorf("%q: taken away: %v, %q", c.text, err, d.text)
		}
	}
}

// What stands around an entry stays when it goes, wherever it is.
func TestJSONRemove(t *testing.T) {
	for text, want := range map[string]string{
		`{"x":1,"b":2}`:                     `{"b":2}`,
		`{"a":1,"x":2,"b":3}`:               `{"a":1,"b":3}`,
		`{"a":1,"x":2}`:                     `{"a":1}`,
		`{ "a": 1, "x": 2 }`:                `{ "a": 1 }`,
		`{"a":1,"x":2,}`:                    `{"a":1,}`,
		`{"x":1}`:                           `{}`,
		"{\n \"x\": 1\n}":                   "{}",
		"{\n \"x\": 1, // mine\n \"b\": 2}": "{\n  // mine\n \"b\": 2}",
		"{\n // of x\n \"x\": 1\n}":         "{\n // of x\n}",
		"{\r\n \"a\": 1,\r\n \"x\": 1\r\n}": "{\r\n \"a\": 1\r\n}",
	} {
		d, err := newJSONText([]byte(text), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.remove("x"); err != nil {
			t.Fatal(err)
		}
		if string(d.text) != want {
			t.Errorf("%q: got %q, want %q", text, d.text, want)
		}
	}
}

func addGolden(f *testing.F, ext string) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files {
			if strings.Contains(filepath.Ext(file.Name), ext) {
				f.Add([]byte(golden.Replace(string(file.Data))))
			}
		}
	}
}

// Whatever a JSON file holds: setup refuses it, or writes a file that is valid, has all that
// was there, and is what it was when setup's part goes.
func FuzzJSON(f *testing.F) {
	addGolden(f, "json")
	for _, text := range []string{`{"a":1 /*c*/,}`, "{\"mcp\":{//\n}}", `{"mcp":{"acp":1},"permission":{"x":"y"}}`, "{\"permission\" : \n{ } , }", "{\n\"a\":[1,],}", `{"a\ud83d":"\ud83d"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := newOptions("/home/someone")
		for relaxed, set := range map[bool]func([]byte, *Options) ([]byte, [][]string, error){false: setClaudeServer, true: setOpenCodeServer} {
			to, made, err := set(bytes.Clone(text), &o)
			if err != nil {
				continue
			}
			d, err := newJSONText(to, relaxed)
			if err != nil {
				t.Fatalf("%q became %q: %v", text, to, err)
			}
			if !relaxed && !jsontext.Value(bytes.TrimPrefix(to, []byte("\ufeff"))).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
				t.Fatalf("%q became %q", text, to)
			}
			again, _, err := set(bytes.Clone(to), &o)
			if err != nil || !bytes.Equal(again, to) {
				t.Fatalf("%q again became %q: %v", to, again, err)
			}
			checkKept(t, text, to)
			had, err := newJSONText(text, relaxed)
			if err != nil {
				t.Fatal(err)
			}
			entry, path := "mcpServers", [][]string{{"mcpServers", serverName}}
			if relaxed {
				entry, path = "mcp", [][]string{{"mcp", serverName}, {"permission", openCodeAll}}
			}
			if _, found, err := had.findValue(entry, serverName); err != nil || found {
				continue
			}
			if _, found, err := had.findValue("permission", openCodeAll); relaxed && (err != nil || found) {
				continue
			}
			for _, p := range path {
				if err := d.remove(p...); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.removeEmpty(made); err != nil {
				t.Fatal(err)
			}
			if want := bytes.TrimSpace(text); len(want) > 0 && withoutSpace(d.text) != withoutSpace(text) {
				t.Fatalf("%q became %q, and without setup's part %q", text, to, d.text)
			}
		}
	})
}

// checkKept fails the test unless all bytes of a text are in another one, in the same order.
func checkKept(t *testing.T, text, to []byte) {
	t.Helper()
	if bytes.Contains(text, []byte("acpctl")) {
		return // it had an entry that is brought up to date
	}
	was, is := withoutSpace(text), withoutSpace(to)
	for i := range len(is) {
		if was != "" && is[i] == was[0] {
			was = was[1:]
		}
	}
	if was != "" {
		t.Fatalf("%q became %q: it lacks %q", text, to, was)
	}
}

// withoutSpace returns a text without white space: what an empty object looked like before is
// known by its backup alone.
func withoutSpace(text []byte) string { return strings.Join(strings.Fields(string(text)), "") }

// The same for TOML.
func FuzzTOML(f *testing.F) {
	addGolden(f, "toml")
	for _, text := range []string{"a.b = 1\n[a.c]\n", "a = [[1], {b = 2}]", "a = 1979-05-27 07:32:00 # x", "[mcp_servers.acp]\ncommand='/x/acpctl'\nargs=['mcp']\nenv={}\n[x]\n", "\"a\\u00e9\" = '''x'''''"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := newOptions("/home/someone")
		o.Socket = "/run/desk/agent/acp.sock"
		to, made, err := setCodexServer(bytes.Clone(text), &o)
		if err == nil {
			to, _, err = allowCodexTools(to, toolsToRead)
		}
		if err != nil {
			return
		}
		again, _, err := setCodexServer(bytes.Clone(to), &o)
		if err == nil {
			again, _, err = allowCodexTools(again, toolsToRead)
		}
		if err != nil || !bytes.Equal(again, to) {
			t.Fatalf("%q again became %q: %v", to, again, err)
		}
		checkKept(t, text, to)
		d, err := newTOMLText(to)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, to, err)
		}
		if had, err := newTOMLText(text); err != nil || had.has(codexServer...) {
			return
		}
		if err := d.removeBelow(made, codexServer...); err != nil || !bytes.Equal(d.text, text) {
			t.Fatalf("%q became %q, and without setup's part %q: %v", text, to, d.text, err)
		}
	})
}

// The snippet comes and goes, and all else stays.
func FuzzSnippet(f *testing.F) {
	for _, text := range []string{"", "a", "a\n", "a\n\n", "a\r\n", "a\r\n\r\n", "\n", "\r", "\r\n", snippetBegin, snippetEnd + "\n" + snippetBegin} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		to, made, err := setSnippet(bytes.Clone(text))
		if err != nil || bytes.Contains(text, []byte(snippetBegin)) {
			return
		}
		if !bytes.HasPrefix(to, text) {
			t.Fatalf("%q became %q", text, to)
		}
		if again, _, err := setSnippet(bytes.Clone(to)); err != nil || !bytes.Equal(again, to) {
			t.Fatalf("%q again became %q: %v", to, again, err)
		}
		if back, err := removeSnippet(bytes.Clone(to), made); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%q became %q and then %q: %v", text, to, back, err)
		}
		more := append(bytes.Clone(to), "more\n"...)
		if back, err := removeSnippet(more, nil); err != nil || !bytes.Contains(back, text) || !bytes.HasSuffix(back, []byte("more\n")) {
			t.Fatalf("%q with more became %q: %v", to, back, err)
		}
	})
}

// A diff shows what changes, and nothing else of a file, whatever is on the same line.
func TestDiff(t *testing.T) {
	many := strings.Repeat("line\n", 5000)
	for _, c := range []struct{ from, to, want string }{
		{"a\nb\nc\n", "a\nb\nc\n", ""},
		{"", "a\nb\n", "@@ line 1 @@\n+a\n+b\n"},
		{"a\nb\n", "", "@@ line 1 @@\n-a\n-b\n"},
		{"a\nb\nc\n", "a\nx\nc\n", "@@ line 2 @@\n-b\n+x\n"},
		{"{\"key\": \"secret\"\n}", "{\"key\": \"secret\",\n\"b\": 1\n}", "@@ line 1 @@\n+…,\n+\"b\": 1\n"},
		{"{\"key\": \"secret\",\"b\": 1}", "{\"key\": \"secret\"}", "@@ line 1 @@\n-…,\"b\": 1…\n"},
		{"secret", "secret\nmore\n", "@@ line 1 @@\n+more\n"},
		{"a\n" + many + "b\n", "x\n" + many + "y\n", "@@ line 1 @@\n-a\n+x\n@@ line 5002 @@\n-b\n+y\n"},
		{strings.Repeat("secret", 100) + "old" + strings.Repeat("secret", 100) + "\n", strings.Repeat("secret", 100) + "new" + strings.Repeat("secret", 100) + "\n", "@@ line 1 @@\n-…old…\n+…new…\n"},
	} {
		want := c.want
		if want != "" {
			want = "--- f\n+++ f\n" + want
		}
		if got := formatDiff("f", c.from, c.to); got != want {
			t.Errorf("%.60q to %.60q:\n%s\nwant\n%s", c.from, c.to, got, want)
		}
	}
}

// The hunks of a comparison lead from one text to the other.
func FuzzHunks(f *testing.F) {
	f.Add("abcabba", "cbabac")
	f.Add("", "abc")
	f.Add("aaab", "baaa")
	f.Fuzz(func(t *testing.T, from, to string) {
		a, b := strings.Split(from, ""), strings.Split(to, "")
		var got []string
		at := 0
		for _, h := range findHunks(a, b) {
			if h.from.start < at {
				t.Fatalf("%q to %q: hunks that overlap", from, to)
			}
			got = append(got, a[at:h.from.start]...)
			if len(got) != h.to.start {
				t.Fatalf("%q to %q: a hunk at %d, not %d", from, to, h.to.start, len(got))
			}
			got = append(got, b[h.to.start:h.to.end]...)
			at = h.from.end
		}
		if got = append(got, a[at:]...); strings.Join(got, "") != to {
			t.Fatalf("%q to %q: got %q", from, to, strings.Join(got, ""))
		}
	})
}
