//go:build agents

package agents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// setupCase is how one agent program is set up, listed and asked.
type setupCase struct {
	config    string              // in the home, with what the user has there
	text      func(*model) string // of it
	list      []string            // shows the MCP servers
	listed    string              // what it shows of ours
	ask       []string            // runs a turn about "ask desk"
	refused   string              // what the model or the user hears of a tool that needs approval
	variables func(*person) []string
}

var setupCases = map[string]setupCase{
	"claude": {
		config: ".claude.json",
		text:   func(*model) string { return "{\n  \"numStartups\": 3\n}" },
		list:   []string{"mcp", "list"},
		listed: `acp: \S+/acpctl mcp --attach - . Connected`,
		ask:    []string{"-p", "ask desk"}, refused: "requested permissions",
		variables: (*person).claudeEnvironment,
	},
	"codex": {
		config: ".codex/config.toml",
		text: func(m *model) string {
			return "# mine\nmodel = \"stub\"\nmodel_provider = \"stub\"\n[analytics]\nenabled = false\n" +
				"[model_providers.stub]\nname = \"stub\"\nbase_url = \"" + m.server.URL + "/v1\"\nwire_api = \"responses\"\n"
		},
		list:   []string{"mcp", "list"},
		listed: `acp +\S+/acpctl +mcp --attach +ACP_SOCKET=\S+ .*enabled`,
		ask:    []string{"exec", "--skip-git-repo-check", "ask desk"}, refused: "requires approval",
		variables: func(p *person) []string { return p.environment() },
	},
	"opencode": {
		config: ".config/opencode/opencode.json",
		text: func(m *model) string {
			return `{
  // mine
  "$schema": "https://opencode.ai/config.json",
  "model": "anthropic/stub",
  "small_model": "anthropic/stub",
  "provider": {
    "anthropic": {
      "options": { "baseURL": "` + m.server.URL + `/v1", "apiKey": "dummy" },
      "models": { "stub": { "name": "stub", "tool_call": true, "limit": { "context": 100000, "output": 4000 } } },
    },
  },
}
`
		},
		list:   []string{"mcp", "list"},
		listed: `acp .*connected`,
		ask:    []string{"run", "ask desk"}, refused: "permission requested: acp_acp_query (*); auto-rejecting",
		variables: func(p *person) []string {
			return p.environment("OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1")
		},
	},
}

// emptyInbox is what acp_inbox says if nothing waits.
const emptyInbox = "Nothing waits."

// acpctl setup connects each program: it lists the server, its model may use what was allowed, and
// is refused what was not. Undone, the user's file is what it was.
func TestSetup(t *testing.T) {
	t.Parallel()
	for name, c := range setupCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := []step{
				call("acp_inbox", map[string]any{}),
				call("acp_file", map[string]any{"do": "send", "to": "desk", "path": "notes.txt"}),
			}
			if name == "claude" { // which shows its model this tool on demand
				file = slices.Insert(file, 1, call("ToolSearch", map[string]any{"query": "select:mcp__acp__acp_file"}))
			}
			p := newPerson(t, rule{"send file", file}, rule{"ask desk", []step{
				call("acp_inbox", map[string]any{}),
				call("acp_query", map[string]any{"to": "desk", "question": "Which branch is deployed?"}),
			}})
			before := c.text(p.model)
			config := p.write(c.config, before)
			m := live.NewMachine(t, "laptop")
			m.StartDaemon()
			env := func() []string {
				all := c.variables(p)
				all[0] += ":" + filepath.Dir(programs[name]) + ":" + filepath.Dir(live.ProgramPath(t, "acpctl"))
				return all
			}
			start := func(argv ...string) *live.Process {
				t.Helper()
				proc := live.PrepareProcess(t, env(), argv...)
				proc.Cmd.Dir = p.dir
				if err := proc.Start(); err != nil {
					t.Fatal(err)
				}
				return proc
			}
			run := func(argv ...string) string { return start(argv...).AwaitExit(0) }
			acpctl := []string{live.ProgramPath(t, "acpctl"), "--home", m.Home}
			setup := func(args ...string) string { return run(append(append(acpctl, "setup"), args...)...) }

			setup(name, "--yes")
			await.Until(t, "the program is listed as set up, with its version, for which it has 5 s", func() bool {
				return strings.Contains(setup(), name+"\t"+findVersion(t, name)+"\tyes\t"+config+"\n")
			})
			if again := setup(name, "--yes"); again != "nothing to change\n" {
				t.Errorf("set up again: %s", again)
			}
			listed := controls.ReplaceAllString(run(append([]string{programs[name]}, c.list...)...), "")
			if !regexp.MustCompile(c.listed).MatchString(listed) {
				t.Errorf("%s lists\n%s", name, listed)
			}
			for about, tool := range map[string]string{"ask desk": "acp_query", "send file": "acp_file"} {
				ask := append([]string{programs[name]}, c.ask...)
				ask[len(ask)-1] = about
				refused := strings.Replace(c.refused, "acp_query", tool, 1)
				// OpenCode ends the turn where a tool is refused, and so tells the user alone.
				asked := start(ask...)
				await.Until(t, name+" ends", func() bool { return !asked.IsRunning() })
				said := controls.ReplaceAllString(asked.AwaitExit(0)+asked.Stderr.String(), "")
				last := p.model.list()[len(p.model.list())-1]
				if n := max(last.count("result", refused), strings.Count(said, refused)); n != 1 {
					t.Errorf("%s: %d tools were refused:\n%s\n%s", about, n, said, p.model.describe())
				}
				if last.count("result", emptyInbox) != 1 {
					t.Errorf("%s: the model does not hear what acp_inbox says:\n%s\n%s", about, said, p.model.describe())
				}
			}

			setup(name, "--undo", "--yes")
			text, err := os.ReadFile(config)
			if name != "claude" && string(text) != before || err != nil { // Claude Code writes its own file anew
				t.Errorf("undone: %v\n%s", err, text)
			}
			if strings.Contains(string(text), "acpctl") {
				t.Errorf("undone, it still has\n%s", text)
			}
			if listed := run(append([]string{programs[name]}, c.list...)...); strings.Contains(listed, "acpctl") {
				t.Errorf("undone, %s lists\n%s", name, listed)
			}
		})
	}
}
