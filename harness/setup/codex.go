package setup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// codex is Codex. Its servers and the rules for their tools are in config.toml.
var codex = &program{name: "codex", title: "Codex"}

func init() {
	codex.listSteps, codex.listParts, codex.readEntry = listCodexSteps, listCodexParts, readCodexEntry
}

// codexPlaces are the files of Codex that setup concerns.
type codexPlaces struct {
	config       place
	instructions []place // of which it reads the first that there is
}

func findCodexPlaces(o *Options) (codexPlaces, error) {
	if o.Project != "" {
		in := func(path ...string) place { return projectPlace(o.Project, path...) }
		return codexPlaces{in(".codex", "config.toml"), []place{in("AGENTS.override.md"), in("AGENTS.md")}}, nil
	}
	dir, err := o.folder("CODEX_HOME", ".codex")
	if err != nil {
		return codexPlaces{}, err
	}
	override, usual := ownPlace(dir, "AGENTS.override.md"), ownPlace(dir, "AGENTS.md")
	override.mode, usual.mode = 0o644, 0o644
	return codexPlaces{ownPlace(dir, "config.toml"), []place{override, usual}}, nil
}

// codexServer is the path of the server's table.
var codexServer = []string{"mcp_servers", serverName}

func listCodexSteps(o *Options) ([]Step, error) {
	at, err := findCodexPlaces(o)
	if err != nil {
		return nil, err
	}
	steps := newConfigSteps(codex, o, at.config, setCodexServer, at.config, allowCodexTools)
	if o.Project != "" {
		steps[0].Note = "Others who work on the project get " + at.config.path + " too if it is committed. Codex reads it in folders that you trust."
	}
	instructions, found := firstExisting(at.instructions...)
	step := newInstructionsStep(codex, instructions)
	if !found {
		step = newInstructionsStep(codex, at.instructions[len(at.instructions)-1])
		if hasFallback(o) { // a new AGENTS.md would hide what it names
			step.edits = nil
			step.Note = "There is no AGENTS.md in the project, and project_doc_fallback_filenames names what Codex reads instead: no instructions are added."
		}
	}
	return append(steps, o.withSkill(step, codex, o.agentsSkill())), nil
}

// hasFallback reports whether Codex reads other files in a project that has no AGENTS.md.
func hasFallback(o *Options) bool {
	if o.Project == "" {
		return false
	}
	user := *o
	user.Project = ""
	for _, o := range []*Options{o, &user} {
		at, err := findCodexPlaces(o)
		if err != nil {
			continue
		}
		if f, err := readFile(at.config); err == nil && bytes.Contains(f.text, []byte("project_doc_fallback_filenames")) {
			return true
		}
	}
	return false
}

func listCodexParts(o *Options) ([]part, error) {
	at, err := findCodexPlaces(o)
	if err != nil {
		return nil, err
	}
	parts := []part{{
		place: at.config, hasServer: true,
		isEmpty: func(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 },
		change: func(text []byte, made [][]string) ([]byte, error) {
			d, err := newTOMLText(text)
			if err != nil {
				return nil, err
			}
			if e, err := readCodexServer(d); err != nil || !e.isOurs(o) {
				return text, err
			}
			err = d.removeBelow(made, codexServer...)
			return d.text, err
		},
	}}
	for _, p := range at.instructions {
		parts = append(parts, newSnippetPart(p, o.Project != ""))
	}
	return append(parts, newSkillPart(o.agentsSkill())), nil
}

func readCodexEntry(text []byte) (serverEntry, error) {
	d, err := newTOMLText(text)
	if err != nil {
		return serverEntry{}, err
	}
	return readCodexServer(d)
}

// errCodexForm is the error of an entry that setup cannot change.
var errCodexForm = fmt.Errorf("it has the server %q in a form that setup does not write: remove it, or give it a table [mcp_servers.%s]", serverName, serverName)

func readCodexServer(d *tomlText) (e serverEntry, err error) {
	if i := d.find(false, codexServer[:1]...); i >= 0 {
		return e, errors.New("mcp_servers is an inline table, which cannot be added to: write its servers as tables [mcp_servers.NAME]")
	}
	if e.found = d.has(codexServer...); !e.found {
		return e, nil
	}
	if d.find(true, codexServer...) < 0 {
		return e, errCodexForm
	}
	if i := d.find(false, slices.Concat(codexServer, []string{"command"})...); i >= 0 {
		word, _ := d.readString(d.items[i].value)
		e.command = []string{word}
	}
	if i := d.find(false, slices.Concat(codexServer, []string{"args"})...); i >= 0 {
		words, _ := d.readStrings(d.items[i].value)
		e.command = append(e.command, words...)
	}
	if i := d.find(false, slices.Concat(codexServer, []string{"enabled"})...); i >= 0 {
		e.disabled = !d.isEqual(d.items[i].value, true)
	}
	env := slices.Concat(codexServer, []string{"env"})
	for _, item := range d.items {
		isBelow := len(item.path) > len(env) && slices.Equal(item.path[:len(env)], env)
		e.hasMore = e.hasMore || isBelow && !slices.Equal(item.path[len(env):], []string{socketVariable})
	}
	if i := d.find(false, slices.Concat(codexServer, []string{"env", socketVariable})...); i >= 0 {
		e.socket, _ = d.readString(d.items[i].value)
	} else if i := d.find(false, slices.Concat(codexServer, []string{"env"})...); i >= 0 && d.text[d.items[i].value.start] == '{' {
		c, _, _ := d.readInline(d.items[i].value.start, 0)
		for _, v := range c.entries {
			if v.name == socketVariable {
				e.socket, _ = d.readString(v.value)
			} else {
				e.hasMore = true
			}
		}
	}
	return e, nil
}

// setCodexServer writes the server, and returns what it adds before its table. What else the user
// has put there stays.
func setCodexServer(text []byte, o *Options) (to []byte, made [][]string, err error) {
	d, err := newTOMLText(text)
	if err != nil {
		return nil, nil, err
	}
	e, err := readCodexServer(d)
	if err == nil && e.found && !e.isOurs(o) {
		err = errForeign
	}
	command := o.command()
	if err == nil {
		made, err = d.set(codexServer, codexServer, "command", command[0])
	}
	if err == nil {
		_, err = d.set(codexServer, codexServer, "args", command[1:])
	}
	if err == nil && e.disabled {
		_, err = d.set(codexServer, codexServer, "enabled", true)
	}
	if err == nil && e.socket != o.Socket {
		err = setCodexSocket(d, o.Socket)
	}
	return d.text, made, err
}

// setCodexSocket sets ACP_SOCKET in the server's environment, or removes it if it is "".
func setCodexSocket(d *tomlText, socket string) error {
	env := slices.Concat(codexServer, []string{"env"})
	if i := d.find(false, env...); i >= 0 { // env = { … }
		v := d.items[i].value
		if d.text[v.start] != '{' {
			return d.errorAt(v.start, "env is no table: remove it or make it one, then run setup again")
		}
		c, _, _ := d.readInline(v.start, 0)
		if at := slices.IndexFunc(c.entries, func(e entry) bool { return e.name == socketVariable }); at >= 0 {
			if socket != "" {
				return d.apply(splice{c.entries[at].value, quoteTOML(socket)})
			}
			return d.errorAt(v.start, "env has %s, which is to be the usual one: remove it there", socketVariable)
		}
		end := ","
		if len(c.entries) == 0 {
			end = " "
		}
		return d.apply(splice{span{c.open + 1, c.open + 1}, " " + socketVariable + " = " + quoteTOML(socket) + end})
	}
	if socket == "" {
		if i := d.find(false, slices.Concat(env, []string{socketVariable})...); i >= 0 {
			return d.apply(splice{d.items[i].lines, ""})
		}
		return nil
	}
	_, err := d.set(codexServer, env, socketVariable, socket)
	return err
}

// allowCodexTools gives tools a table that says that they need no approval. One that is there
// already stays: it is the user's choice.
func allowCodexTools(text []byte, tools []string) (to []byte, made [][]string, err error) {
	d, err := newTOMLText(text)
	if err != nil {
		return nil, nil, err
	}
	if i := d.find(false, slices.Concat(codexServer, []string{"default_tools_approval_mode"})...); i >= 0 {
		if s, _ := d.readString(d.items[i].value); s == "approve" {
			return text, nil, nil
		}
	}
	for _, tool := range tools {
		path := slices.Concat(codexServer, []string{"tools", tool})
		if !d.has(path...) {
			if _, err := d.set(codexServer, path, "approval_mode", "approve"); err != nil {
				return nil, nil, err
			}
		}
	}
	return d.text, nil, nil
}
