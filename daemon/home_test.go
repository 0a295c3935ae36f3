package daemon

import "testing"

// A tilde that a shell has left, as behind --home= and in a file of variables, is the home directory.
func TestResolveHome(t *testing.T) {
	t.Setenv("HOME", "/home/user")
	for _, c := range []struct{ dir, env, want string }{
		{"", "", "/home/user/.acp"}, {"", "~/.acp-x", "/home/user/.acp-x"}, {"~/.acp-x", "/srv/acp", "/home/user/.acp-x"}, {"/srv/~", "", "/srv/~"},
	} {
		t.Setenv("ACP_HOME", c.env)
		if got, err := ResolveHome(c.dir); err != nil || got != c.want {
			t.Errorf("--home %q with ACP_HOME=%q: %q, %v, want %q", c.dir, c.env, got, err, c.want)
		}
	}
	if got, err := ResolveHome("~no-such-user/acp"); err == nil {
		t.Errorf("of a user who is not there: %q", got)
	}
}
