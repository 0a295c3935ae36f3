package profile

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/internal/yamldoc"
)

// An error begins with the file and the line, names the key, and ends with what to do. What is
// wrong with several keys is said at once.
func TestErrorsOfAFile(t *testing.T) {
	const good = "program: x\noutput: {format: json, rules: [{done: true}]}\n"
	for text, want := range map[string]string{
		"# nothing\n":                              `x.yaml: there is nothing in it: begin with what acpctl serve --show-profile claude prints`,
		"{}":                                       `x.yaml: there is nothing in it: begin with what acpctl serve --show-profile claude prints`,
		"about: none\n":                            `x.yaml: program: "": use a name, which is looked for in PATH, or an absolute path`,
		"program: x\nargs: [a, b\nenv: {A: b}":     `x.yaml:1: no valid YAML: did not find expected ',' or ']': check quotes, colons and indentation here and in the next lines`,
		"program: x\n\targs: [a]":                  `x.yaml:2: a tab indents this line: use spaces`,
		good + "arg: [a]":                          `x.yaml:3: unknown key "arg": did you mean "args"?`,
		good + "limits:\n  tokns: 5":               `x.yaml:4: unknown key "limits.tokns": did you mean "limits.tokens"?`,
		good + "name: y":                           `x.yaml:3: unknown key "name": valid here: about, program, args, env, pass, credentials, files, read, dir, forbid, tools, acp, schema, output, limits`,
		good + "limits: {timeout: 10}":             `x.yaml:3: "limits.timeout" must be a time, not "10": write it with its unit, like 500ms, 30s or 24h`,
		good + "limits: {output: 16MiB}":           `x.yaml:3: "limits.output" must be a whole number, not "16MiB": write digits only`,
		good + "limits: {output: 30s}":             `x.yaml:3: "limits.output" must be a whole number, not "30s": write digits only`,
		good + "limits: {disk: 1.5}":               `x.yaml:3: "limits.disk" must be a whole number, not "1.5": write digits only`,
		good + "limits: {disk: 0x1p70}":            `x.yaml:3: "limits.disk" must be a whole number, not "0x1p70": write digits only`,
		good + "limits: {tokens: -1}":              `x.yaml:3: "limits.tokens" must be a whole number from 0, not "-1": write digits only`,
		good + "limits: {turns: [5]}":              `x.yaml:3: "limits.turns" must be a whole number, not a list: write digits only`,
		good + "limits: {cost: $1}":                `x.yaml:3: "limits.cost" must be a number, not "$1": write it like 10 or 0.5`,
		good + "acp: yes":                          `x.yaml:3: "acp" must be true or false, not "yes": write one of them, without quotes`,
		good + "about: [a]":                        `x.yaml:3: "about" must be text, not a list: put it in quotes`,
		good + "args: --json":                      `x.yaml:3: "args" must be a list, not "--json": write [a, b], or one item a line after -`,
		good + "args:\n- a\n- [b]":                 `x.yaml:5: "args[1]" must be text or settings, not a list: put each on a line of its own, as key: value`,
		good + "args:\n- {when: model}":            `x.yaml:4: bad "args[0]": use text, or settings with both when and args`,
		good + "args: [{args: [a]}]":               `x.yaml:3: bad "args[0]": use text, or settings with both when and args`,
		good + "args: [{}]":                        `x.yaml:3: bad "args[0]": use text, or settings with both when and args`,
		good + "args: [{when: [], args: [a]}]":     `x.yaml:3: bad "args[0].when": an empty list: name a condition, or write the arguments without it`,
		good + "args: [{when: acp, args: []}]":     `x.yaml:3: bad "args[0].args": an empty list: add an argument, or remove the entry`,
		good + "args: [{when: acp, args: a}]":      `x.yaml:3: "args[0].args" must be a list, not "a": write [a, b], or one item a line after -`,
		good + "args: [{when: {a: b}, args: [a]}]": `x.yaml:3: "args[0].when" must be text or a list, not settings: write [a, b], or one item a line after -`,
		good + "args: [~]":                         `x.yaml:3: "args[0]" has no value: give it one or remove the line`,
		good + "env:\n  A:\n":                      `x.yaml:4: "env.A" has no value: give it one or remove the line`,
		good + "env: {A: b, A: c}":                 `x.yaml:3: "env.A" is set again, after line 3: remove one of them`,
		good + "env: [A=b]":                        `x.yaml:3: "env" must be settings, not a list: put each on a line of its own, as key: value`,
		good + "args: [&a b, *a]":                  "x.yaml:3: \"args[0]\" uses an anchor or alias: write the value out\nx.yaml:3: \"args[1]\" uses an anchor or alias: write the value out",
		good + "---\nabout: x":                     `x.yaml:3: a second document begins here: remove the line ---, or everything from it on`,
		"[program]":                                `x.yaml:1: the file must be settings, not a list: put each on a line of its own, as key: value`,
		good + "about: \"\xff\"":                   `x.yaml:3: a character that is no text: save the file as UTF-8 without control characters`,
		"program: x\noutput:\n  format: json\n  rules:\n  - {don: true, tokens: {a: b}}\nlimits: {turns: many}": `x.yaml:5: unknown key "output.rules[0].don": did you mean "output.rules[0].done"?` + "\n" +
			`x.yaml:5: "output.rules[0].tokens" must be text or a list, not settings: write [a, b], or one item a line after -` + "\n" +
			`x.yaml:6: "limits.turns" must be a whole number, not "many": write digits only`,
		good + "limits:\n  timeout: 10m\n  turns: 1001": `x.yaml:5: limits: turns: 1001: use a number from 1 to 1000`,
		"program: x\n": `x.yaml: output: it is missing, so no answer would be found: write output: {format: json, rules: [{done: true, text: KEY}]}, where KEY has the answer in the object that the program prints`,
		"program: x\noutput:\n  rules: [{done: true}]":                  `x.yaml:2: output: format: "": use json for one object, or jsonl for an object a line`,
		"program: x\noutput:\n  format: json\n  rules: [{text: a}]":     `x.yaml:4: output: rules: none has done: true, so no run would ever have succeeded: add it to the rule that reads the answer, like {done: true, text: KEY}`,
		"program: x\noutput:\n  format: json":                           `x.yaml:2: output: rules: none has done: true, so no run would ever have succeeded: add it to the rule that reads the answer, like {done: true, text: KEY}`,
		"program: x\noutput:\n  format: jsonl\n  rules: [{done: true}]": `x.yaml:4: output: rules: one has no when, and would match every line: add one, like when: {type: result}`,
		good + "env: {HOME: x}":                                         `x.yaml:3: env: "HOME": it cannot be set here: remove it, or use a name of letters, digits and _ other than HOME, PATH, TMPDIR, ACP_SOCKET, ACP_AGENT, ACP_AGENT_KEY, ACP_HOME, ACP_ID`,
		good + "pass: [LD_PRELOAD]":                                     `x.yaml:3: pass: "LD_PRELOAD": it cannot be passed on: remove it`,
		good + "dir: here":                                              `x.yaml:3: dir: "here": use a path that begins with / or ~/`,
	} {
		if p, err := Parse("x", "x.yaml", []byte(text)); err == nil || err.Error() != want || p != nil {
			t.Errorf("%q: %+v\ngot  %v\nwant %s", text, p, err, want)
		}
	}
}

// Text needs no quotes where YAML would see a number or a truth value, and a list of one needs
// no brackets.
func TestShortForms(t *testing.T) {
	p, err := Parse("x", "x.yaml", []byte(`
program: x
args: [--max, 5, 0x10, true, {when: model, args: [1.50]}, {when: [acp, "!new"], args: [2026-01-01]}]
env: {A: 1, B: yes, C: ""}
output: {format: json, rules: [{when: {ok: true, n: 1e3}, done: true, tokens: a.b}, {tokens: [a, b]}]}
limits: {timeout: 90s, output: 2048, tokens: 7, disk: 2097152, turns: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Profile{
		Name: "x", Program: "x", Env: map[string]string{"A": "1", "B": "yes", "C": ""},
		Args: []Arg{{Args: []string{"--max"}}, {Args: []string{"5"}}, {Args: []string{"0x10"}}, {Args: []string{"true"}},
			{When: words{"model"}, Args: []string{"1.50"}}, {When: words{"acp", "!new"}, Args: []string{"2026-01-01"}}},
		Output: Output{Format: "json", Rules: []Rule{{When: map[string]string{"ok": "true", "n": "1e3"}, Done: true, Tokens: words{"a.b"}}, {Tokens: words{"a", "b"}}}},
		Limits: Limits{Timeout: 90 * time.Second, Output: 2048, Tokens: 7, Disk: 2097152, Turns: 3},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range ListNames("") {
		text, err := ReadNamed("", name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{fakeProfile, "", "args: [a, {when: acp, args: [b]}, [c], ~, {}]", "a: &a [*a]", "limits: {tokens: -1, output: 1e99, timeout: 1}", "? {a: b}\n: |\n  x\n", "\t"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("x", "x.yaml", text)
		if err == nil {
			if err := p.check(); err != nil {
				t.Errorf("accepted %+v: %v", p, err)
			}
			for _, a := range p.Args {
				if len(a.Args) == 0 {
					t.Errorf("accepted %+v", a)
				}
			}
			return
		}
		list := []error{err}
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			list = all.Unwrap()
		}
		if p != nil || len(list) > yamldoc.MaxErrors+1 {
			t.Fatalf("%d errors beside %v", len(list), p)
		}
		for _, err := range list {
			if !strings.HasPrefix(err.Error(), "x.yaml:") {
				t.Errorf("%v", err)
			}
		}
	})
}
