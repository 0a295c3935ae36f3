package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
)

func TestInviteOnATerminal(t *testing.T) {
	f := newDaemon(t)
	inv := identity.Invitation{ID: clitest.DeskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", PQ: identity.PQHash{1}, Token: [16]byte{1}}
	f.SetAnswer(client.MethodInvite, &client.Invitation{URI: inv.String(), Expires: time.Now()})
	f.WantResult(f.Run("invite"), 0, inv.String()+"\n", "")
	got := f.RunInteractive("", "invite")
	if lines := strings.Count(got.Err, "\n"); got.Out != inv.String()+"\n" || !strings.Contains(got.Err, "acpctl join") || strings.Contains(got.Err, "█") || lines > 10 {
		t.Errorf("%d lines beside the invitation: %+v", lines, got)
	}
	if got = f.RunInteractive("", "invite", "--qr"); got.Out != inv.String()+"\n" || !strings.Contains(got.Err, "█") || !strings.HasSuffix(got.Err, "send a password.\n") {
		t.Errorf("with a QR code: %+v", got)
	}
	if got = f.Run("invite", "--list", "--qr"); got.Code != frame.ExitUsage {
		t.Errorf("a QR code of a list: %+v", got)
	}
}

func TestJoinAsksForTheLine(t *testing.T) {
	f := newDaemon(t)
	inv := identity.Invitation{ID: clitest.DeskID, Token: [16]byte{1}}.String()
	f.SetHandler(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		var p client.JoinParams
		if err := r.ReadParams(&p); err != nil || p.URI != inv {
			return nil, fmt.Errorf("%v: %s", err, p.URI)
		}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	const next = "This daemon and desk trust each other now: agents on both sides may send messages.\n" +
		"Next: acpctl ping desk; and acpctl setup, on each side, to connect an agent program.\n"
	f.WantResult(f.RunInteractive(inv+"\nmore", "join"), 0, "trusted desk (de5c 0000 0000 0000 0000 0000 0000 0000)\n", "Paste the invitation:\n"+next)
	f.WantResult(f.RunAtTerminal(ui.Terminal{}, inv, "join"), 0, "desk\n", next)
	f.WantResult(f.Run("join", inv, "--json"), 0, `{"id":"`+clitest.DeskID.String()+`","name":"desk"}`+"\n", "")
	if got := f.RunAtTerminal(ui.Terminal{}, strings.Repeat("a", 5000), "join"); got.Code != frame.ExitLocal {
		t.Errorf("a line without end: %+v", got)
	}
}
