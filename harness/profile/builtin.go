package profile

import (
	"fmt"
	"slices"
	"strconv"
)

// passedToAll are variables by which programs find the way to their model.
var passedToAll = []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE"}

// newClaude returns Claude Code without a person: claude -p. Tried with 2.1.332.
func newClaude() *Profile {
	p := &Profile{
		Name: "claude", Program: "claude", read: readClaude, Limits: newLimits(1, 400_000),
		Pass:        append([]string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "NODE_EXTRA_CA_CERTS"}, passedToAll...),
		Credentials: []Credential{{File: "~/.claude/.credentials.json", As: ".claude/.credentials.json"}},
	}
	p.env = func(*values) map[string]string {
		return map[string]string{
			"CLAUDE_CODE_MAX_RETRIES":                  "1", // a dead model is an error in seconds
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			"CLAUDE_CODE_DISABLE_CLAUDE_MDS":           "1",
			"CLAUDE_CODE_DISABLE_AUTO_MEMORY":          "1",
			"DISABLE_AUTOUPDATER":                      "1",
			"DISABLE_TELEMETRY":                        "1",
		}
	}
	p.files = func(v *values) map[string]string {
		return map[string]string{"mcp.json": fmt.Sprintf(`{"mcpServers": {"acp": {"type": "stdio", "command": %q, "args": ["mcp"]}}}`, v.acpctl)}
	}
	p.args = func(v *values) []string {
		args := []string{
			"-p", "--output-format=stream-json", "--verbose", // stream-json wants it
			// Settings, hooks, skills, plugins and memory of the user and of the folder are off, and so
			// are their MCP servers.
			"--restricted", "--setting-sources=", "--strict-mcp-config", "--disable-slash-commands",
			"--permission-mode=dontAsk", "--permission-prompts=none",
			"--max-turns=30", "--max-budget-usd=" + strconv.FormatFloat(p.Limits.Cost, 'f', -1, 64),
		}
		switch v.tools {
		case ToolsNone:
			args = append(args, "--tools=")
		case ToolsRead:
			args = append(args, "--tools=Read,Grep,Glob", "--allowedTools=Read,Grep,Glob", "--disallowedTools=Read(/"+v.home+"/**)")
		case ToolsWork:
			args = append(args, "--tools=Read,Grep,Glob,Edit,Write,Bash", "--allowedTools=Read,Grep,Glob,Edit,Write,Bash", "--disallowedTools=Read(/"+v.home+"/**)")
		}
		if v.files != "" {
			args = append(args, "--add-dir="+v.files)
		}
		if v.model != "" {
			args = append(args, "--model="+v.model)
		}
		if p.ACP {
			args = append(args, "--mcp-config="+v.home+"/mcp.json", "--allowedTools=mcp__acp")
		}
		if v.session != "" {
			args = append(args, "--resume="+v.session)
		}
		return append(args, p.More...)
	}
	return p
}

func readClaude(r *reading, event any) {
	switch firstText(event, "type") {
	case "system":
		if firstText(event, "subtype") == "init" {
			r.setSession(event, "session_id")
		}
	case "assistant":
		r.say(event, "message.content.*.text")
	case "result":
		r.done = true
		r.setSession(event, "session_id")
		r.setText(event, "result")
		r.failed = r.failed || firstText(event, "is_error") == "true" // never subtype: it is "success" for an error of the model
		r.setReason(event, "errors.*")
		r.setCost(event, "total_cost_usd")
		r.setTokens(event, "usage.input_tokens", "usage.cache_creation_input_tokens", "usage.cache_read_input_tokens", "usage.output_tokens")
		r.addDenials(event, "permission_denials.*.tool_name")
	}
}

// newCodex returns Codex without a person: codex exec. Tried with 0.171.0. It needs CODEX_API_KEY, or a
// login. It names no cost.
func newCodex() *Profile {
	p := &Profile{
		Name: "codex", Program: "codex", read: readCodex, cumulative: true, Limits: newLimits(0, 400_000),
		Pass:        append([]string{"CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_CA_CERTIFICATE"}, passedToAll...),
		Credentials: []Credential{{File: "~/.codex/auth.json", As: ".codex/auth.json"}},
	}
	p.args = func(v *values) []string {
		args := []string{
			"exec", "--json", "--color=never", "--skip-git-repo-check",
			// The home is the run's own, so there is no configuration of the user's. That of the folder,
			// hooks, skills, plugins, memory and further agents are off.
			"--ignore-user-config", "--ignore-rules",
			"--config=project_doc_max_bytes=0", "--config=projects={}", "--config=skills.include_instructions=false",
			"--config=analytics.enabled=false", // else it waits for 5 s at the end where the network is closed
			"--config=check_for_update_on_startup=false", `--config=web_search="disabled"`,
			"--disable=hooks", "--disable=plugins", "--disable=apps", "--disable=memories", "--disable=multi_agent", "--disable=multi_agent_v2",
			"--disable=goals", "--disable=image_generation", "--disable=browser_use", "--disable=computer_use", "--disable=in_app_browser",
			"--disable=shell_snapshot", "--disable=unbounded_connection_retries", // a dead model is an error in seconds
		}
		switch {
		case v.tools != ToolsNone:
			// The confinement of the run holds what Codex's own sandbox would: it cannot make one in another.
			args = append(args, "--sandbox=danger-full-access")
		default:
			// Without tools the model has no shell, and the rest of code mode fails closed.
			args = append(args, "--disable=shell_tool", "--disable=unified_exec", "--disable=view_image", "--sandbox=read-only")
			if !p.ACP {
				args = append(args, "--disable=code_mode", "--disable=code_mode_host")
			}
		}
		if v.model != "" {
			args = append(args, "--model="+v.model)
		}
		if p.ACP {
			args = append(args, fmt.Sprintf(`--config=mcp_servers.acp={command=%q,args=["mcp"],env_vars=["ACP_SOCKET","ACP_AGENT","ACP_AGENT_KEY","ACP_ID"],default_tools_approval_mode="approve"}`, v.acpctl))
		}
		args = append(args, p.More...)
		if v.session != "" {
			args = append(args, "resume", v.session)
		}
		return append(args, "-") // the prompt comes by standard input
	}
	return p
}

func readCodex(r *reading, event any) {
	switch firstText(event, "type") {
	case "thread.started":
		r.setSession(event, "thread_id")
	case "item.completed":
		switch firstText(event, "item.type") {
		case "agent_message":
			r.setText(event, "item.text")
			r.say(event, "item.text")
		case "mcp_tool_call":
			if hasPrefix(event, "item.error.message", "MCP tool call requires approval") && firstText(event, "item.status") == "failed" {
				r.addDenials(event, "item.tool")
			}
		}
	case "turn.completed":
		r.done = true
		r.setTokens(event, "usage.input_tokens", "usage.output_tokens")
	case "error":
		r.setReason(event, "message")
	case "turn.failed":
		r.failed = true
		r.setReason(event, "error.message")
	}
}

// newOpenCode returns OpenCode without a person: opencode run. Tried with 1.18.33. The owner has to name the
// model, as PROVIDER/MODEL.
func newOpenCode() *Profile {
	p := &Profile{
		Name: "opencode", Program: "opencode", read: readOpenCode, Limits: newLimits(1, 400_000),
		Pass:        append([]string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "NODE_EXTRA_CA_CERTS"}, passedToAll...),
		Credentials: []Credential{{File: "~/.local/share/opencode/auth.json", As: ".local/share/opencode/auth.json"}},
		forbid:      []string{".opencode", "opencode.json", "opencode.jsonc"}, // it starts the plugins and servers that these name, and no option prevents that
	}
	const config = "tools.json"
	p.env = func(v *values) map[string]string {
		return map[string]string{
			"OPENCODE_CONFIG": v.home + "/" + config,
			// The home is the run's own, so there is no configuration of the user's. That of the folder,
			// skills and instructions made for other programs are off.
			"OPENCODE_DISABLE_PROJECT_CONFIG":  "1",
			"OPENCODE_DISABLE_CLAUDE_CODE":     "1",
			"OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
			"OPENCODE_DISABLE_AUTOUPDATE":      "1",
			"OPENCODE_DISABLE_MODELS_FETCH":    "1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD":    "1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		}
	}
	p.files = func(v *values) map[string]string {
		rules := `"*": "deny", "acp_*": "allow"`
		if v.tools != ToolsNone {
			rules += `, "read": "allow", "grep": "allow", "glob": "allow", "list": "allow"`
		}
		if v.tools == ToolsWork {
			rules += `, "edit": "allow", "bash": "allow"`
		}
		if v.files != "" {
			rules += fmt.Sprintf(`, "external_directory": {"*": "deny", %q: "allow"}`, v.files+"/*")
		}
		return map[string]string{config: fmt.Sprintf(`{"share": "disabled", "autoupdate": false, "snapshot": false, "lsp": false, "formatter": false,
 "mcp": {"acp": {"type": "local", "command": [%q, "mcp"], "enabled": %t}},
 "permission": {%s}}
`, v.acpctl, p.ACP, rules)}
	}
	p.args = func(v *values) []string {
		args := []string{"run", "--format=json", "--pure"} // no plugins
		if v.model != "" {
			args = append(args, "--model="+v.model)
		}
		if v.session != "" {
			args = append(args, "--session="+v.session)
		}
		return slices.Concat(args, p.More)
	}
	return p
}

func readOpenCode(r *reading, event any) {
	switch firstText(event, "type") {
	case "step_start":
		r.setSession(event, "sessionID")
	case "text":
		r.setText(event, "part.text")
		r.say(event, "part.text")
	case "step_finish": // cost and tokens are those of the step
		cost, tokens := r.cost, r.tokens
		if r.setCost(event, "part.cost") {
			r.cost += cost
		}
		if r.setTokens(event, "part.tokens.total") {
			r.tokens = min(r.tokens+tokens, mostTokens)
		}
		r.done = r.done || firstText(event, "part.reason") == "stop"
	case "tool_use":
		if hasPrefix(event, "part.state.error", "The user has specified a rule which prevents") && firstText(event, "part.state.status") == "error" {
			r.addDenials(event, "part.tool")
		}
	case "error":
		r.failed = true
		r.setReason(event, "error.data.message")
	}
}
