package mail

import "testing"

// The folder of the mailboxes is that of the settings, of the environment, or ~/oacp.
func TestOACPHome(t *testing.T) {
	t.Setenv("HOME", "/home/user")
	t.Setenv("OACP_HOME", "")
	for in, want := range map[string]string{"": "/home/user/oacp", "~/mail": "/home/user/mail", "/srv/oacp": "/srv/oacp"} {
		if got, err := ResolveHome(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	t.Setenv("OACP_HOME", "~/other")
	if got, err := ResolveHome(""); err != nil || got != "/home/user/other" {
		t.Errorf("from the environment: %q, %v", got, err)
	}
}
