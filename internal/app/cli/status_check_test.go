package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/frame"
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
	for _, args := range []string{"--check --budget", "--wait 1s --check", "--quiet"} {
		if got := f.Run(append([]string{"status"}, strings.Fields(args)...)...); got.Code != frame.ExitUsage {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
