package harness

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

func TestClaudeUnattended(t *testing.T) {
	skip := "--dangerously-skip-permissions"
	for name, test := range map[string]struct {
		mode string
		args []string
		want error
	}{
		"prompting":       {modePrompting, []string{"claude", "--permission-mode", "plan"}, nil},
		"bypass":          {"bypass", nil, ErrUnattended},
		"auto":            {"auto", nil, ErrUnattended},
		"unknown":         {"Prompting", nil, ErrUnattended},
		"flag":            {modePrompting, []string{"claude", skip}, ErrUnattended},
		"mode flag":       {modePrompting, []string{"claude", "--permission-mode", "bypassPermissions"}, ErrUnattended},
		"mode flag, =":    {modePrompting, []string{"claude", "--permission-mode=dontAsk"}, ErrUnattended},
		"not readable":    {modePrompting, []string{}, ErrUnattended},
		"flag taken back": {modePrompting, []string{"claude", skip + "=false"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeClaude(t)
			f.setMode(test.mode)
			s := f.find(f.environment(), newFamily(test.args...))
			if _, err := s.Post(t.Context(), newPost()); !errors.Is(err, test.want) {
				t.Errorf("Post: %v, want %v", err, test.want)
			}
			if got := len(f.list(typeUser)); (got == 0) != (test.want != nil) {
				t.Errorf("%d posts", got)
			}
			if test.want == nil {
				return
			}
			p := newPost()
			p.Unattended = true
			if _, err := s.Post(t.Context(), p); err != nil || len(f.list(typeUser)) != 1 {
				t.Errorf("Post, unattended allowed: %v", err)
			}
		})
	}
}

func TestClaudeModeIsSwitched(t *testing.T) {
	f := newFakeClaude(t)
	s := f.find(f.environment(), newFamily())
	for _, mode := range []string{modePrompting, "bypass", modePrompting} {
		f.setMode(mode)
		_, err := s.Post(t.Context(), newPost())
		if errors.Is(err, ErrUnattended) == (mode == modePrompting) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if n := len(f.list(typeUser)); n != 2 {
		t.Errorf("%d posts, want 2", n)
	}
}

func TestClaudeIsBusy(t *testing.T) {
	f := newFakeClaude(t)
	f.setMode("")
	s := f.find(f.environment(), newFamily())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Post(ctx, newPost()); !errors.Is(err, ErrUnattended) || len(f.list(typeUser)) != 0 {
		t.Errorf("Post to a session that stays busy: %v", err)
	}
	done := postSoon(t, s, newPost())
	var asked []claudeFrame
	for len(asked) < 2 {
		time.Sleep(time.Millisecond)
		asked = f.list(string(actionTellIdle))
	}
	if len(f.list(typeUser)) != 0 {
		t.Error("posted before the session was idle")
	}
	f.setMode(modePrompting)
	f.take(&asked[1])
	if err := <-done; err != nil || len(f.list(typeUser)) != 1 {
		t.Errorf("Post when the turn has ended: %v", err)
	}
}

func TestClaudeIsAskedAgain(t *testing.T) {
	f := newFakeClaude(t)
	f.setMode("")
	s := f.find(f.environment(), newFamily()).(*claude)
	s.askAgain = time.Millisecond
	done := postSoon(t, s, newPost())
	await.Until(t, "the session is asked twice", func() bool { return len(f.list(string(actionTellIdle))) >= 2 })
	f.setMode(modePrompting)
	if err := <-done; err != nil || len(f.list(typeUser)) != 1 {
		t.Errorf("Post: %v", err)
	}
}

func TestClaudeSaysNothing(t *testing.T) {
	f := newFakeClaude(t)
	f.setMode("")
	p := newPost()
	p.Unattended = true
	began := time.Now()
	_, err := f.find(f.environment(), newFamily()).Post(await.NewContext(t), p)
	if frames := f.list(typeUser); err != nil || len(frames) != 1 || frames[0].Priority != "later" {
		t.Errorf("Post: %v, %+v", err, frames)
	}
	if took := time.Since(began); took < modeTime {
		t.Errorf("it is posted after %s", took)
	}
}

func TestClaudeStrangerIsNotHeard(t *testing.T) {
	f := newFakeClaude(t)
	ps := newFamily()
	ps.peerOf = func(c *net.UnixConn) (int, error) {
		if strings.HasPrefix(c.LocalAddr().String(), f.dir) { // who connected to the reply socket
			return 666, nil
		}
		return parentPID, nil
	}
	s := f.find(f.environment(), ps)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Post(ctx, newPost()); !errors.Is(err, ErrUnattended) {
		t.Errorf("a stranger's idle notice counts: %v", err)
	}
}
