package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckLogin(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("CODEX_API_KEY", "")
	t.Setenv("ANTHROPIC_API_KEY", "k")
	t.Setenv("SOMETHING_ELSE", "k")
	for _, test := range []struct{ program, script, key, want string }{
		{"claude", `[ "$*" = "auth status" ] && echo '{"loggedIn": false, "authMethod": "none"}'; exit 1`, "", "claude is not logged in, so every run would fail: claude auth login, or set ANTHROPIC_API_KEY"},
		{"claude", `[ "$ANTHROPIC_API_KEY$SOMETHING_ELSE" = k ] && echo '{"loggedIn": true}' || echo '{"loggedIn": false}'`, "", ""},
		{"claude", `echo "error: unknown command auth"; exit 1`, "", ""},
		{"codex", `[ "$*" = "login status" ] && echo "Not logged in" >&2; exit 1`, "", "codex is not logged in, so every run would fail: codex login, or set CODEX_API_KEY"},
		{"codex", `echo "Not logged in" >&2; exit 1`, "k", ""},
		{"codex", `echo "Logged in using ChatGPT"`, "", ""},
		{"other", `echo "Not logged in"`, "", ""},
	} {
		t.Setenv("CODEX_API_KEY", test.key)
		writeFile(t, filepath.Join(dir, test.program), "#!/bin/sh\n"+test.script+"\n", 0o700)
		p := &Profile{Name: test.program, Program: test.program, Pass: []string{"ANTHROPIC_API_KEY"}}
		program, err := p.FindProgram()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckLogin(t.Context(), program); (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s, %s: %v, want %q", test.program, test.script, err, test.want)
		}
	}
}
