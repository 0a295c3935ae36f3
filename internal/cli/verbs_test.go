package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"rsc.io/qr"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What peers write cannot drive a terminal, and what should stand on a line does.
func TestForeignTextIsTamed(t *testing.T) {
	const evil = "a\x1b[2Jb\x07c\u202ed\u009b2J\ne"
	f := newFake(t)
	payload := func(v any) wire.Payload { return kinds.Encode(v) }
	f.on(client.MethodQuery, &client.Answer{ID: someID, From: deskID, Kind: "response",
		Payload: payload(&kinds.Response{Summary: evil, Data: jsontext.Value("{\"k\":\"\\u001b[2J\u202e\"}")})})
	f.on(client.MethodDiscover, &client.Answer{ID: someID, From: deskID, Kind: "capabilities",
		Payload: payload(&kinds.Capabilities{AgentName: evil, Domains: []string{evil}, Tools: []string{evil}, Model: evil})})
	f.on(client.MethodPing, &client.Answer{ID: someID, From: deskID, Kind: "pong", Payload: payload(&kinds.Pong{Status: evil})})
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: deskID, State: client.PeerPending, Claim: evil, Addrs: []string{evil}}}})
	f.on(client.MethodTasks, &client.Tasks{Tasks: []client.Task{{ID: someID, Peer: "desk", Direction: client.Taken, Task: evil, State: client.TaskFailed, Outcome: evil}}})
	f.on(client.MethodWait, &client.Task{ID: someID, State: client.TaskFailed, Outcome: evil})
	f.on(client.MethodCancel, &client.CancelAnswer{Ref: someID, Payload: payload(&kinds.Ack{Message: evil})})
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: payload(&kinds.Ack{Message: evil})})
	f.on(client.MethodInbox, &client.Inbox{Messages: []client.HeldMessage{
		{Seq: 1, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "notify", Payload: payload(&kinds.Notify{Topic: "t", Data: jsontext.Value("\"\u202e\"")})}},
		{Seq: 2, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "result", Ref: &someID, Payload: payload(&kinds.Result{Status: "completed", Outcome: evil})}},
		{Seq: 3, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "error", Ref: &someID, Payload: payload(kinds.Errorf(kinds.Internal, "%s", evil))}},
		{Seq: 4, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "later", Payload: wire.Payload("{\"x\":\"\u202e\"}")}},
	}})
	f.on(client.MethodNotify, kinds.Errorf(kinds.Internal, "%s", evil))
	for _, args := range [][]string{
		{"query", "desk", "hi"}, {"discover", "desk"}, {"ping", "desk", "-c", "1"}, {"peers"}, {"tasks"}, {"wait", someID.String()},
		{"cancel", someID.String()}, {"delegate", "desk", "x"}, {"inbox"}, {"notify", "desk", "t", "x"}, {"trust", evil}, {"trust", deskID.String()[:8]},
	} {
		got := f.run(args...)
		if all := got.out + got.err; strings.ContainsAny(all, "\x1b\x07\u009b\u202e") || all == "" {
			t.Errorf("%v: %q", args, all)
		}
		if all := f.run(append(args, "--json")...).out; strings.ContainsAny(all, "\x1b\x07\u009b\u202e") || all == "" {
			t.Errorf("%v --json: %q", args, all)
		}
		if lines := strings.Count(got.out, "\n"); (args[0] == "peers" || args[0] == "tasks") && lines != 1 || args[0] == "inbox" && lines != 4 {
			t.Errorf("%v: %d lines: %q", args, lines, got.out)
		}
	}
}

// On a terminal there are heads, colours where they are wanted, and times for people.
func TestTerminal(t *testing.T) {
	f := newFake(t)
	rtt := uint64(1234)
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: deskID, Name: "desk", State: client.PeerConnected, Addrs: []string{"192.0.2.1:7117"}, RTTUS: &rtt, Source: client.SourceMDNS},
		{ID: me, State: client.PeerPending, Claim: "desk", NameConflict: true},
	}})
	f.want(f.run("peers"), 0, "desk\tde5c000000\tconnected\t1.234 ms\t-\tmdns\t192.0.2.1:7117\n"+
		"\"desk\" (a trusted peer's name!)\tacdc000000\tpending\t-\t-\t-\t\n", "")
	plainly := "NAME                             ID          STATE      RTT       SEEN  SOURCE  ADDRESSES\n" +
		"desk                             de5c000000  connected  1.234 ms  -     mdns    192.0.2.1:7117\n" +
		"\"desk\" (a trusted peer's name!)  acdc000000  pending    -         -     -\n"
	f.want(f.as(&app{outTTY: true}, "", "peers"), 0, plainly, "")
	got := f.typed("", "peers")
	if !strings.Contains(got.out, green+"connected"+plain) || !strings.Contains(got.out, yellow+"pending"+plain) {
		t.Errorf("no colours: %q", got.out)
	}
	for _, code := range []string{bold, green, yellow, plain} {
		got.out = strings.ReplaceAll(got.out, code, "")
	}
	if got.out != plainly {
		t.Errorf("with colours it is another text:\n%s", got.out)
	}
	f.on(client.MethodTasks, &client.Tasks{})
	f.want(f.typed("", "tasks"), 0, "", "none\n")
	f.want(f.run("tasks"), 0, "", "")

	f.on(client.MethodQuery, &client.Answer{ID: someID, From: deskID, Kind: "response", RTTUS: 12340,
		Payload: wire.Payload(`{"summary":"yes","data":{"n":1.50},"truncated":true}`)})
	f.want(f.run("query", "desk", "hi"), 0, "yes\n{\"n\":1.50}\n", "acpctl query: the answer is not whole, the agent has cut it: ask for less at a time\n")
	f.want(f.typed("", "query", "desk", "hi"), 0, "yes\n{\n\t\"n\": 1.50\n}\n", "acpctl query: the answer is not whole, the agent has cut it: ask for less at a time\n(12.34ms)\n")
	f.want(f.typed("", "query", "desk", "hi", "--json"), 0,
		`{"id":"`+someID.String()+`","from":"`+deskID.String()+`","kind":"response","rtt_us":12340,"payload":{"summary":"yes","data":{"n":1.50},"truncated":true}}`+"\n", "")
}

// NewApp is what main makes: in a test nothing of it is a terminal.
func TestColoursCanBeRefused(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !newApp().colours {
		t.Error("no colours by default")
	}
	t.Setenv("NO_COLOR", "1")
	if newApp().colours {
		t.Error("colours in spite of NO_COLOR")
	}
}

func TestInviteOnATerminal(t *testing.T) {
	f := newFake(t)
	inv := identity.Invitation{ID: deskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", PQ: identity.PQHash{1}, Token: [16]byte{1}}
	f.on(client.MethodInvite, &client.Invitation{URI: inv.String(), Expires: time.Now()})
	f.want(f.run("invite"), 0, inv.String()+"\n", "")
	got := f.typed("", "invite")
	if got.out != inv.String()+"\n" || !strings.Contains(got.err, "acpctl join") || !strings.Contains(got.err, "█") {
		t.Errorf("%+v", got)
	}
	if got := f.typed("", "invite", "--json"); strings.Contains(got.err, "█") {
		t.Error("a QR code beside JSON")
	}
}

// What is drawn is the code, module for module, within its quiet zone.
func TestQRCode(t *testing.T) {
	const text = "acp://desk.example"
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []bool{false, true} {
		drawn, columns, err := qrCode(text, colour)
		if err != nil {
			t.Fatal(err)
		}
		drawn = strings.NewReplacer("\x1b[97;40m", "", plain, "").Replace(drawn)
		size := code.Size + 2*quietZone
		if columns != size {
			t.Errorf("%d columns for %d modules", columns, size)
		}
		lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
		if len(lines) != (size+1)/2 {
			t.Fatalf("%d lines for %d modules", len(lines), size)
		}
		for y := range size {
			row := []rune(lines[y/2])
			if len(row) != size {
				t.Fatalf("line %d has %d characters for %d modules", y/2, len(row), size)
			}
			for x, r := range row {
				light := r == '█' || r == '▀' && y%2 == 0 || r == '▄' && y%2 == 1
				if light == code.Black(x-quietZone, y-quietZone) {
					t.Fatalf("module %d, %d is wrong", x-quietZone, y-quietZone)
				}
			}
		}
	}
}

func TestJoinAsksForTheLine(t *testing.T) {
	f := newFake(t)
	inv := identity.Invitation{ID: deskID, Token: [16]byte{1}}.String()
	f.does(client.MethodJoin, func(r *client.Request) (any, error) {
		var p client.JoinParams
		if err := r.Bind(&p); err != nil || p.URI != inv {
			return nil, fmt.Errorf("%v: %s", err, p.URI)
		}
		return &client.NamedPeer{ID: deskID, Name: "desk"}, nil
	})
	f.want(f.typed(inv+"\nmore", "join"), 0, "trusted desk (de5c 0000 0000 0000 0000 0000 0000 0000)\n", "Paste the invitation:\ntry acpctl ping desk\n")
	f.want(f.as(&app{}, inv, "join"), 0, "desk\n", "")
	f.want(f.run("join", inv, "--json"), 0, `{"id":"`+deskID.String()+`","name":"desk"}`+"\n", "")
	if got := f.as(&app{}, strings.Repeat("a", 5000), "join"); got.code != exitLocal {
		t.Errorf("a line without end: %+v", got)
	}
}

// A person's yes is for the key that was shown.
func TestTrustTakesTheKeyThatWasShown(t *testing.T) {
	f := newFake(t)
	first := client.Peer{ID: deskID, State: client.PeerPending, Claim: "desk", Addrs: []string{"192.0.2.1:7117"}}
	second := client.Peer{ID: me, State: client.PeerPending, Claim: "desk"}
	var got client.TrustParams
	f.does(client.MethodTrust, func(r *client.Request) (any, error) {
		got = client.TrustParams{}
		err := r.Bind(&got)
		return &client.NamedPeer{ID: deskID, Name: "desk"}, err
	})
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{first}})
	if r := f.typed("yes\n", "trust", "desk"); r.code != 0 || got.Peer != deskID.String() || !strings.Contains(r.err, deskID.Fingerprint()) || r.out != "trusted desk ("+deskID.Fingerprint()+")\n" {
		t.Errorf("%+v: trusted %+v", r, got)
	}
	for _, answer := range []string{"", "y\n", "Yes\n", "no\n", "yes please\n"} {
		got = client.TrustParams{}
		if r := f.typed(answer, "trust", deskID.String()[:6]); r.code != exitLocal || got.Peer != "" {
			t.Errorf("%q: %+v: trusted %+v", answer, r, got)
		}
	}
	if r := f.typed("yes\n", "trust", deskID.String()[:5]); r.code != kinds.UnknownPeer.Info().Exit {
		t.Errorf("five digits name somebody: %+v", r)
	}
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{first, second}})
	if r := f.typed("yes\n", "trust", "desk"); r.code != kinds.UnknownPeer.Info().Exit || !strings.Contains(r.err, deskID.String()) || !strings.Contains(r.err, me.String()) {
		t.Errorf("two of a name: %+v", r)
	}
	// Who is trusted under that name is meant, whatever a stranger calls itself.
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{second, {ID: deskID, Name: "desk", State: client.PeerTrusted}}})
	if r := f.run("trust", "desk", "--addr", "desk.example:7117", "--addr", "192.0.2.1:7117"); r.code != 0 || got.Peer != deskID.String() || len(got.Addrs) != 2 {
		t.Errorf("%+v: trusted %+v", r, got)
	}
}

// A name may be a blocked key's and a stranger's: then the stranger is meant, and
// nobody is led to take the block back. Several who claim a name are listed, not all.
func TestTrustOfANameThatOthersHave(t *testing.T) {
	f := newFake(t)
	blocked := client.Peer{ID: deskID, State: client.PeerBlocked, Name: "desk"}
	stranger := client.Peer{ID: me, State: client.PeerDiscovered, Claim: "desk", Addrs: []string{"192.0.2.2:7117"}, Source: client.SourceMDNS}
	var trusted string
	f.does(client.MethodTrust, func(r *client.Request) (any, error) {
		var p client.TrustParams
		err := r.Bind(&p)
		trusted = p.Peer
		return &client.NamedPeer{ID: me, Name: "desk"}, err
	})
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{stranger, blocked}})
	if got := f.as(&app{}, "yes\n", "trust", "desk"); got.code != 0 || trusted != me.String() || !strings.Contains(got.err, me.Fingerprint()) {
		t.Errorf("%+v, trusted %s", got, trusted)
	}
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{blocked}})
	if got := f.run("trust", "desk"); got.code != kinds.UnknownPeer.Info().Exit || !strings.Contains(got.err, "blocked") {
		t.Errorf("%+v", got)
	}
	var crowd []client.Peer
	for i := range 100 {
		stranger.ID[1] = byte(i)
		crowd = append(crowd, stranger)
	}
	f.on(client.MethodPeers, &client.Peers{Peers: crowd})
	if got := f.run("trust", "desk"); got.code != kinds.UnknownPeer.Info().Exit || strings.Count(got.err, "discovered 192.0.2.2:7117") != maxListed || !strings.Contains(got.err, "92 more") {
		t.Errorf("%+v", got)
	}
}

// A person hears whether the trust is mutual, and what to type over there.
func TestTrustSaysWhatIsNext(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodTrust, &client.NamedPeer{ID: deskID, Name: "desk"})
	f.on(client.MethodWhoami, &client.Whoami{ID: me, Name: "laptop"})
	for _, c := range []struct {
		pong any
		want string
	}{
		{&client.Answer{ID: someID, From: deskID, Kind: kinds.KindPong}, "try acpctl ping desk"},
		{kinds.Errorf(kinds.NotTrusted, "no"), "there: acpctl trust laptop"},
		{kinds.Errorf(kinds.Unreachable, "no answer"), "once it is reached"},
	} {
		f.on(client.MethodPing, c.pong)
		if got := f.typed("", "trust", deskID.String()); got.code != 0 || !strings.Contains(got.err, c.want) {
			t.Errorf("%+v, want %q", got, c.want)
		}
	}
	f.does(client.MethodPing, func(*client.Request) (any, error) { t.Error("a script waits for a ping"); return nil, nil })
	f.want(f.run("trust", deskID.String()), 0, "desk\n", "")
}

// peers says what to do next, to a person alone.
func TestPeersSaysWhatIsNext(t *testing.T) {
	f := newFake(t)
	stranger := client.Peer{ID: me, State: client.PeerDiscovered, Claim: "desk", Source: client.SourceMDNS, LastSeen: client.Time{Time: time.Now().Add(-90 * time.Second)}}
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{stranger}})
	if got := f.typed("", "peers"); !strings.Contains(got.err, "acpctl trust NAME") || !strings.Contains(got.out, "1m ago") {
		t.Errorf("%+v", got)
	}
	if got := f.run("peers"); got.err != "" || strings.Contains(got.out, "ago") {
		t.Errorf("%+v", got)
	}
	f.on(client.MethodPeers, &client.Peers{})
	f.want(f.typed("", "peers"), 0, "", "none\nstart acpd on another machine of this network, or connect one anywhere: acpctl invite\n")
}

// An id may be typed in upper case.
func TestUpperCase(t *testing.T) {
	f := newFake(t)
	f.does(client.MethodTrust, func(r *client.Request) (any, error) {
		var p client.TrustParams
		if err := r.Bind(&p); err != nil || p.Peer != deskID.String() {
			return nil, fmt.Errorf("%+v: %v", p, err)
		}
		return &client.NamedPeer{ID: deskID, Name: "desk"}, nil
	})
	f.want(f.run("trust", "--yes", strings.ToUpper(deskID.String())), 0, "desk\n", "")
}

// The inbox is read page by page.
func TestInboxPages(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodPeers, &client.Peers{})
	f.does(client.MethodInbox, func(r *client.Request) (any, error) {
		var p client.InboxParams
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		page := &client.Inbox{Messages: []client.HeldMessage{{Seq: p.After + 1, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "notify", Payload: wire.Payload(`{"topic":"t"}`)}}}}
		if p.After == 0 {
			page.Next = 1
		}
		return page, nil
	})
	var shown []uint64
	f.does(client.MethodShown, func(r *client.Request) (any, error) {
		var p client.ShownParams
		err := r.Bind(&p)
		shown = append(shown, p.Seqs...)
		return struct{}{}, err
	})
	row := "\t" + deskID.Label() + "\t-\tnotify\t-\tt \n"
	f.want(f.run("inbox"), 0, "1"+row, "acpctl inbox: there is more: acpctl inbox --after 1 shows it, acpctl inbox --ack 1 removes these\n")
	f.want(f.run("inbox", "--after", "1"), 0, "2"+row, "")
	if !slices.Equal(shown, []uint64{1, 2}) {
		t.Errorf("shown is said of %v", shown)
	}
	f.on(client.MethodShown, kinds.Errorf(kinds.DaemonUnavailable, "the daemon hung up"))
	f.want(f.run("inbox", "--after", "1"), 6, "2"+row, "acpctl inbox: the daemon hung up; --ack removes none of these before inbox has shown them again\n")
}

// A query is repeated only while it cannot have arrived.
func TestWaitForPeer(t *testing.T) {
	f := newFake(t)
	calls := 0
	answers := func(errs ...error) {
		calls = 0
		f.does(client.MethodQuery, func(*client.Request) (any, error) {
			if calls++; calls <= len(errs) {
				return nil, errs[calls-1]
			}
			return &client.Answer{ID: someID, From: deskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
		})
	}
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	answers(away, away)
	if got := f.run("query", "desk", "hi", "--wait-for-peer", "20s"); got.out != "here\n" || calls != 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	for _, end := range []error{
		kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown),
		kinds.Errorf(kinds.UnknownPeer, "who?"),
	} {
		answers(end)
		if got := f.run("query", "desk", "hi", "--wait-for-peer", "20s"); got.code != 5 || calls != 1 {
			t.Errorf("%+v after %d calls", got, calls)
		}
	}
	answers(away)
	if got := f.run("query", "desk", "hi"); got.code != 5 || calls != 1 {
		t.Errorf("%+v after %d calls", got, calls)
	}
}

// ACP_ID is the parent of what is sent, unless another one is named.
func TestParent(t *testing.T) {
	f := newFake(t)
	var p client.QueryParams
	f.does(client.MethodQuery, func(r *client.Request) (any, error) {
		p = client.QueryParams{}
		return &client.Answer{ID: someID, From: deskID, Kind: "response", Payload: wire.Payload(`{"summary":""}`)}, r.Bind(&p)
	})
	t.Setenv("ACP_ID", someID.String())
	f.run("query", "desk", "hi")
	if p.Parent != someID || p.ID.IsZero() || p.Thread != "" {
		t.Errorf("%+v", p)
	}
	other := wire.NewMessageID()
	f.run("query", "desk", "hi", "--parent", other.String())
	if p.Parent != other {
		t.Errorf("%+v", p)
	}
	t.Setenv("ACP_ID", "")
	f.run("query", "desk", "hi", "--thread", "t")
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
