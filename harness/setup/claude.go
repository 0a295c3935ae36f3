package setup

import (
	"path/filepath"
	"slices"
)

// claude is Claude Code. Its servers are in .claude.json in the user's home directory, or in
// .mcp.json of a project, and its rules in settings files.
var claude = &program{name: "claude", title: "Claude Code", server: claudeServer, executables: []string{".local/bin/claude", ".claude/local/claude"}}

func init() {
	claude.listSteps, claude.listParts = listClaudeSteps, listClaudeParts
}

// claudeServer is how Claude Code has the server.
var claudeServer = &serverForm{open: openJSON, list: "mcpServers", kind: "stdio", splits: true, environment: "env"}

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
	steps := newConfigSteps(claude, o, at.servers, func(d document) error { return claudeServer.set(d, o) }, at.settings, allowClaudeTools)
	server := &steps[0]
	server.edits = append(server.edits, edit{at.settings, claudeServer.open.edit(guardClaudeTools)})
	server.Note = "With the server comes the rule that Claude Code asks before " + joinWords(toolsToGuard) + " send, also where the settings of a folder allow them."
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
		change: claudeServer.open.edit(func(d document) error {
			_, err := claudeServer.removeOurs(d, o)
			return err
		}),
	}, {
		place: at.settings, isEmpty: isEmptyJSON,
		change: claudeServer.open.edit(func(d document) error {
			settings := d.(*jsonText)
			if err := settings.removeStrings(claudeRules(toolsToGuard), "permissions", "ask"); err != nil {
				return err
			}
			return settings.removeStrings(claudeRules(allTools), "permissions", "allow")
		}),
	}}
	for _, p := range at.instructions {
		parts = append(parts, newSnippetPart(p, false))
	}
	if o.Project != "" {
		parts = append(parts, newSnippetPart(at.agentsFile, true))
	}
	return append(parts, newSkillPart(at.skill)), nil
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
func readClaudeAllowed(d document) (rules []string, all bool, err error) {
	value, _, err := d.get("permissions", "allow")
	rules = listStrings(value)
	return rules, slices.Contains(rules, "mcp__"+serverName) || slices.Contains(rules, "mcp__"+serverName+"__*"), err
}

// guardClaudeTools adds rules by which Claude Code asks before tools that send, unless its user has
// allowed these tools. Without the rules a repository could allow the tools by a file of settings that
// it brings: claude -p obeys such a file unasked.
func guardClaudeTools(d document) error {
	allowed, all, err := readClaudeAllowed(d)
	if err != nil || all {
		return err
	}
	rules := slices.DeleteFunc(claudeRules(toolsToGuard), func(rule string) bool { return slices.Contains(allowed, rule) })
	if len(rules) == 0 {
		return nil
	}
	return d.(*jsonText).addStrings(rules, "permissions", "ask")
}

// allowClaudeTools adds rules for tools, unless one rule allows the whole server, and takes away
// those by which it asks.
func allowClaudeTools(d document, tools []string) error {
	if _, all, err := readClaudeAllowed(d); err != nil || all {
		return err
	}
	settings := d.(*jsonText)
	if err := settings.removeStrings(claudeRules(tools), "permissions", "ask"); err != nil {
		return err
	}
	return settings.addStrings(claudeRules(tools), "permissions", "allow")
}

// isEmptyJSON reports whether a text is an object without members, or only with $schema.
func isEmptyJSON(text []byte) bool {
	d, _, err := openText(text, openRelaxedJSON)
	if err != nil {
		return false
	}
	entries := listEntries(&d.(*jsonText).root)
	return len(entries) == 0 || len(entries) == 1 && entries[0].name == "$schema"
}
