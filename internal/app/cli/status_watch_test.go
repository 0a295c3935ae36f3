package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

func TestStatusCheck(t *testing.T) {
	f := newDaemon(t)
	status := func(ready bool, unready ...string) {
		f.SetAnswer(client.MethodStatus, &client.Status{Whoami: client.Whoami{Version: "0.2.0"}, Ready: ready, Unready: unready})
	}
	f.SetAnswer(client.MethodStatus, &client.Status{Ready: true, Unready: []string{}})
	f.WantResult(f.Run("status", "--check"), 0, "ready\n", "")
	f.WantResult(f.Run("status", "--check", "--quiet"), 0, "", "")
	f.WantResult(f.Run("status", "--check", "--json"), 0, `{"ready":true,"unready":[]}`+"\n", "")
	status(false, "the disk is full: free some space", "acpd is\nstarting")
	f.WantResult(f.Run("status", "--check", "-q"), frame.ExitLocal, "", "acpctl status: not ready: the disk is full: free some space; acpd is starting\n")
	f.WantResult(f.Run("status", "--check", "--json"), frame.ExitLocal, `{"ready":false,"unready":["the disk is full: free some space","acpd is\nstarting"]}`+"\n", "")
	status(false) // of a daemon that does not know the fields
	if got := f.Run("status", "--check"); got.Code != frame.ExitLocal || !strings.Contains(got.Err, "update it") {
		t.Errorf("%+v", got)
	}
	f.RemoveSocket(client.SocketName)
	if got := f.Run("status", "--check", "--quiet"); got.Code != 6 || got.Err == "" {
		t.Errorf("without a daemon: %+v", got)
	}
}

// TestStatusCheckOfASilentDaemon: it is given up in 2 s.
func TestStatusCheckOfASilentDaemon(t *testing.T) {
	t.Parallel()
	f := newDaemon(t)
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	f.SetHandler(client.MethodStatus, func(*jsonrpc.Request) (any, error) { <-silent; return nil, nil })
	if got := f.Run("status", "--check"); got.Code != 6 || !strings.Contains(got.Err, "2s") {
		t.Errorf("%+v", got)
	}
}

func TestStatusFlagsThatExclude(t *testing.T) {
	f := newDaemon(t)
	for _, args := range []string{"--watch --check", "--watch --budget", "--wait 1s --check", "--interval 1s", "--watch --interval 1ms", "--watch --interval 2h", "--quiet"} {
		if got := f.Run(append([]string{"status"}, strings.Fields(args)...)...); got.Code != frame.ExitUsage {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// TestStatusWatch: each look is a block, a line or a drawing; a daemon that goes away does not end it,
// and an interrupt does.
func TestStatusWatch(t *testing.T) {
	for _, c := range []struct {
		terminal ui.Terminal
		want     []string
	}{
		{ui.Terminal{}, []string{"at\t", "\nname\tdesk\n", "not ready\tit starts\n\nat\t", "\ndaemon\tit went away\n\nat\t"}},
		{ui.Terminal{JSON: true}, []string{`"name":"desk"`, `"unready":["it starts"]`, "}\n{\"error\":{\"code\":\"daemon_unavailable\"", "}\n{\"id\":"}},
		{ui.Terminal{OutTTY: true}, []string{"\x1b[2J\x1b[Hat ", "desk\x1b[K\n", "it starts\x1b[K\n\x1b[J\x1b[Hat ", "it went away\x1b[K\n\x1b[J\x1b[Hat "}},
	} {
		f := newDaemon(t)
		looks := 0
		f.SetHandler(client.MethodStatus, func(*jsonrpc.Request) (any, error) {
			if looks++; looks == 2 {
				return nil, kinds.Errorf(kinds.DaemonUnavailable, "it went away")
			}
			return &client.Status{Whoami: client.Whoami{ID: clitest.DeskID, Name: "desk"}, Unready: []string{"it starts"}}, nil
		})
		args := []string{"status", "--watch", "--interval", "100ms"}
		if c.terminal.JSON {
			args = append(args, "--json")
		}
		got := f.RunUntil(c.terminal, 3, args...)
		if got.Code != frame.ExitInterrupted || got.Err != "" || looks != 3 {
			t.Errorf("after %d looks: %+v", looks, got)
		}
		rest := got.Out
		for _, want := range c.want {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%q is missing in %q", want, got.Out)
			}
			rest = after
		}
	}
}
