package setup

import (
	"bytes"
	"path/filepath"
	"slices"
)

// claude is Claude Code. Its servers are in .claude.json in the user's home directory, or in
// .mcp.json of a project, and its rules in settings files.
var claude = &program{name: "claude", title: "Claude Code", executables: []string{".local/bin/claude", ".claude/local/claude"}}

func init() {
	claude.listSteps, claude.listParts, claude.readEntry = listClaudeSteps, listClaudeParts, claudeServer.parse
}

// claudeServer is where Claude Code has the server.
var claudeServer = &jsonServer{list: "mcpServers", kind: "stdio", splits: true, environment: "env"}

// claudePlaces are the files of Claude Code that setup concerns.
type claudePlaces struct {
	servers, settings place
	skill             place
	instructions      []place // that it reads together, the one to write first
	agentsFile        place   // which it reads if it has no instructions of its own; only in a project
}

func findClaudePlaces(o *Options) (claudePlaces, error) {
	if o.Project != "" {
		in := func(path ...string) place { return projectPlace(o.Project, path...) }
		return claudePlaces{
			servers: in(".mcp.json"), settings: in(".claude", "settings.local.json"), skill: in(".claude", skillPath),
			instructions: []place{in("CLAUDE.md"), in(".claude", "CLAUDE.md"), in("CLAUDE.local.md")},
			agentsFile:   in("AGENTS.md"),
		}, nil
	}
	dir, err := o.folder("CLAUDE_CONFIG_DIR", ".claude")
	if err != nil {
		return claudePlaces{}, err
	}
	servers := ownPlace(o.Home, ".claude.json")
	if o.Getenv("CLAUDE_CONFIG_DIR") != "" {
		servers = ownPlace(dir, ".claude.json")
	}
	old := ownPlace(dir, ".config.json") // of early versions, and still taken first
	if f, err := readFile(old); err != nil || len(f.text) > 0 {
		servers = old
	}
	servers.lock = servers.path + ".lock"
	instructions := ownPlace(dir, "CLAUDE.md")
	instructions.mode = 0o644
	return claudePlaces{servers: servers, settings: ownPlace(dir, "settings.json"), skill: ownPlace(dir, skillPath), instructions: []place{instructions}}, nil
}

func listClaudeSteps(o *Options) ([]Step, error) {
	at, err := findClaudePlaces(o)
	if err != nil {
		return nil, err
	}
	steps := newConfigSteps(claude, o, at.servers, setClaudeServer, at.settings, allowClaudeTools)
	server := &steps[0]
	server.edits = append(server.edits, edit{at.settings, guardClaudeTools})
	server.Note = "With the server comes the rule that Claude Code asks before " + joinWords(toolsToSend) + " send, also where the settings of a folder allow them."
	if o.Project != "" {
		server.Note += " Others who work on the project get " + filepath.Base(at.servers.path) + " too if it is committed. Claude Code asks once whether it may start the server."
	}
	instructions := at.instructions[0]
	if found, ok := firstExisting(at.instructions...); ok {
		instructions = found
	} else if o.Project != "" && exists(at.agentsFile) { // a new CLAUDE.md would hide it
		instructions = at.agentsFile
	}
	return append(steps, o.withSkill(newInstructionsStep(claude, instructions), claude, at.skill)), nil
}

func listClaudeParts(o *Options) ([]part, error) {
	at, err := findClaudePlaces(o)
	if err != nil {
		return nil, err
	}
	parts := []part{{
		place: at.servers, isEmpty: isEmptyJSON, hasServer: true,
		change: func(text []byte, made [][]string) ([]byte, error) {
			return editJSON(text, false, made, func(d *jsonText) error {
				if e, err := claudeServer.read(d); err != nil || !e.isOurs(o) {
					return err
				}
				return d.remove("mcpServers", serverName)
			})
		},
	}, {
		place: at.settings, isEmpty: isEmptyJSON,
		change: func(text []byte, made [][]string) ([]byte, error) {
			return editJSON(text, false, made, func(d *jsonText) error {
				if err := d.removeStrings(claudeRules(toolsToSend), "permissions", "ask"); err != nil {
					return err
				}
				return d.removeStrings(claudeRules(slices.Concat(toolsToRead, toolsToSend)), "permissions", "allow")
			})
		},
	}}
	for _, p := range at.instructions {
		parts = append(parts, newSnippetPart(p, false))
	}
	if o.Project != "" {
		parts = append(parts, newSnippetPart(at.agentsFile, true))
	}
	return append(parts, newSkillPart(at.skill)), nil
}

// setClaudeServer writes the server.
func setClaudeServer(text []byte, o *Options) (to []byte, made [][]string, err error) {
	d, err := newJSONText(text, claudeServer.relaxed)
	if err == nil {
		made, err = claudeServer.set(d, o)
	}
	if err != nil {
		return nil, nil, err
	}
	return keepIfEqual(text, d.text), made, nil
}

// claudeRules returns the rules of permissions.allow that name tools of the server.
func claudeRules(tools []string) []string {
	rules := make([]string, len(tools))
	for i, tool := range tools {
		rules[i] = "mcp__" + serverName + "__" + tool
	}
	return rules
}

// readClaudeAllowed returns the rules of permissions.allow, and whether one allows the whole server.
func readClaudeAllowed(d *jsonText) (rules []string, all bool, err error) {
	v, found, err := d.findValue("permissions", "allow")
	if err != nil || !found {
		return nil, false, err
	}
	rules, _ = d.readStrings(v)
	return rules, slices.Contains(rules, "mcp__"+serverName) || slices.Contains(rules, "mcp__"+serverName+"__*"), nil
}

// guardClaudeTools adds rules by which Claude Code asks before tools that send, unless its user has
// allowed these tools. Without the rules a repository could allow the tools by a file of settings that
// it brings: claude -p obeys such a file unasked.
func guardClaudeTools(text []byte) (to []byte, made [][]string, err error) {
	d, err := newJSONText(text, false)
	if err != nil {
		return nil, nil, err
	}
	allowed, all, err := readClaudeAllowed(d)
	if err != nil || all {
		return text, nil, err
	}
	rules := slices.DeleteFunc(claudeRules(toolsToSend), func(rule string) bool { return slices.Contains(allowed, rule) })
	if len(rules) == 0 {
		return text, nil, nil
	}
	made, err = d.appendStrings(rules, "permissions", "ask")
	return d.text, made, err
}

// allowClaudeTools adds rules for tools, unless one rule allows the whole server, and takes away
// those by which it asks.
func allowClaudeTools(text []byte, tools []string) (to []byte, made [][]string, err error) {
	d, err := newJSONText(text, false)
	if err != nil {
		return nil, nil, err
	}
	if _, all, err := readClaudeAllowed(d); err != nil || all {
		return text, nil, err
	}
	before := len(d.text)
	if err := d.removeStrings(claudeRules(tools), "permissions", "ask"); err != nil {
		return nil, nil, err
	}
	if len(d.text) < before {
		if err := d.removeEmpty([][]string{{"permissions", "ask"}}); err != nil {
			return nil, nil, err
		}
	}
	made, err = d.appendStrings(claudeRules(tools), "permissions", "allow")
	return keepIfEqual(text, d.text), made, err
}

// editJSON takes something out of a JSON text, and then those of the objects and arrays that
// setup made that are empty.
func editJSON(text []byte, relaxed bool, made [][]string, change func(*jsonText) error) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return text, nil
	}
	d, err := newJSONText(text, relaxed)
	if err == nil {
		err = change(d)
	}
	if err == nil {
		err = d.removeEmpty(made)
	}
	if err != nil {
		return nil, err
	}
	return d.text, nil
}

// isEmptyJSON reports whether a text is an object without members, or with $schema alone.
func isEmptyJSON(text []byte) bool {
	d, err := newJSONText(text, true)
	if err != nil {
		return false
	}
	c := d.readRoot()
	return len(c.entries) == 0 || len(c.entries) == 1 && c.entries[0].name == "$schema"
}

// keepIfEqual returns the old text if a new one says no more: an empty file that stands for
// an empty object stays empty.
func keepIfEqual(text, to []byte) []byte {
	if len(bytes.TrimSpace(text)) == 0 && string(to) == "{}\n" {
		return text
	}
	return to
}
