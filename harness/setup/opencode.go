package setup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// openCode is OpenCode. Its servers and rules are in opencode.json or opencode.jsonc, which may
// have comments.
var openCode = &program{name: "opencode", title: "OpenCode", executables: []string{".opencode/bin/opencode", ".local/bin/opencode"}}

func init() {
	openCode.listSteps, openCode.listParts, openCode.readEntry = listOpenCodeSteps, listOpenCodeParts, openCodeServer.parse
}

// openCodeServer is where OpenCode has the server.
var openCodeServer = &jsonServer{relaxed: true, list: "mcp", kind: "local", environment: "environment", enabled: true}

// openCodePlaces are the files of OpenCode that setup concerns.
type openCodePlaces struct {
	configs      []place // which it merges, the last word first
	made         place   // which of them is made if there is none
	instructions place
	// claudeFile is what it reads if it has no instructions of its own.
	claudeFile place
}

func findOpenCodePlaces(o *Options) (openCodePlaces, error) {
	if o.Project != "" {
		in := func(path ...string) place { return projectPlace(o.Project, path...) }
		return openCodePlaces{
			configs: []place{in("opencode.jsonc"), in("opencode.json"), in(".opencode", "opencode.jsonc"), in(".opencode", "opencode.json")}, made: in("opencode.json"),
			instructions: in("AGENTS.md"), claudeFile: in("CLAUDE.md"),
		}, nil
	}
	base, err := o.folder("XDG_CONFIG_HOME", ".config")
	if err != nil {
		return openCodePlaces{}, err
	}
	in := func(name string) place { return ownPlace(base, "opencode", name) }
	at := openCodePlaces{
		configs: []place{in("opencode.jsonc"), in("opencode.json"), in("config.json")}, made: in("opencode.json"),
		instructions: in("AGENTS.md"), claudeFile: ownPlace(o.Home, ".claude", "CLAUDE.md"),
	}
	at.instructions.mode = 0o644
	return at, nil
}

// findOpenCodeConfig returns the file to write: the one that has the server, else the one that has
// the last word, else a new one.
func findOpenCodeConfig(at openCodePlaces) place {
	for _, p := range at.configs {
		if f, err := readFile(p); err == nil && f.exists {
			if e, err := openCodeServer.parse(f.text); err == nil && e.found {
				return p
			}
		}
	}
	if p, ok := firstExisting(at.configs...); ok {
		return p
	}
	return at.made
}

func listOpenCodeSteps(o *Options) ([]Step, error) {
	at, err := findOpenCodePlaces(o)
	if err != nil {
		return nil, err
	}
	config := findOpenCodeConfig(at)
	steps := newConfigSteps(openCode, o, config, setOpenCodeServer, config, allowOpenCodeTools)
	server := &steps[0]
	server.Note = "OpenCode asks for nothing unless a rule makes it ask: setup writes one for the tools of this server."
	if word := readOpenCodeWord(config); word != "" {
		server.Note = fmt.Sprintf("%s has %q as the permission for everything, so that holds for each of its tools, those that send text to peers too.", config.path, word)
	}
	if o.Project != "" {
		server.Note += " Others who work on the project get " + config.path + " too if it is committed."
	}
	server.Note += " Its sessions can be woken if it is started with --port, and with OPENCODE_SERVER_PASSWORD set."
	instructions := newInstructionsStep(openCode, at.instructions)
	if !exists(at.instructions) && exists(at.claudeFile) {
		if o.Project != "" {
			instructions = newInstructionsStep(openCode, at.claudeFile)
		} else {
			instructions.edits = nil
			if f, err := readFile(at.claudeFile); err == nil && bytes.Contains(f.text, []byte(snippetBegin)) {
				instructions.Note = fmt.Sprintf("OpenCode reads %s, which has the paragraph already: no instructions are added.", at.claudeFile.path)
				return append(steps, o.withSkill(instructions, openCode, o.agentsSkill())), nil
			}
			instructions.Note = fmt.Sprintf("OpenCode has no %s, and so reads %s: no instructions are added, since a new file would hide that one.", at.instructions.path, at.claudeFile.path)
		}
	}
	return append(steps, o.withSkill(instructions, openCode, o.agentsSkill())), nil
}

// readOpenCodeWord returns the one word that a configuration has for all permissions, "" if it has
// none.
func readOpenCodeWord(at place) string {
	f, err := readFile(at)
	if err != nil {
		return ""
	}
	d, err := newJSONText(f.text, true)
	if err != nil {
		return ""
	}
	v, found, err := d.findValue("permission")
	if err != nil || !found {
		return ""
	}
	word, _ := d.readString(v)
	return word
}

func listOpenCodeParts(o *Options) ([]part, error) {
	at, err := findOpenCodePlaces(o)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, p := range at.configs {
		parts = append(parts, part{place: p, isEmpty: isEmptyJSON, change: func(text []byte, made [][]string) ([]byte, error) {
			return removeFromOpenCode(text, made, o)
		}, hasServer: true})
	}
	parts = append(parts, newSnippetPart(at.instructions, o.Project != ""))
	if o.Project != "" {
		parts = append(parts, newSnippetPart(at.claudeFile, true))
	}
	return append(parts, newSkillPart(o.agentsSkill())), nil
}

func removeFromOpenCode(text []byte, made [][]string, o *Options) ([]byte, error) {
	return editJSON(text, true, made, func(d *jsonText) error {
		e, err := openCodeServer.read(d)
		if err != nil || e.found && !e.isOurs(o) {
			return err
		}
		if err := d.remove("mcp", serverName); err != nil {
			return err
		}
		if v, found, err := d.findValue("permission"); err != nil || !found || d.kindOf(v) != '{' {
			return err
		}
		for _, rule := range slices.Concat([]string{openCodeAll}, openCodeRules(toolsToRead), openCodeRules(toolsToSend)) {
			if err := d.remove("permission", rule); err != nil {
				return err
			}
		}
		return nil
	})
}

// openCodeAll is the rule for all tools of the server. Of the rules that match, the last one counts.
const openCodeAll = serverName + "_*"

func openCodeRules(tools []string) []string {
	rules := make([]string, len(tools))
	for i, tool := range tools {
		rules[i] = serverName + "_" + tool
	}
	return rules
}

// openCodeSchema names the form of OpenCode's configuration.
const openCodeSchema = "https://opencode.ai/config.json"

// setOpenCodeServer writes the server, and that its tools are asked for.
func setOpenCodeServer(text []byte, o *Options) (to []byte, made [][]string, err error) {
	d, err := newJSONText(text, true)
	if err != nil {
		return nil, nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		d.set(openCodeSchema, "$schema")
	}
	if made, err = openCodeServer.set(d, o); err != nil {
		return nil, nil, err
	}
	switch v, found, err := d.findValue("permission"); {
	case err != nil:
		return nil, nil, err
	case found && d.kindOf(v) == '"': // one word for everything, which is the user's
		return d.text, made, nil
	}
	if _, found, err := d.findValue("permission", openCodeAll); err != nil || found {
		return d.text, made, err
	}
	more, err := d.set("ask", "permission", openCodeAll)
	return d.text, append(made, more...), err
}

// allowOpenCodeTools adds rules for tools. One that is there already stays: it is the user's choice.
func allowOpenCodeTools(text []byte, tools []string) (to []byte, made [][]string, err error) {
	d, err := newJSONText(text, true)
	if err != nil {
		return nil, nil, err
	}
	switch v, found, err := d.findValue("permission"); {
	case err != nil:
		return nil, nil, err
	case found && d.kindOf(v) == '"':
		word, _ := d.readString(v)
		if word == "allow" {
			return text, nil, nil
		}
		return nil, nil, skippedError{errors.New(`permission is one word for everything, so OpenCode asks for these too: write it as {"*": "` + word + `"} and run setup again to change that`)}
	}
	for _, rule := range openCodeRules(tools) {
		if _, found, err := d.findValue("permission", rule); err != nil {
			return nil, nil, err
		} else if found {
			continue
		}
		more, err := d.set("allow", "permission", rule)
		if err != nil {
			return nil, nil, err
		}
		made = append(made, more...)
	}
	return keepIfEqual(text, d.text), made, nil
}
