package setup

import (
	"bytes"
)

// codex is Codex. Its servers and the rules for their tools are in config.toml.
var codex = &program{name: "codex", title: "Codex", server: codexServer}

func init() { codex.listSteps, codex.listParts = listCodexSteps, listCodexParts }

// codexServer is how Codex has the server.
var codexServer = &serverForm{open: openTOML, list: "mcp_servers", splits: true, environment: "env"}

// codexPlaces are the files of Codex that setup concerns.
type codexPlaces struct {
	config       place
	instructions []place // Codex reads only the first that exists
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

func listCodexSteps(o *Options) ([]Step, error) {
	at, err := findCodexPlaces(o)
	if err != nil {
		return nil, err
	}
	steps := newConfigSteps(codex, o, at.config, func(d document) error { return codexServer.set(d, o) }, at.config, allowCodexTools)
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
		change: codexServer.open.edit(func(d document) error {
			_, err := codexServer.removeOurs(d, o)
			return err
		}),
	}}
	for _, p := range at.instructions {
		parts = append(parts, newSnippetPart(p, o.Project != ""))
	}
	return append(parts, newSkillPart(o.agentsSkill())), nil
}

// allowCodexTools gives tools a table that says that they need no approval. One that is there
// already stays: it is the user's choice.
func allowCodexTools(d document, tools []string) error {
	mode, _, err := d.get(codexServer.list, serverName, "default_tools_approval_mode")
	if err != nil || mode == "approve" {
		return err
	}
	for _, tool := range tools {
		path := []string{codexServer.list, serverName, "tools", tool}
		_, found, err := d.get(path...)
		if err == nil && !found {
			err = d.set("approve", append(path, "approval_mode")...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
