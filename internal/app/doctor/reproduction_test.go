package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// reproduction is a machine, a daemon or a state directory with which something is so, and the
// codes that the doctor must find there.
type reproduction struct {
	codes []Code
	find  func(t *testing.T) []Finding
}

func codes(all ...Code) []Code { return all }

// ended returns a reproduction by a state directory whose daemon has ended, changed by change.
func ended(change func(s *site, o *Options), found ...Code) reproduction {
	return reproduction{found, func(t *testing.T) []Finding {
		s := endedSite(t)
		o := options(t, s.home)
		change(s, &o)
		return examine(t, o)
	}}
}

// faked returns a reproduction by a daemon that answers as answer says.
func faked(answer func(d *clitest.FakeDaemon, s *client.Status, o *Options), found ...Code) reproduction {
	return reproduction{found, func(t *testing.T) []Finding {
		d := clitest.NewFakeDaemon(t, nil)
		if err := os.Chmod(d.Home, 0o700); err != nil {
			t.Fatal(err)
		}
		s := &client.Status{Whoami: client.Whoami{ID: clitest.MyID, Name: "desk", Version: "1.0.0", Listen: []string{"192.0.2.1:7117"}}}
		o := options(t, d.Home)
		d.SetAnswer(client.MethodStatus, s)
		d.SetAnswer(client.MethodPeers, &client.Peers{})
		d.SetAnswer(client.MethodBudget, &client.Budget{})
		d.SetAnswer(client.MethodOACPBindings, &client.OACPBindings{})
		d.SetAnswer(client.MethodOACPQueue, &client.OACPQueue{})
		answer(d, s, &o)
		return examine(t, o)
	}}
}

// pinged returns a reproduction by a daemon whose trusted peer answers a ping as answer says.
func pinged(answer any, found ...Code) reproduction {
	return faked(func(d *clitest.FakeDaemon, _ *client.Status, o *Options) {
		d.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "laptop", State: client.PeerTrusted, Addrs: []string{"192.0.2.2:7117"}}}})
		d.SetAnswer(client.MethodPing, answer)
	}, found...)
}

// listening returns a reproduction by a daemon that has ended, with that listen in config.yaml, on
// a machine that answers an attempt to listen with err.
func listening(listen string, err error, found ...Code) reproduction {
	return ended(func(s *site, o *Options) {
		if listen != "" {
			s.write("config.yaml", "listen: "+listen+"\n")
		}
		if err != nil {
			o.Machine.ListenUDP = func(string) error { return err }
		}
	}, found...)
}

// program returns a reproduction by an agent program that says to be of a version, set up by
// change.
func program(version string, change func(t *testing.T, o *setup.Options), found ...Code) reproduction {
	return reproduction{found, func(t *testing.T) []Finding {
		o := options(t, live.MakeTempDir(t))
		o.Setup = setupOptions(t)
		script := fmt.Sprintf("#!/bin/sh\necho %s\n", version)
		if err := os.WriteFile(filepath.Join(o.Setup.Home, "bin", "codex"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		change(t, &o.Setup)
		return examine(t, o)
	}}
}

// setUp does what acpctl setup codex --yes does.
func setUp(t *testing.T, o *setup.Options) {
	t.Helper()
	plan, err := setup.NewPlan("codex", *o)
	if err != nil {
		t.Fatal(err)
	}
	plan.Accept(&plan.Steps[0])
	if _, err := plan.Write(); err != nil {
		t.Fatal(err)
	}
}

// inDepth returns a reproduction by two daemons, one of which examines the other.
func inDepth(prepare func(desk, laptop *site, o *Options), found ...Code) reproduction {
	return reproduction{found, func(t *testing.T) []Finding {
		desk, laptop := startPair(t)
		o := options(t, desk.home)
		o.Peer = "laptop"
		prepare(desk, laptop, &o)
		return examine(t, o)
	}}
}

// leaveSocket leaves a socket as a daemon does that is killed.
func leaveSocket(t *testing.T, home string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(home, client.SocketName)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

// findCode returns the first finding with a code, or none.
func findCode(all []Finding, c Code) Finding {
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Code == c })
	if i < 0 {
		return Finding{}
	}
	return all[i]
}

func render(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s: %s / %s\n", f.Severity, f.Code, f.What, f.Remedy)
	}
	return b.String()
}

// examineOwnerNotify examines a daemon whose owner is told by a script.
func examineOwnerNotify(t *testing.T, script string) []Finding {
	s := startSite(t, "desk")
	path := filepath.Join(t.TempDir(), "tell")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.NotifyOwner(await.NewContext(t), client.OwnerNotifyParams{Set: true, Command: []string{path}}); err != nil {
		t.Fatal(err)
	}
	return examine(t, options(t, s.home))
}
