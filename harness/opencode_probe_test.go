package harness

import (
	"errors"
	"strings"
	"testing"
)

// A server that does not know the path of prompts answers with a page of its web interface.
func TestOpenCodeProbe(t *testing.T) {
	f := newFakeOpenCode(t)
	for _, answer := range []string{``, `<!doctype html>`, `null`, `[]`, `"NotFoundError"`, `{}`, `{"name":5}`, `{"name":["NotFoundError"]}`, `{"name":"BadRequest"}`} {
		f.change(func() { f.unknown = answer })
		_, err := f.find("s3cret")
		if want := "opencode 1.18.33 cannot be woken: it has no prompt_async"; !errors.Is(err, ErrUnsupported) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", answer, err, want)
		}
	}
	if f.change(func() { f.unknown = `{"name":"NotFoundError"}` }); len(f.posts) != 0 {
		t.Errorf("the probe posts %q", f.posts)
	}
	if _, err := f.find("s3cret"); err != nil {
		t.Error(err)
	}
}

func TestOpenCodeAttended(t *testing.T) {
	const wide, asks = `{"permission":"*","pattern":"*","action":"allow"}`,
		`{"permission":"bash","pattern":"*","action":"ask"},{"permission":"edit","pattern":"*","action":"ask"},{"permission":"webfetch","pattern":"*","action":"deny"}`
	agent := func(rules ...string) string { return `{"name":"a","permission":[` + strings.Join(rules, ",") + `]}` }
	rule := func(tool, pattern, action string) string {
		return `{"permission":` + tool + `,"pattern":` + pattern + `,"action":` + action + `}`
	}
	for name, test := range map[string]struct {
		agents, own string
		args        []string
		saw         string // why it is unattended; empty: it is attended
	}{
		"by default":                      {agents: agent(wide), saw: "may use bash without asking"},
		"asks":                            {agents: agent(wide, asks)},
		"asks about everything":           {agents: agent(wide, rule(`"*"`, `"*"`, `"ask"`))},
		"another tool":                    {agents: agent(wide, asks, rule(`"read"`, `"*"`, `"allow"`))},
		"allowed later":                   {agents: agent(wide, asks, wide), saw: "bash"},
		"allowed before":                  {agents: agent(rule(`"bash"`, `"git *"`, `"allow"`), asks)},
		"some commands are allowed":       {agents: agent(wide, asks, rule(`"bash"`, `"git *"`, `"allow"`)), saw: "bash"},
		"some commands are asked about":   {agents: agent(wide, rule(`"*"`, `"rm *"`, `"ask"`)), saw: "bash"},
		"edit is allowed":                 {agents: agent(wide, asks, rule(`"ed?t"`, `"*"`, `"allow"`)), saw: "edit"},
		"webfetch is allowed":             {agents: agent(wide, asks, rule(`"web*"`, `"*"`, `"allow"`)), saw: "webfetch"},
		"a second agent":                  {agents: agent(wide, asks) + "," + agent(wide), saw: "bash"},
		"no agents":                       {saw: "does not say"},
		"no rules":                        {agents: `{"name":"a"}`, saw: "bash"},
		"rules are null":                  {agents: `{"name":"a","permission":null}`, saw: "bash"},
		"rules are an object":             {agents: `{"permission":{"bash":"ask","edit":"ask","webfetch":"ask"}}`, saw: "does not say"},
		"agents are no objects":           {agents: `"a"`, saw: "does not say"},
		"action is another word":          {agents: agent(asks, rule(`"bash"`, `"*"`, `"audit"`)), saw: "bash"},
		"action is no text":               {agents: agent(asks, rule(`"bash"`, `"*"`, `true`)), saw: "does not say"},
		"no action":                       {agents: agent(asks, `{"permission":"bash","pattern":"*"}`), saw: "bash"},
		"no tool":                         {agents: agent(asks, `{"pattern":"*","action":"allow"}`), saw: "bash"},
		"a tool of a form that is unread": {agents: agent(asks, rule(`"[bash"`, `"*"`, `"allow"`)), saw: "bash"},
		"a list of characters is none":    {agents: agent(wide, strings.Replace(asks, "bash", "[b]ash", 1)), saw: "bash"},
		"a backslash":                     {agents: agent(wide, strings.Replace(asks, "bash", `\\bash`, 1)), saw: "bash"},
		"a space and a star":              {agents: agent(wide, asks, rule(`"bash *"`, `"*"`, `"allow"`)), saw: "bash"},
		"no pattern":                      {agents: agent(rule(`"bash"`, `null`, `"ask"`), asks[strings.Index(asks, ",{")+1:]), saw: "bash"},
		"the session allows it":           {agents: agent(asks), own: rule(`"bash"`, `"*"`, `"allow"`), saw: "bash"},
		"only the session asks":           {agents: agent(wide), own: asks, saw: "bash"},
		"--auto":                          {agents: agent(asks), args: []string{"opencode", "--port", "1", "--auto"}, saw: "started with --auto"},
		"--auto=1":                        {agents: agent(asks), args: []string{"opencode", "--auto=1"}, saw: "started with --auto"},
		"--yolo":                          {agents: agent(asks), args: []string{"opencode", "run", "--yolo"}, saw: "started with --yolo"},
		"--dangerouslySkipPermissions":    {agents: agent(asks), args: []string{"opencode", "--dangerouslySkipPermissions"}, saw: "started with --dangerouslyskippermissions"},
		"other arguments":                 {agents: agent(asks), args: []string{"opencode", "auto", "--port", "4096", "--no-auto"}},
		"its command line is not known":   {agents: agent(asks), args: []string{}, saw: "command line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeOpenCode(t)
			f.agents, f.rules = "["+test.agents+"]", "["+test.own+"]"
			s := f.mustFind()
			if test.args != nil {
				s.processes.read = newFamily(test.args...).read
			}
			_, err := s.Post(t.Context(), newPost())
			if test.saw == "" && (err != nil || len(f.posts) != 1) {
				t.Errorf("Post: %v, %d posts", err, len(f.posts))
			}
			if test.saw != "" && (!errors.Is(err, ErrUnattended) || !strings.Contains(err.Error(), test.saw) || len(f.posts) != 0) {
				t.Errorf("Post: %v, %d posts, want %q", err, len(f.posts), test.saw)
			}
		})
	}
}
