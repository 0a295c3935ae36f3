package harness

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	// noSession is the id of a session that no OpenCode has.
	noSession = "ses_000000000000000000000000000"
	// opencodeNotFound is the name of OpenCode's error for it.
	opencodeNotFound = "NotFoundError"
)

// probe returns an error that names what this OpenCode lacks, so that it cannot be woken, and nil if it
// lacks nothing. It prompts a session that is not there. A path that OpenCode does not know is answered
// with a page of its web interface and the status 200, so only the JSON of the answer tells.
func (o *opencode) probe(ctx context.Context) error {
	err := o.prompt(ctx, noSession, "Is there a session of this id?")
	if refused, ok := errors.AsType[opencodeError](err); ok && refused.name == opencodeNotFound {
		return nil
	}
	return ownwords.New("it has no prompt_async that answers for a session that is not there")
}

// askedTools are the tools about which somebody has to be asked: they run commands, change files, and
// carry text out.
var askedTools = []string{"bash", "edit", "webfetch"}

// opencodeRule is a rule about a tool. OpenCode applies the last of the rules that match a call.
type opencodeRule struct {
	Tool    string `json:"permission"` // with * and ?
	Pattern string `json:"pattern"`    // of what the tool is called with; * matches everything
	Action  string `json:"action"`     // allow, ask or deny
}

// explainUnattended returns why nobody is asked before tools of a session run, or an empty text if
// somebody is. It looks at every agent of OpenCode: the user may switch to another, and the model may
// start one.
func (o *opencode) explainUnattended(ctx context.Context, session string) (saw string) {
	parent, err := o.processes.read(o.parent)
	if err != nil || len(parent.args) == 0 {
		return "its command line cannot be read"
	}
	for _, arg := range parent.args[1:] {
		name, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(arg, "-", "")), "=")
		if name != arg && (name == "auto" || name == "yolo" || name == "dangerouslyskippermissions") {
			return "it was started with " + "--" + name
		}
	}
	var agents []struct {
		Rules []opencodeRule `json:"permission"`
	}
	var own struct {
		Rules []opencodeRule `json:"permission"`
	}
	err = o.get(ctx, "/agent", url.Values{"directory": {o.dir}}, &agents)
	if err == nil {
		err = o.get(ctx, "/session/"+url.PathEscape(session), nil, &own)
	}
	if err != nil || len(agents) == 0 {
		return "it does not say about which tools somebody is asked"
	}
	for _, agent := range agents {
		for _, tool := range askedTools {
			if !isAsked(agent.Rules, tool) || !isAsked(append(agent.Rules, own.Rules...), tool) {
				return "an agent of it may use " + tool + ` without asking: set "permission": {"bash": "ask", "edit": "ask", "webfetch": "ask"} in opencode.json`
			}
		}
	}
	return ""
}

// isAsked reports whether somebody is asked before each call of a tool, or the tool refuses it. A rule
// that allows some of the calls allows calls that nobody is asked about.
func isAsked(rules []opencodeRule, tool string) (asked bool) {
	for _, r := range rules {
		isKnown := r.Tool != "" && !strings.ContainsAny(r.Tool, `[\ `) // OpenCode reads these differently from path.Match
		matched, _ := path.Match(r.Tool, tool)
		switch closes := r.Action == "ask" || r.Action == "deny"; {
		case isKnown && !matched:
		case !closes:
			asked = false
		case isKnown && r.Pattern == "*":
			asked = true
		}
	}
	return asked
}

// prompt gives a session a line as its user.
func (o *opencode) prompt(ctx context.Context, session, line string) error {
	body := map[string]any{"parts": []any{map[string]any{"type": "text", "text": line}}}
	return o.do(ctx, http.MethodPost, "/session/"+url.PathEscape(session)+"/prompt_async", nil, body, nil)
}
