package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What peers write cannot drive a terminal, and what should stand on a line does.
func TestForeignTextIsTamed(t *testing.T) {
	const evil = "a\x1b[2Jb\x07c\u202ed\u009b2J\ne"
	f := newDaemon(t)
	payload := func(v any) wire.Payload { return kinds.Encode(v) }
	f.Answer(client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response",
		Payload: payload(&kinds.Response{Summary: evil, Data: jsontext.Value("{\"k\":\"\\u001b[2J\u202e\"}")})})
	f.Answer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities",
		Payload: payload(&kinds.Capabilities{AgentName: evil, Domains: []string{evil}, Tools: []string{evil}, Model: evil})})
	f.Answer(client.MethodPing, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "pong", Payload: payload(&kinds.Pong{Status: evil})})
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, State: client.PeerPending, Claim: evil, Addrs: []string{evil}}}})
	f.Answer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, Task: evil, State: client.TaskFailed, Outcome: evil}}})
	f.Answer(client.MethodWait, &client.Task{ID: clitest.SomeID, State: client.TaskFailed, Outcome: evil})
	f.Answer(client.MethodCancel, &client.CancelAnswer{Ref: clitest.SomeID, Payload: payload(&kinds.Ack{Message: evil})})
	f.Answer(client.MethodDelegate, &client.Delegated{ID: clitest.SomeID, From: clitest.DeskID, Payload: payload(&kinds.Ack{Message: evil})})
	f.Answer(client.MethodInbox, &client.Inbox{Messages: []client.HeldMessage{
		{Seq: 1, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: payload(&kinds.Notify{Topic: "t", Data: jsontext.Value("\"\u202e\"")})}},
		{Seq: 2, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "result", Ref: &clitest.SomeID, Payload: payload(&kinds.Result{Status: "completed", Outcome: evil})}},
		{Seq: 3, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "error", Ref: &clitest.SomeID, Payload: payload(kinds.Errorf(kinds.Internal, "%s", evil))}},
		{Seq: 4, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "later", Payload: wire.Payload("{\"x\":\"\u202e\"}")}},
	}})
	f.Answer(client.MethodNotify, kinds.Errorf(kinds.Internal, "%s", evil))
	for _, args := range [][]string{
		{"query", "desk", "hi"}, {"discover", "desk"}, {"ping", "desk", "-c", "1"}, {"peers"}, {"tasks"}, {"wait", clitest.SomeID.String()},
		{"cancel", clitest.SomeID.String()}, {"delegate", "desk", "x"}, {"inbox"}, {"notify", "desk", "t", "x"}, {"trust", evil}, {"trust", clitest.DeskID.String()[:8]},
	} {
		got := f.Run(args...)
		if all := got.Out + got.Err; strings.ContainsAny(all, "\x1b\x07\u009b\u202e") || all == "" {
			t.Errorf("%v: %q", args, all)
		}
		if all := f.Run(append(args, "--json")...).Out; strings.ContainsAny(all, "\x1b\x07\u009b\u202e") || all == "" {
			t.Errorf("%v --json: %q", args, all)
		}
		if lines := strings.Count(got.Out, "\n"); (args[0] == "peers" || args[0] == "tasks") && lines != 1 || args[0] == "inbox" && lines != 4 {
			t.Errorf("%v: %d lines: %q", args, lines, got.Out)
		}
	}
}

// On a terminal there are heads, colours where they are wanted, and times for people.
func TestTerminal(t *testing.T) {
	f := newDaemon(t)
	rtt := uint64(1234)
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected, Addrs: []string{"192.0.2.1:7117"}, RTTUS: &rtt, Source: client.SourceMDNS},
		{ID: clitest.MyID, State: client.PeerPending, Claim: "desk", NameConflict: true},
	}})
	f.Want(f.Run("peers"), 0, "desk\tde5c000000\tconnected\t1.234 ms\t-\tmdns\t192.0.2.1:7117\n"+
		"\"desk\" (a trusted peer's name!)\tacdc000000\tpending\t-\t-\t-\t\n", "")
	plainly := "NAME                             ID          STATE      RTT       SEEN  SOURCE  ADDRESSES\n" +
		"desk                             de5c000000  connected  1.234 ms  -     mdns    192.0.2.1:7117\n" +
		"\"desk\" (a trusted peer's name!)  acdc000000  pending    -         -     -\n"
	f.Want(f.RunAt(ui.Terminal{OutTTY: true}, "", "peers"), 0, plainly, "")
	got := f.RunTyped("", "peers")
	if !strings.Contains(got.Out, ui.Green+"connected"+ui.Plain) || !strings.Contains(got.Out, ui.Yellow+"pending"+ui.Plain) {
		t.Errorf("no colours: %q", got.Out)
	}
	for _, code := range []string{ui.Bold, ui.Green, ui.Yellow, ui.Plain} {
		got.Out = strings.ReplaceAll(got.Out, code, "")
	}
	if got.Out != plainly {
		t.Errorf("with colours it is another text:\n%s", got.Out)
	}
	f.Answer(client.MethodTasks, &client.Tasks{})
	f.Want(f.RunTyped("", "tasks"), 0, "", "none\n")
	f.Want(f.Run("tasks"), 0, "", "")

	f.Answer(client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", RTTUS: 12340,
		Payload: wire.Payload(`{"summary":"yes","data":{"n":1.50},"truncated":true}`)})
	f.Want(f.Run("query", "desk", "hi"), 0, "yes\n{\"n\":1.50}\n", "acpctl query: the answer is not whole, the agent has cut it: ask for less at a time\n")
	f.Want(f.RunTyped("", "query", "desk", "hi"), 0, "yes\n{\n\t\"n\": 1.50\n}\n", "acpctl query: the answer is not whole, the agent has cut it: ask for less at a time\n(12.34ms)\n")
	f.Want(f.RunTyped("", "query", "desk", "hi", "--json"), 0,
		`{"id":"`+clitest.SomeID.String()+`","from":"`+clitest.DeskID.String()+`","kind":"response","rtt_us":12340,"payload":{"summary":"yes","data":{"n":1.50},"truncated":true}}`+"\n", "")
}

func TestInviteOnATerminal(t *testing.T) {
	f := newDaemon(t)
	inv := identity.Invitation{ID: clitest.DeskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", PQ: identity.PQHash{1}, Token: [16]byte{1}}
	f.Answer(client.MethodInvite, &client.Invitation{URI: inv.String(), Expires: time.Now()})
	f.Want(f.Run("invite"), 0, inv.String()+"\n", "")
	got := f.RunTyped("", "invite")
	if got.Out != inv.String()+"\n" || !strings.Contains(got.Err, "acpctl join") || !strings.Contains(got.Err, "█") {
		t.Errorf("%+v", got)
	}
	if got := f.RunTyped("", "invite", "--json"); strings.Contains(got.Err, "█") {
		t.Error("a QR code beside JSON")
	}
}

func TestJoinAsksForTheLine(t *testing.T) {
	f := newDaemon(t)
	inv := identity.Invitation{ID: clitest.DeskID, Token: [16]byte{1}}.String()
	f.Handle(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		var p client.JoinParams
		if err := r.Bind(&p); err != nil || p.URI != inv {
			return nil, fmt.Errorf("%v: %s", err, p.URI)
		}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	f.Want(f.RunTyped(inv+"\nmore", "join"), 0, "trusted desk (de5c 0000 0000 0000 0000 0000 0000 0000)\n", "Paste the invitation:\ntry acpctl ping desk\n")
	f.Want(f.RunAt(ui.Terminal{}, inv, "join"), 0, "desk\n", "")
	f.Want(f.Run("join", inv, "--json"), 0, `{"id":"`+clitest.DeskID.String()+`","name":"desk"}`+"\n", "")
	if got := f.RunAt(ui.Terminal{}, strings.Repeat("a", 5000), "join"); got.Code != frame.ExitLocal {
		t.Errorf("a line without end: %+v", got)
	}
}

// A person's yes is for the key that was shown.
func TestTrustTakesTheKeyThatWasShown(t *testing.T) {
	f := newDaemon(t)
	first := client.Peer{ID: clitest.DeskID, State: client.PeerPending, Claim: "desk", Addrs: []string{"192.0.2.1:7117"}}
	second := client.Peer{ID: clitest.MyID, State: client.PeerPending, Claim: "desk"}
	var got client.TrustParams
	f.Handle(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		got = client.TrustParams{}
		err := r.Bind(&got)
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, err
	})
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{first}})
	if r := f.RunTyped("yes\n", "trust", "desk"); r.Code != 0 || got.Peer != clitest.DeskID.String() || !strings.Contains(r.Err, clitest.DeskID.Fingerprint()) || r.Out != "trusted desk ("+clitest.DeskID.Fingerprint()+")\n" {
		t.Errorf("%+v: trusted %+v", r, got)
	}
	for _, answer := range []string{"", "y\n", "Yes\n", "no\n", "yes please\n"} {
		got = client.TrustParams{}
		if r := f.RunTyped(answer, "trust", clitest.DeskID.String()[:6]); r.Code != frame.ExitLocal || got.Peer != "" {
			t.Errorf("%q: %+v: trusted %+v", answer, r, got)
		}
	}
	if r := f.RunTyped("yes\n", "trust", clitest.DeskID.String()[:5]); r.Code != kinds.UnknownPeer.Info().Exit {
		t.Errorf("five digits name somebody: %+v", r)
	}
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{first, second}})
	if r := f.RunTyped("yes\n", "trust", "desk"); r.Code != kinds.UnknownPeer.Info().Exit || !strings.Contains(r.Err, clitest.DeskID.String()) || !strings.Contains(r.Err, clitest.MyID.String()) {
		t.Errorf("two of a name: %+v", r)
	}
	// Who is trusted under that name is meant, whatever a stranger calls itself.
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{second, {ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted}}})
	if r := f.Run("trust", "desk", "--addr", "desk.example:7117", "--addr", "192.0.2.1:7117"); r.Code != 0 || got.Peer != clitest.DeskID.String() || len(got.Addrs) != 2 {
		t.Errorf("%+v: trusted %+v", r, got)
	}
}

// A name may be a blocked key's and a stranger's: then the stranger is meant, and
// nobody is led to take the block back. Several who claim a name are listed, not all.
func TestTrustOfANameThatOthersHave(t *testing.T) {
	f := newDaemon(t)
	blocked := client.Peer{ID: clitest.DeskID, State: client.PeerBlocked, Name: "desk"}
	stranger := client.Peer{ID: clitest.MyID, State: client.PeerDiscovered, Claim: "desk", Addrs: []string{"192.0.2.2:7117"}, Source: client.SourceMDNS}
	var trusted string
	f.Handle(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		var p client.TrustParams
		err := r.Bind(&p)
		trusted = p.Peer
		return &client.NamedPeer{ID: clitest.MyID, Name: "desk"}, err
	})
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{stranger, blocked}})
	if got := f.RunAt(ui.Terminal{}, "yes\n", "trust", "desk"); got.Code != 0 || trusted != clitest.MyID.String() || !strings.Contains(got.Err, clitest.MyID.Fingerprint()) {
		t.Errorf("%+v, trusted %s", got, trusted)
	}
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{blocked}})
	if got := f.Run("trust", "desk"); got.Code != kinds.UnknownPeer.Info().Exit || !strings.Contains(got.Err, "blocked") {
		t.Errorf("%+v", got)
	}
	var crowd []client.Peer
	for i := range 100 {
		stranger.ID[1] = byte(i)
		crowd = append(crowd, stranger)
	}
	f.Answer(client.MethodPeers, &client.Peers{Peers: crowd})
	if got := f.Run("trust", "desk"); got.Code != kinds.UnknownPeer.Info().Exit || strings.Count(got.Err, "discovered 192.0.2.2:7117") != maxListed || !strings.Contains(got.Err, "92 more") {
		t.Errorf("%+v", got)
	}
}

// A person hears whether the trust is mutual, and what to type over there.
func TestTrustSaysWhatIsNext(t *testing.T) {
	f := newDaemon(t)
	f.Answer(client.MethodTrust, &client.NamedPeer{ID: clitest.DeskID, Name: "desk"})
	f.Answer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID, Name: "laptop"})
	for _, c := range []struct {
		pong any
		want string
	}{
		{&client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindPong}, "try acpctl ping desk"},
		{kinds.Errorf(kinds.NotTrusted, "no"), "there: acpctl trust laptop"},
		{kinds.Errorf(kinds.Unreachable, "no answer"), "once it is reached"},
	} {
		f.Answer(client.MethodPing, c.pong)
		if got := f.RunTyped("", "trust", clitest.DeskID.String()); got.Code != 0 || !strings.Contains(got.Err, c.want) {
			t.Errorf("%+v, want %q", got, c.want)
		}
	}
	f.Handle(client.MethodPing, func(*jsonrpc.Request) (any, error) { t.Error("a script waits for a ping"); return nil, nil })
	f.Want(f.Run("trust", clitest.DeskID.String()), 0, "desk\n", "")
}

// peers says what to do next, to a person alone.
func TestPeersSaysWhatIsNext(t *testing.T) {
	f := newDaemon(t)
	stranger := client.Peer{ID: clitest.MyID, State: client.PeerDiscovered, Claim: "desk", Source: client.SourceMDNS, LastSeen: client.Time{Time: time.Now().Add(-90 * time.Second)}}
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{stranger}})
	if got := f.RunTyped("", "peers"); !strings.Contains(got.Err, "acpctl trust NAME") || !strings.Contains(got.Out, "1m ago") {
		t.Errorf("%+v", got)
	}
	if got := f.Run("peers"); got.Err != "" || strings.Contains(got.Out, "ago") {
		t.Errorf("%+v", got)
	}
	f.Answer(client.MethodPeers, &client.Peers{})
	f.Want(f.RunTyped("", "peers"), 0, "", "none\nstart acpd on another machine of this network, or connect one anywhere: acpctl invite\n")
}

// An id may be typed in upper case.
func TestUpperCase(t *testing.T) {
	f := newDaemon(t)
	f.Handle(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		var p client.TrustParams
		if err := r.Bind(&p); err != nil || p.Peer != clitest.DeskID.String() {
			return nil, fmt.Errorf("%+v: %v", p, err)
		}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	f.Want(f.Run("trust", "--yes", strings.ToUpper(clitest.DeskID.String())), 0, "desk\n", "")
}

// The inbox is read page by page.
func TestInboxPages(t *testing.T) {
	f := newDaemon(t)
	f.Answer(client.MethodPeers, &client.Peers{})
	f.Handle(client.MethodInbox, func(r *jsonrpc.Request) (any, error) {
		var p client.InboxParams
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		page := &client.Inbox{Messages: []client.HeldMessage{{Seq: p.After + 1, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: wire.Payload(`{"topic":"t"}`)}}}}
		if p.After == 0 {
			page.Next = 1
		}
		return page, nil
	})
	var shown []uint64
	f.Handle(client.MethodShown, func(r *jsonrpc.Request) (any, error) {
		var p client.ShownParams
		err := r.Bind(&p)
		shown = append(shown, p.Seqs...)
		return struct{}{}, err
	})
	row := "\t" + clitest.DeskID.Label() + "\t-\tnotify\t-\tt \n"
	f.Want(f.Run("inbox"), 0, "1"+row, "acpctl inbox: there is more: acpctl inbox --after 1 shows it, acpctl inbox --ack 1 removes these\n")
	f.Want(f.Run("inbox", "--after", "1"), 0, "2"+row, "")
	if !slices.Equal(shown, []uint64{1, 2}) {
		t.Errorf("shown is said of %v", shown)
	}
	f.Answer(client.MethodShown, kinds.Errorf(kinds.DaemonUnavailable, "the daemon hung up"))
	f.Want(f.Run("inbox", "--after", "1"), 6, "2"+row, "acpctl inbox: the daemon hung up; --ack removes none of these before inbox has shown them again\n")
}

// A query is repeated only while it cannot have arrived.
func TestWaitForPeer(t *testing.T) {
	f := newDaemon(t)
	calls := 0
	answers := func(errs ...error) {
		calls = 0
		f.Handle(client.MethodQuery, func(*jsonrpc.Request) (any, error) {
			if calls++; calls <= len(errs) {
				return nil, errs[calls-1]
			}
			return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
		})
	}
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	answers(away, away)
	if got := f.Run("query", "desk", "hi", "--wait-for-peer", "20s"); got.Out != "here\n" || calls != 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	for _, end := range []error{
		kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown),
		kinds.Errorf(kinds.UnknownPeer, "who?"),
	} {
		answers(end)
		if got := f.Run("query", "desk", "hi", "--wait-for-peer", "20s"); got.Code != 5 || calls != 1 {
			t.Errorf("%+v after %d calls", got, calls)
		}
	}
	answers(away)
	if got := f.Run("query", "desk", "hi"); got.Code != 5 || calls != 1 {
		t.Errorf("%+v after %d calls", got, calls)
	}
}

// ACP_ID is the parent of what is sent, unless another one is named.
func TestParent(t *testing.T) {
	f := newDaemon(t)
	var p client.QueryParams
	f.Handle(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		p = client.QueryParams{}
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":""}`)}, r.Bind(&p)
	})
	t.Setenv("ACP_ID", clitest.SomeID.String())
	f.Run("query", "desk", "hi")
	if p.Parent != clitest.SomeID || p.ID.IsZero() || p.Thread != "" {
		t.Errorf("%+v", p)
	}
	other := wire.NewMessageID()
	f.Run("query", "desk", "hi", "--parent", other.String())
	if p.Parent != other {
		t.Errorf("%+v", p)
	}
	t.Setenv("ACP_ID", "")
	f.Run("query", "desk", "hi", "--thread", "t")
	if !p.Parent.IsZero() || p.Thread != "t" {
		t.Errorf("%+v", p)
	}
}

func TestSummarize(t *testing.T) {
	hundred := make([]uint64, 200)
	for i := range hundred {
		hundred[i] = uint64(200 - i)
	}
	for _, c := range []struct {
		rtts []uint64
		want pingSummary
	}{
		{nil, pingSummary{Sent: 3}},
		{[]uint64{7}, pingSummary{3, 1, 7, 7, 7, 7}},
		{[]uint64{9, 1}, pingSummary{3, 2, 1, 5, 9, 9}},
		{hundred, pingSummary{3, 200, 1, 100, 200, 198}},
	} {
		if got := summarize(3, c.rtts); got != c.want {
			t.Errorf("%d pings: %+v, want %+v", len(c.rtts), got, c.want)
		}
	}
}
