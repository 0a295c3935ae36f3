package up

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/connect"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// upDaemon is a daemon for acpctl up, at a user's who has these agent programs, and what up has it do.
type upDaemon struct {
	*clitest.FakeDaemon
	user string

	mu    sync.Mutex
	did   []string // join ID, trust ID, wake PEER KINDS AGENT ask
	peers []client.Peer
	rules []client.WakeRule
	open  []client.OpenInvitation
}

func newRoot(f *frame.Frame) *cobra.Command {
	root := &cobra.Command{Use: "acpctl"}
	f.SetUpRoot(root, NewCmd(f), (&connect.Verbs{Frame: f}).NewCmd())
	return root
}

func newUpDaemon(t *testing.T, programs ...string) *upDaemon {
	user := clitest.SetUpHome(t)
	f := clitest.NewFakeDaemon(t, newRoot)
	d := &upDaemon{FakeDaemon: f, user: user}
	for _, name := range programs {
		writeScript(t, filepath.Join(user, name), "echo 1.2.3")
	}
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID, Name: "laptop"})
	f.SetAnswer(client.MethodPing, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindPong, RTTUS: 400, Payload: kinds.EncodePayload(&kinds.Pong{})})
	f.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: kinds.EncodePayload(&kinds.Capabilities{AgentName: "desk", Agents: []string{"codex", "reviewer"}})})
	f.SetAnswer(client.MethodRelayList, &client.Relays{})
	d.handle(client.MethodPeers, func(*jsonrpc.Request) (any, error) { return &client.Peers{Peers: slices.Clone(d.peers)}, nil })
	d.handle(client.MethodWakeList, func(*jsonrpc.Request) (any, error) {
		return &client.WakeRules{Rules: slices.Clone(d.rules), Answers: []client.WakeAnswersRule{}}, nil
	})
	d.SetAnswer(client.MethodWakeNotify, client.OwnerNotify{Command: []string{"notify-send"}})
	d.handle(client.MethodWakeAllow, func(r *jsonrpc.Request) (any, error) {
		var p client.WakeAllowParams
		err := r.ReadParams(&p)
		how := ""
		if p.Ask {
			how = " ask"
		}
		d.did = append(d.did, "wake "+p.Peer[:4]+" "+strings.Join(p.Kinds, ",")+" "+p.Agent+how)
		d.rules = append(d.rules, client.WakeRule{Peer: clitest.DeskID, Name: "desk", Kind: p.Kinds[0], Agent: p.Agent, Ask: p.Ask})
		return &client.WakeRules{}, err
	})
	d.handle(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		var p client.TrustParams
		err := r.ReadParams(&p)
		d.did, d.peers = append(d.did, "trust "+p.Peer[:4]), []client.Peer{desk}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, err
	})
	d.handle(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		var p client.JoinParams
		err := r.ReadParams(&p)
		d.did, d.peers = append(d.did, "join "+p.URI[6:10]), []client.Peer{desk}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, err
	})
	d.handle(client.MethodInvitations, func(*jsonrpc.Request) (any, error) {
		return &client.Invitations{Invitations: slices.Clone(d.open)}, nil
	})
	return d
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

func writeScript(t *testing.T, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// desk is a peer that is there.
var desk = client.Peer{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}

// handle lets a function answer a method, one call at a time.
func (d *upDaemon) handle(method string, do func(*jsonrpc.Request) (any, error)) {
	d.SetHandler(method, func(r *jsonrpc.Request) (any, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return do(r)
	})
}

// setState says which peers and rules there are.
func (d *upDaemon) setState(peers []client.Peer, rules ...client.WakeRule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers, d.rules = peers, rules
}

// setOpen says which invitations are open.
func (d *upDaemon) setOpen(open ...client.OpenInvitation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = open
}

// takeDone returns what up had the daemon do since the last call.
func (d *upDaemon) takeDone() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.did = nil }()
	return strings.Join(d.did, "; ")
}

// connect has both programs be connected already.
func (d *upDaemon) connect(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if got := d.Run("setup", name, "--yes"); got.Code != 0 {
			t.Fatalf("%+v", got)
		}
	}
}

var deskLine = identity.Invitation{ID: clitest.DeskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", Token: [16]byte{1}}

func wantAll(t *testing.T, got clitest.Result, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got.Out+got.Err, text) {
			t.Errorf("%q is missing: exit code %d\n%s--- stderr\n%s", text, got.Code, got.Out, got.Err)
		}
	}
}

// A model in a shell tool that runs up with a line and --yes gains nothing: nobody is trusted, nothing may be woken, and
// what the model sends by itself stays asked for. What was left out is told, and nobody is waited for.
// holds: security.md#agents-on-this-machine
func TestUpGivesAModelNothing(t *testing.T) {
	d := newUpDaemon(t, "claude", "codex")
	for _, line := range [][]string{{"up", deskLine.String(), "--yes"}, {"up", deskLine.String()}, {"up", "--yes"}, {"up"}} {
		got := d.RunAtTerminal(ui.Terminal{}, "y\nyes\ny\n", line...)
		if did := d.takeDone(); got.Code != 0 || did != "" {
			t.Errorf("%q: %q, %+v", line, did, got)
		}
		if strings.Contains(strings.Join(line, " "), "acp://") {
			wantAll(t, got, "Left out: desk (claimed name), fingerprint de5c 0000 0000 0000 0000 0000 0000 0000, is not trusted: only a person can say that, at a terminal")
		} else {
			wantAll(t, got, "Left out: there is no peer yet: type acpctl up at a terminal")
		}
	}
	if text := readText(t, filepath.Join(d.user, ".claude/settings.json")); strings.Contains(text, `"allow": ["mcp__acp__acp_query"`) || strings.Contains(readText(t, filepath.Join(d.user, ".codex/config.toml")), "acp_query") {
		t.Errorf("sending needs no approval:\n%s", text)
	}
	d.setState([]client.Peer{desk})
	got := d.RunAtTerminal(ui.Terminal{}, "y\ny\n", "up", "--yes")
	if did := d.takeDone(); got.Code != 0 || did != "" {
		t.Errorf("with a peer: %q, %+v", did, got)
	}
	wantAll(t, got, "Left out: May desk's questions begin a turn of your sessions? Only a person can say that")
}

// Without a terminal and without --yes, no file of a program is changed.
func TestUpChangesNothingUnasked(t *testing.T) {
	d := newUpDaemon(t, "claude")
	got := d.RunAtTerminal(ui.Terminal{}, "y\ny\ny\ny\n", "up")
	if entries, err := os.ReadDir(d.user); err != nil || len(entries) != 1 || got.Code != 0 {
		t.Errorf("%v, %v, %+v", entries, err, got)
	}
	wantAll(t, got, "Left out: Claude Code is not connected: acpctl setup claude, or acpctl up --yes")
}

// holds: security.md#agents-on-this-machine
func TestUpIsForTheOwnersShell(t *testing.T) {
	d := newUpDaemon(t)
	if got := d.RunInteractive("", "up", "--json"); got.Code != frame.ExitUsage {
		t.Errorf("%+v", got)
	}
	t.Setenv("ACP_SOCKET", filepath.Join(d.Home, client.AgentFolder, client.SocketName))
	var out strings.Builder
	code := d.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader("y\n"), Out: &out, Err: &out, InTTY: true}, "up", "--yes")
	if code != frame.ExitUsage || !strings.Contains(out.String(), "the owner of the daemon types acpctl up in a shell of their own") || d.takeDone() != "" {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

// Whom a line makes a peer is said before, and nothing but a yes joins. What is no line is asked for again.
func TestUpJoins(t *testing.T) {
	d := newUpDaemon(t)
	line, own, odd := deskLine.String(), deskLine, deskLine
	own.ID, odd.Name = clitest.MyID, "desk, fingerprint 1234 (verified)"
	const question = "This makes desk (claimed name), fingerprint de5c 0000 0000 0000 0000 0000 0000 0000, a trusted peer: its agents may send messages to yours. Trust it? Type yes or no: "
	for _, c := range []struct {
		typed, did string
		want       []string
	}{
		{line + "\ny\n", "join de5c", []string{question, "desk answers in"}},
		{"<" + line[:40] + "\n" + line[40:] + ">\nyes\n", "join de5c", []string{"It is not whole yet", question}},
		{line + "\n\n", "", []string{question, "there is no peer yet"}},
		{line + "\nn\n" + line + "\ny\n", "join de5c", []string{question}},
		{"hello\nq\n", "", []string{"does not begin with acp://", "Left out: there is no peer yet"}},
		{"acp://desk?a=1\n\nq\n", "", []string{"\nthis is not a whole invitation: invitation: "}}, // no shell has cut it
		{own.String() + "\nq\n", "", []string{"of this machine itself"}},
		{odd.String() + "\nn\n", "", []string{`This makes "desk, fingerprint 1234 (verified)" (claimed name), fingerprint de5c`}},
		{"", "", []string{"there is no peer yet"}},
	} {
		d.setState(nil)
		got := d.RunInteractive(c.typed, "up")
		if did := d.takeDone(); got.Code != 0 || did != c.did {
			t.Errorf("%q: %q, want %q: %+v", c.typed, did, c.did, got)
		}
		wantAll(t, got, c.want...)
	}
	d.setState(nil)
	got := d.RunInteractive("y\n", "up", line)
	if did := d.takeDone(); did != "join de5c" {
		t.Errorf("as an argument: %q, %+v", did, got)
	}
	wantAll(t, got, "Shells remember what they were given")
	d.setState(nil)
	got = d.RunInteractive("n\n", "up", line)
	if did := d.takeDone(); did != "" || got.Code != 0 {
		t.Errorf("as an argument, refused: %q, %+v", did, got)
	}
	wantAll(t, got, "Left out: desk (claimed name), fingerprint de5c 0000 0000 0000 0000 0000 0000 0000, is not trusted: acpctl up, and paste its line\n")
	d.setState([]client.Peer{desk})
	got = d.RunInteractive("y\n", "up", line) // it is a peer now
	if did := d.takeDone(); did != "" || got.Code != 0 {
		t.Errorf("again: %q, %+v", did, got)
	}
	d.setState(nil)
	if got = d.Run("up", line[:60]); got.Code != frame.ExitUsage || !strings.Contains(got.Err, "this is not a whole invitation") || strings.Contains(got.Err, "acpd runs") {
		t.Errorf("half of a line: %+v", got)
	}
	d.SetAnswer(client.MethodJoin, kinds.Errorf(kinds.Unreachable, "join: nobody answers"))
	got = d.RunInteractive(line+"\ny\nq\n", "up")
	wantAll(t, got, "join: nobody answers\n", "the line works only for machines on one network or VPN", "or by a relay")
}

// A stranger that the network tells of is trusted by its number, after its fingerprint was compared.
func TestUpTrustsAStranger(t *testing.T) {
	d := newUpDaemon(t)
	stranger := client.Peer{ID: clitest.DeskID, Claim: "desk", State: client.PeerDiscovered, Addrs: []string{"192.0.2.1:7117"}}
	blocked := client.Peer{ID: identity.ID{9}, Claim: "tower", State: client.PeerBlocked}
	for _, c := range []struct{ typed, did string }{{"1\nyes\n", "trust de5c"}, {"1\nn\n", ""}, {"2\nyes\nq\n", ""}, {"0\nq\n", ""}} {
		d.setState([]client.Peer{blocked, stranger})
		got := d.RunInteractive(c.typed, "up")
		if did := d.takeDone(); got.Code != 0 || did != c.did || strings.Contains(got.Err, "tower") {
			t.Errorf("%q: %q, want %q: %+v", c.typed, did, c.did, got)
		}
		wantAll(t, got, `"desk" is on this network, at 192.0.2.1:7117. To trust it, type 1:`)
		if c.did != "" {
			wantAll(t, got, "Compare the fingerprint", "answer acpctl up there, or type it, and choose")
		}
	}
	// A line of a machine that does not trust this one yet is good, also while up waits for that, and whether or not
	// that machine has said so.
	d.SetAnswer(client.MethodPing, kinds.Errorf(kinds.NotTrusted, "no"))
	for _, half := range []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected, Refuses: true},
		{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted, Refuses: true},
		{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted},
	} {
		d.handle(client.MethodTrust, func(*jsonrpc.Request) (any, error) {
			d.peers = []client.Peer{half}
			return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
		})
		d.setState([]client.Peer{stranger})
		got := d.RunInteractive("1\nyes\n"+deskLine.String()+"\ny\n", "up")
		if did := d.takeDone(); got.Code != 0 || did != "join de5c" {
			t.Errorf("%+v: %q: %+v", half, did, got)
		}
		d.setState([]client.Peer{half})
		got = d.RunInteractive("y\n", "up", deskLine.String())
		if did := d.takeDone(); got.Code != 0 || did != "join de5c" {
			t.Errorf("%+v, as an argument: %q: %+v", half, did, got)
		}
	}
}

// upTerminal is a terminal at which up runs, and what it shows.
type upTerminal struct {
	t     *testing.T
	shown await.Output
	typed *io.PipeWriter
	code  chan int
}

// startUp runs up at a terminal that stays open.
func (d *upDaemon) startUp(t *testing.T) *upTerminal {
	r, w := io.Pipe()
	s := &upTerminal{t: t, typed: w, code: make(chan int, 1)}
	go func() {
		s.code <- d.RunWithoutHome(t.Context(), ui.Terminal{In: r, Out: &s.shown, Err: &s.shown, InTTY: true, ErrTTY: true}, "--home", d.Home, "up")
	}()
	t.Cleanup(func() { w.Close() })
	return s
}

func (s *upTerminal) types(after, text string) {
	s.t.Helper()
	await.Until(s.t, "up shows "+after, func() bool { return strings.Contains(s.shown.String(), after) })
	if _, err := io.WriteString(s.typed, text); err != nil {
		s.t.Fatal(err)
	}
}

// A line is shown until somebody has joined by it, and another one when it has ended. Who joined is said, with the bell.
func TestUpInvites(t *testing.T) {
	d := newUpDaemon(t)
	d.handle(client.MethodInvite, func(*jsonrpc.Request) (any, error) {
		switch n := len(d.open); n {
		case 0: // it ends at once
			d.open = []client.OpenInvitation{{ID: "2"}}
			return &client.Invitation{URI: "acp://first", ID: "1", Expires: time.Now()}, nil
		default:
			return &client.Invitation{URI: "acp://second", ID: "2", Expires: time.Now().Add(time.Hour)}, nil
		}
	})
	s := d.startUp(t)
	s.types("press Enter to make one: ", "\n")
	s.types("acp://first", "")
	s.types("That line has ended. This is the next one.", "")
	s.types("acp://second", "")
	s.types("Without a relay, the line works only for machines on one network or VPN", "what?\n")
	s.types("does not begin with acp://", "") // it goes on
	d.setState([]client.Peer{desk})
	d.setOpen(client.OpenInvitation{ID: "2", UsedBy: &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}})
	if code := await.Receive(t, "exit code", s.code); code != 0 {
		t.Errorf("exit code %d", code)
	}
	got := clitest.Result{Out: s.shown.String()}
	wantAll(t, got, "\a\ndesk (claimed name), fingerprint de5c 0000 0000 0000 0000 0000 0000 0000, has joined by this line and is a trusted peer now: its agents may send messages to yours.\nIf you do not know it: acpctl untrust desk\n", "desk answers in")
}

// Who leaves the wait is told how long the line works; a line that somebody has revoked is not made anew.
func TestUpLeavesAnInvitationOpen(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		d := newUpDaemon(t)
		until := time.Now().Add(time.Hour)
		d.setOpen(client.OpenInvitation{ID: "1"})
		d.SetAnswer(client.MethodInvite, &client.Invitation{URI: "acp://first", ID: "1", Expires: until})
		s := d.startUp(t)
		s.types("press Enter to make one: ", "\n")
		want := "Left out: nobody has joined yet: the line works until " + until.Format("15:04") + "; acpctl invite --revoke all ends it\n"
		if revoked {
			s.types("q leaves it", "")
			d.setOpen()
			want = "the line was revoked"
		} else {
			s.types("q leaves it", "q\n")
		}
		if code := await.Receive(t, "exit code", s.code); code != 0 {
			t.Errorf("exit code %d", code)
		}
		wantAll(t, clitest.Result{Out: s.shown.String()}, want)
	}
}

// Once the other machine is a peer, up goes on to its last step also if the line that it made cannot be revoked.
func TestUpGoesOnIfItsLineStays(t *testing.T) {
	d := newUpDaemon(t, "claude")
	d.connect(t, "claude")
	d.setOpen(client.OpenInvitation{ID: "1"})
	d.SetAnswer(client.MethodInvite, &client.Invitation{URI: "acp://first", ID: "1", Expires: time.Now().Add(time.Hour)})
	d.SetAnswer(client.MethodRevoke, kinds.Errorf(kinds.Internal, "the disk is full"))
	s := d.startUp(t)
	s.types("press Enter to make one: ", "\n")
	s.types("q leaves it", deskLine.String()+"\n")
	s.types("Trust it? Type yes or no: ", "y\n")
	s.types("Type yes, ask or no: ", "n\n")
	if code := await.Receive(t, "exit code", s.code); code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, clitest.Result{Out: s.shown.String()}, "acpctl up: the line that was shown here is still good (the disk is full): acpctl invite --revoke all ends it\n", "This machine is laptop.")
}
