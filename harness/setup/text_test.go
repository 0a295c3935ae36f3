package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tailscale/hujson"
)

// Entries go where the others are, in the file's own form; taking them away leaves what was there.
func TestJSONEntries(t *testing.T) {
	entry := object{{"command", "x"}, {"args", []string{"a"}}}
	for _, c := range []struct{ text, want string }{
		{`{}`, "{\n  \"s\": {\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"a\"]\n    }\n  }\n}"},
		{`{"a":1}`, `{"a":1, "s": {"n": {"command": "x", "args": ["a"]}}}`},
		{`{"a": 1, "b": 2,}`, `{"a": 1, "b": 2, "s": {"n": {"command": "x", "args": ["a"]}},}`},
		{"{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"s\": {\n\t\t\"n\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"a\"]\n\t\t}\n\t}\n}\n"},
		{"{\r\n \"s\": {\"m\": 1}\r\n}", "{\r\n \"s\": {\"m\": 1, \"n\": {\"command\": \"x\", \"args\": [\"a\"]}}\r\n}"},
		{"{\n  \"s\": { // none\n  },\n}", "{\n  \"s\": { // none\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"a\"]\n    }\n  },\n}"},
		{"{\n  \"s\": {\n    \"m\": 1 // last\n    /* end */\n  }\n}", "{\n  \"s\": {\n    \"m\": 1, // last\n    /* end */\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"a\"]\n    }\n  }\n}"},
	} {
		d, err := openRelaxedJSON([]byte(c.text))
		for range 2 { // the second time changes nothing
			if err == nil {
				err = d.set(entry, "s", "n")
			}
			if err != nil || string(d.bytes()) != c.want {
				t.Errorf("%q: %v\ngot  %q\nwant %q", c.text, err, d.bytes(), c.want)
			}
		}
		if err := d.remove("s", "n"); err != nil || string(d.bytes()) != c.text {
			t.Errorf("%q: taken away: %v, %q", c.text, err, d.bytes())
		}
	}
}

// A text that nests too deep is refused before the parser reads it, whatever space or comment is between
// the brackets: the parser's stack has an end.
func FuzzJSONDepth(f *testing.F) {
	for _, extra := range []string{"", " ", "//\n", "///\n", "/**/", "/***/", "/*/*/", "/*//*/", "/**//**/", "/*\"*///\"\n", "//*\n", "/*]*/", "//]\n/*}*/", "/*\\*/"} {
		f.Add(extra)
	}
	f.Fuzz(func(t *testing.T, extra string) {
		if v, err := hujson.Parse([]byte(extra + "0")); len(extra) > 100 || err != nil || v.StartOffset != len(extra) {
			return // it is no space or comment
		}
		for _, bracket := range []string{extra + "[", extra + `{"]":`, "[" + extra + `"\"]",` + extra, "[{}" + extra + "," + extra} {
			if !isNestedTooDeep([]byte(extra + strings.Repeat(bracket, maxJSONDepth+1) + "\n")) {
				t.Errorf("%q is not refused", bracket)
			}
			if isNestedTooDeep([]byte(extra + strings.Repeat(bracket, maxJSONDepth-1) + extra)) {
				t.Errorf("%q is refused below the bound", bracket)
			}
		}
	})
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
		d, err := openRelaxedJSON([]byte(text))
		if err == nil {
			err = d.remove("x")
		}
		if err != nil || string(d.bytes()) != want {
			t.Errorf("%q: got %q, %v, want %q", text, d.bytes(), err, want)
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

// Whatever a file has, setup refuses it, or writes a file that has all that was there, and taking
// setup's part out leaves what was there: white space, and objects that were empty before, apart.
func fuzzProgram(f *testing.F, program string) {
	f.Fuzz(func(t *testing.T, text []byte) {
		o := newOptions("/home/someone")
		o.Socket = "/run/desk/agent/acp.sock"
		p, _ := findProgram(program)
		steps, err := p.listSteps(&o)
		if err != nil {
			t.Fatal(err)
		}
		ext := filepath.Ext(steps[0].edits[0].place.path)
		set := func(text []byte) ([]byte, error) {
			for _, e := range slices.Concat(steps[0].edits, steps[1].edits) {
				to, err := e.change(bytes.Clone(text))
				if _, isSkipped := errors.AsType[skippedError](err); isSkipped {
					continue
				}
				if text = to; err != nil {
					return nil, err
				}
			}
			return text, nil
		}
		unset := func(text []byte) []byte {
			parts, err := p.listParts(&o)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				if filepath.Ext(part.place.path) == ext {
					if text, err = part.change(bytes.Clone(text)); err != nil {
						t.Fatal(err)
					}
				}
			}
			return text
		}
		to, err := set(text)
		if err != nil {
			return
		}
		if again, err := set(to); err != nil || !bytes.Equal(again, to) {
			t.Fatalf("%q again became %q: %v", to, again, err)
		}
		checkKept(t, text, to)
		if withoutSpace(text) == "" || bytes.Contains(text, []byte("acp")) || bytes.Contains(text, []byte("\\u")) || strings.Contains(withoutSpace(text), "{}") {
			return // an empty file, or one that may have had an entry, or an object that goes when setup's part does
		}
		if back := unset(to); withoutSpace(back) != withoutSpace(text) {
			t.Fatalf("%q became %q, and without setup's part %q", text, to, back)
		}
		if program == "codex" && !reflect.DeepEqual(listForeignKeys(t, text), listForeignKeys(t, to)) {
			t.Fatalf("%q became %q, which has other keys", text, to)
		}
	})
}

// listForeignKeys returns the values of a TOML text, by their paths, but not those of the server.
func listForeignKeys(t *testing.T, text []byte) map[string]any {
	d, _, err := openText(text, openTOML)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]any)
	for _, i := range d.(*tomlText).items {
		if !isBelow(i.path, []string{codexServer.list, serverName}) {
			keys[fmt.Sprintf("%q", i.path)] = i.decoded
		}
	}
	return keys
}

func FuzzClaude(f *testing.F) {
	addGolden(f, "json")
	f.Add([]byte(`{"a\ud83d":"\ud83d"}`))
	fuzzProgram(f, "claude")
}

func FuzzOpenCode(f *testing.F) {
	addGolden(f, "json")
	for _, text := range []string{`{"username":"cut \ud83d","permission":{"\ud83d":"ask"},"instructions":["\ud83d"]}`, `{"a":1 /*c*/,}`, "{\"mcp\":{//\n}}", `{"mcp":{"acp":1},"permission":{"x":"y"}}`, "{\"permission\" : \n{ } , }", "{\n\"a\":[1,],}"} {
		f.Add([]byte(text))
	}
	fuzzProgram(f, "opencode")
}

func FuzzCodex(f *testing.F) {
	addGolden(f, "toml")
	for _, text := range []string{"a.b = 1\n[a.c]\n", "a = [[1], {b = 2}]", "a = 1979-05-27 07:32:00 # x", "[mcp_servers.acp]\ncommand='/x/acpctl'\nargs=['mcp']\nenv={}\n[x]\n", "\"a\\u00e9\" = '''x'''''"} {
		f.Add([]byte(text))
	}
	fuzzProgram(f, "codex")
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

// The snippet comes and goes, and all else stays.
func FuzzSnippet(f *testing.F) {
	for _, text := range []string{"", "a", "a\n", "a\n\n", "a\r\n", "a\r\n\r\n", "\n", "\r", "\r\n", snippetBegin, snippetEnd + "\n" + snippetBegin} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		to, err := setSnippet(bytes.Clone(text))
		if err != nil || bytes.Contains(text, []byte(snippetBegin)) {
			return
		}
		if !bytes.HasPrefix(to, text) {
			t.Fatalf("%q became %q", text, to)
		}
		if again, err := setSnippet(bytes.Clone(to)); err != nil || !bytes.Equal(again, to) {
			t.Fatalf("%q again became %q: %v", to, again, err)
		}
		back, err := removeSnippet(append(to, "more\n"...))
		if rest, ok := bytes.CutSuffix(back, []byte("more\n")); err != nil || !ok || withoutSpace(rest) != withoutSpace(text) {
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
