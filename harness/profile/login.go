package profile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// loginTime is how long an agent program may take to say whether somebody has logged in to it.
const loginTime = 20 * time.Second

// logins are how agent programs say so. None of the commands asks a model.
var logins = map[string]struct {
	args   []string
	absent string // what it prints if nobody has logged in
	key    string // a variable with a key that runs use, and that the command does not look at
	remedy string
}{
	"claude": {[]string{"auth", "status"}, `"loggedIn": false`, "", "claude auth login, or set ANTHROPIC_API_KEY"},
	"codex":  {[]string{"login", "status"}, "Not logged in", "CODEX_API_KEY", "codex login, or set CODEX_API_KEY"},
}

// CheckLogin returns an error if the agent program says that nobody has logged in to it, so that no run can
// succeed. It returns nil if the program cannot be asked, or says anything else.
func (p *Profile) CheckLogin(ctx context.Context, program *Program) error {
	login, known := logins[p.Name]
	if !known || login.key != "" && os.Getenv(login.key) != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.Path, login.args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	for _, name := range append([]string{"PATH", "HOME", "TMPDIR"}, p.Pass...) {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if p.env != nil {
		for name, value := range p.env(&values{}) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if said, _ := cmd.CombinedOutput(); !bytes.Contains(said, []byte(login.absent)) {
		return nil
	}
	return fmt.Errorf("%s is not logged in, so every run would fail: %s, then start serve again", p.Program, login.remedy)
}
