package meet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/roster"
)

// rosterOf writes a roster that names the desk, and returns its path.
func rosterOf(t *testing.T, entries ...roster.Entry) string {
	t.Helper()
	text := "peers:\n"
	for _, e := range entries {
		text += e.String()
	}
	path := filepath.Join(t.TempDir(), "roster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answerRoster lets a daemon answer trust.roster with rows, and returns the params that it got.
func answerRoster(f *clitest.FakeDaemon, rows ...client.RosterPeer) *[]client.RosterParams {
	var got []client.RosterParams
	f.SetHandler(client.MethodTrustRoster, func(r *jsonrpc.Request) (any, error) {
		var p client.RosterParams
		err := r.ReadParams(&p)
		got = append(got, p)
		return &client.Roster{Peers: rows, Applied: p.Apply}, err
	})
	return &got
}

// A roster is shown before anything is changed, and applied after a typed yes alone, or with --yes.
func TestRosterAsksFirst(t *testing.T) {
	f := newDaemon(t)
	path := rosterOf(t, roster.Entry{ID: clitest.DeskID, Name: "desk", Addrs: []string{"desk.example:7117"}}, roster.Entry{ID: clitest.MyID, Name: "laptop"})
	got := answerRoster(f,
		client.RosterPeer{ID: clitest.DeskID, Name: "desk", Addrs: []string{"desk.example:7117"}, Change: client.RosterChanged, Was: &client.RosterEntry{Name: "office", Addrs: []string{}}, Warning: "policy in config.yaml names desk"},
		client.RosterPeer{ID: clitest.MyID, Name: "laptop", Change: client.RosterSelf})
	const table = "desk\tde5c000000\trenamed, was office; new addresses, were -\tdesk.example:7117\nlaptop\tacdc000000\tnone: this daemon\t-\n"
	const told = "acpctl trust: policy in config.yaml names desk\n0 new, 1 changed, 0 unchanged. A roster removes nobody: acpctl untrust NAME does.\nMessages pass between two machines when both have applied it.\n"
	applied := func() (all []bool) {
		for _, p := range *got {
			all = append(all, p.Apply)
		}
		*got = nil
		return all
	}

	f.WantResult(f.Run("trust", "--file", path, "--yes"), 0, table, told)
	if (*got)[1].Peers[0].Name != "desk" || (*got)[1].Peers[0].Addrs[0] != "desk.example:7117" || (*got)[1].Peers[1].Addrs != nil {
		t.Errorf("asked for %+v", *got)
	}
	if all := applied(); !slices.Equal(all, []bool{false, true}) {
		t.Errorf("--yes: %v", all)
	}
	f.WantResult(f.Run("trust", "--file", path, "--dry-run"), 0, table, "")
	if all := applied(); !slices.Equal(all, []bool{false}) {
		t.Errorf("--dry-run: %v", all)
	}
	if r := f.Run("trust", "--file", path); r.Code != frame.ExitUsage || r.Out != table || !strings.Contains(r.Err, "--yes trusts what is shown above") || !slices.Equal(applied(), []bool{false}) {
		t.Errorf("a script: %+v", r)
	}
	for _, answer := range []string{"", "\n", "no\n"} {
		if r := f.RunInteractive(answer, "trust", "--file", path); r.Code != frame.ExitLocal || !strings.Contains(r.Err, "nothing was changed") || !slices.Equal(applied(), []bool{false}) {
			t.Errorf("%q: %+v", answer, r)
		}
	}
	r := f.RunInteractive("yes\n", "trust", "--file", path)
	if r.Code != 0 || strings.Count(r.Out, "desk.example:7117") != 1 || !strings.HasPrefix(r.Err, "Trust 0 new, and change 1 that are trusted already? Type yes or no: "+told[:20]) || !slices.Equal(applied(), []bool{false, true}) {
		t.Errorf("yes: %+v", r)
	}
	// With --json a person reads what the question is about on standard error.
	r = f.RunAtTerminal(ui.Terminal{InTTY: true, ErrTTY: true}, "yes\n", "trust", "--file", path, "--json")
	if r.Code != 0 || strings.Count(r.Out, "\n") != 1 || !strings.Contains(r.Out, `"applied":true`) || !strings.Contains(r.Err, "renamed, was office") {
		t.Errorf("--json: %+v", r)
	}
}

// A roster that changes nothing asks nobody, also in a script, and says so.
func TestRosterThatChangesNothing(t *testing.T) {
	f := newDaemon(t)
	path := rosterOf(t, roster.Entry{ID: clitest.DeskID, Name: "desk"})
	answerRoster(f, client.RosterPeer{ID: clitest.DeskID, Name: "desk", Change: client.RosterUnchanged})
	f.WantResult(f.Run("trust", "--file", path), 0, "desk\tde5c000000\tunchanged\t-\n", "Nothing changes.\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.WantResult(f.RunAtTerminal(ui.Terminal{}, string(text), "trust", "--file", "-", "--yes"), 0, "desk\tde5c000000\tunchanged\t-\n", "Nothing changes.\n")
	if r := f.RunAtTerminal(ui.Terminal{}, string(text), "trust", "--file", "-"); r.Code != frame.ExitUsage || !strings.Contains(r.Err, "add --dry-run or --yes") {
		t.Errorf("%+v", r)
	}
}

// What a daemon refuses is told by the line of the file, with what is wrong in the file; then
// nothing is applied.
func TestRosterThatIsRefused(t *testing.T) {
	f := newDaemon(t)
	path := rosterOf(t, roster.Entry{ID: clitest.DeskID, Name: "desk"}, roster.Entry{ID: clitest.MyID, Name: "laptop"})
	got := answerRoster(f, client.RosterPeer{ID: clitest.DeskID, Name: "desk", Change: client.RosterNew},
		client.RosterPeer{ID: clitest.MyID, Name: "laptop", Change: client.RosterRefused, Problem: "it was untrusted here"})
	f.WantResult(f.Run("trust", "--file", path, "--yes"), frame.ExitUsage, "",
		"acpctl trust: nothing was changed:\n"+path+":4: laptop: it was untrusted here\nSee: acpctl trust --help\n")
	if len(*got) != 1 || (*got)[0].Apply {
		t.Errorf("asked for %+v", *got)
	}
	wrong := rosterOf(t, roster.Entry{ID: clitest.DeskID, Name: "Desk"}, roster.Entry{Name: "laptop"})
	if r := f.Run("trust", "--file", wrong, "--yes"); r.Code != frame.ExitUsage || strings.Count(r.Err, wrong+":") != 2 || len(*got) != 1 {
		t.Errorf("%+v", r)
	}
	long := filepath.Join(t.TempDir(), "long.yaml")
	if err := os.WriteFile(long, []byte("peers: []\n#"+strings.Repeat("x", roster.MaxBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := f.Run("trust", "--file", long, "--yes"); r.Code != frame.ExitUsage || !strings.Contains(r.Err, "over 1 MiB") {
		t.Errorf("%+v", r)
	}
	if r := f.Run("trust", "--file", path+".none", "--yes"); r.Code != frame.ExitLocal || !strings.Contains(r.Err, "no such file") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"desk"}, {"--name", "desk"}, {"--addr", "desk.example:7117"}} {
		if r := f.Run(append([]string{"trust", "--file", path}, args...)...); r.Code != frame.ExitUsage || !strings.Contains(r.Err, "leave out what names one peer") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"trust", "--file", ""}, {"trust", "desk", "--dry-run"}, {"trust"}} {
		if r := f.Run(args...); r.Code != frame.ExitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A daemon's own entry can be pasted into a roster, whatever the daemon calls itself.
func TestWhoamiForARoster(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodRelayList, client.Relays{Relays: []client.Relay{}})
	for claim, name := range map[string]string{"desk": "desk", "Laptop": "laptop", "Büro": "peer-acdc000000", "claude": "peer-acdc000000", "": "peer-acdc000000"} {
		me := client.Whoami{ID: clitest.MyID, Name: claim, Listen: []string{"192.0.2.1:7117"}}
		for range identity.MaxAddrs {
			me.Listen = append(me.Listen, "[2001:db8::1]:7117")
		}
		f.SetAnswer(client.MethodWhoami, &me)
		got := f.Run("whoami", "--roster")
		r, err := roster.Parse("roster.yaml", []byte("peers:\n"+got.Out))
		if err != nil || got.Code != 0 || len(r.Entries) != 1 || r.Entries[0].ID != clitest.MyID || r.Entries[0].Name != name || len(r.Entries[0].Addrs) != identity.MaxAddrs {
			t.Errorf("%q: %+v, %+v, %v", claim, got, r, err)
		}
		if told := strings.Contains(got.Err, "cannot be a peer's"); told != (name == "peer-acdc000000") {
			t.Errorf("%q: %+v", claim, got)
		}
	}
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID, Name: "desk", Listen: []string{"127.0.0.1:7117"}})
	f.WantResult(f.Run("whoami", "--roster", "--json"), 0, `{"id":"`+clitest.MyID.String()+`","name":"desk","addrs":["127.0.0.1:7117"]}`+"\n",
		"acpctl whoami: --roster: the daemon listens only on loopback (127.0.0.1:7117): no other machine can reach it there\n")
	f.SetAnswer(client.MethodRelayList, client.Relays{Relays: []client.Relay{
		{Name: "old", URL: "tls://old.example.org:4222", State: client.RelayUnused}, {Name: "hub", URL: "tls://nats.example.org:4222", State: client.RelayUp},
		{Name: "spare", URL: "wss://nats.example.org:443", State: client.RelayDown}, {Name: "more", URL: "tls://more.example.org:4222", State: client.RelayUp},
	}})
	f.WantResult(f.Run("whoami", "--roster"), 0, `- id: "`+clitest.MyID.String()+`"
  name: "desk"
  addrs: ["127.0.0.1:7117"]
  relays: ["tls://nats.example.org:4222", "wss://nats.example.org:443"]
`, "")
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID, Name: "desk", Listen: []string{"192.0.2.1:7117"}, HidesAddrs: true})
	f.WantResult(f.Run("whoami", "--roster"), 0, `- id: "`+clitest.MyID.String()+`"
  name: "desk"
  addrs: []
  relays: ["tls://nats.example.org:4222", "wss://nats.example.org:443"]
`, "")
}

// The relays of a roster go to the daemon, and the answer names those that are to be added.
func TestRosterWithRelays(t *testing.T) {
	f := newDaemon(t)
	const hub = "tls://nats.example.org:4222"
	path := rosterOf(t, roster.Entry{ID: clitest.DeskID, Name: "desk", Relays: []string{hub}})
	var got []client.RosterParams
	f.SetHandler(client.MethodTrustRoster, func(r *jsonrpc.Request) (any, error) {
		var p client.RosterParams
		err := r.ReadParams(&p)
		got = append(got, p)
		return &client.Roster{Peers: []client.RosterPeer{{ID: clitest.DeskID, Name: "desk", Change: client.RosterUnchanged}}, Applied: p.Apply, Relays: []string{hub}}, err
	})
	r := f.Run("trust", "--file", path, "--yes")
	if r.Code != 0 || !strings.Contains(r.Err, "the relay "+hub+" is not used here, and peers of the roster are at it: acpctl relay add "+hub+"\n") {
		t.Errorf("%+v", r)
	}
	if len(got) != 2 || !slices.Equal(got[1].Peers[0].Relays, []string{hub}) {
		t.Errorf("asked for %+v", got)
	}
}
