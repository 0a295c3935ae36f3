package shellpath

import (
	"os/exec"
	"testing"
)

func TestExpandTilde(t *testing.T) {
	t.Setenv("HOME", "/home/desk")
	for in, want := range map[string]string{
		"~": "/home/desk", "~/": "/home/desk", "~/.acp-x": "/home/desk/.acp-x", "~/a/../b": "/home/desk/b",
		"": "", ".": ".", "a/~/b": "a/~/b", "./~/x": "./~/x", "/srv/~": "/srv/~",
	} {
		if got, err := ExpandTilde(in); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
		var f Flag
		if err := f.Set(in); f.String() != want || err != nil {
			t.Errorf("a flag with %q: got %q, %v, want %q", in, f, err, want)
		}
	}
	if got, err := ExpandTilde("~no-such-user/x"); err == nil || err.Error() != `~no-such-user/x: there is no user "no-such-user": name a path without ~` {
		t.Errorf("of a user that is not there: %q, %v", got, err)
	}
	t.Setenv("HOME", "")
	if got, err := ExpandTilde("~/x"); err == nil || err.Error() != "~/x: $HOME is not set: name a path without ~" {
		t.Errorf("without a home directory: %q, %v", got, err)
	}
}

// A shell takes what Quote returns as the path that was meant.
func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/srv/acp": "/srv/acp", "~/x": "./~/x", "/srv/two words": "/srv/two words", "it's": "it's", `$HOME/"`: `$HOME/"`, "~root": "./~root",
	} {
		if got, err := exec.Command("sh", "-c", "printf %s "+Quote(in)).Output(); string(got) != want || err != nil {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}
