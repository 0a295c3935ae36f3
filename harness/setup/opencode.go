package setup

import (
	"bytes"
	"errors"
	"fmt"
)

// openCode is OpenCode. Its servers and rules are in opencode.json or opencode.jsonc, which may
// have comments.
var openCode = &program{name: "opencode", title: "OpenCode", server: openCodeServer, executables: []string{".opencode/bin/opencode", ".local/bin/opencode"}}

func init() { openCode.listSteps, openCode.listParts = listOpenCodeSteps, listOpenCodeParts }

// openCodeServer is how OpenCode has the server.
var openCodeServer = &serverForm{open: openRelaxedJSON, list: "mcp", kind: "local", environment: "environment"}

// openCodePlaces are the files of OpenCode that setup concerns.
type openCodePlaces struct {
	configs      []place // which it merges, the last word first
	made         place   // is made if no other exists
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
	steps := newConfigSteps(openCode, o, config, func(d document) error { return setOpenCodeServer(d, o) }, config, allowOpenCodeTools)
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
	d, _, err := openText(f.text, openRelaxedJSON)
	if err != nil {
		return ""
	}
	value, _, _ := d.get("permission")
	word, _ := value.(string)
	return word
}

func listOpenCodeParts(o *Options) ([]part, error) {
	at, err := findOpenCodePlaces(o)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, p := range at.configs {
		change := openCodeServer.open.edit(func(d document) error { return removeFromOpenCode(d, o) })
		parts = append(parts, part{place: p, isEmpty: isEmptyJSON, change: change, hasServer: true})
	}
	parts = append(parts, newSnippetPart(at.instructions, o.Project != ""))
	if o.Project != "" {
		parts = append(parts, newSnippetPart(at.claudeFile, true))
	}
	return append(parts, newSkillPart(o.agentsSkill())), nil
}

func removeFromOpenCode(d document, o *Options) error {
	if ok, err := openCodeServer.removeOurs(d, o); err != nil || !ok {
		return err
	}
	value, _, err := d.get("permission")
	if _, isObject := value.(map[string]any); err != nil || !isObject {
		return err
	}
	for _, rule := range append([]string{openCodeAll}, openCodeRules(allTools)...) {
		if err := d.remove("permission", rule); err != nil {
			return err
		}
	}
	return nil
}

// openCodeAll is the rule for all tools of the server. OpenCode uses the last rule that matches.
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
func setOpenCodeServer(d document, o *Options) error {
	if string(d.bytes()) == emptyJSON {
		if err := d.set(openCodeSchema, "$schema"); err != nil {
			return err
		}
	}
	if err := openCodeServer.set(d, o); err != nil {
		return err
	}
	value, _, err := d.get("permission")
	if _, isWord := value.(string); err != nil || isWord { // one word for everything is the user's
		return err
	}
	if _, found, err := d.get("permission", openCodeAll); err != nil || found {
		return err
	}
	return d.set("ask", "permission", openCodeAll)
}

// allowOpenCodeTools adds rules for tools. One that is there already stays: it is the user's choice.
func allowOpenCodeTools(d document, tools []string) error {
	value, _, err := d.get("permission")
	if err != nil {
		return err
	}
	switch word, isWord := value.(string); {
	case word == "allow":
		return nil
	case isWord:
		return skippedError{errors.New(`permission is one word for everything, so OpenCode asks for these too: write it as {"*": "` + word + `"} and run setup again to change that`)}
	}
	for _, rule := range openCodeRules(tools) {
		_, found, err := d.get("permission", rule)
		if err == nil && !found {
			err = d.set("allow", "permission", rule)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
