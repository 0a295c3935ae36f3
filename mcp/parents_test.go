package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// hopCounter counts hops as a daemon does, of the notices that a session sends.
type hopCounter struct {
	mu      sync.Mutex
	known   map[wire.MessageID]uint64 // of messages that came
	parents []wire.MessageID          // of the notices that were sent
	deliver func(id wire.MessageID, hops uint64)
}

func (d *fakeDaemon) countHops() *hopCounter {
	c := &hopCounter{known: make(map[wire.MessageID]uint64), deliver: func(wire.MessageID, uint64) {}}
	send := func(n *client.NotifyParams) (*client.Receipt, error) {
		var hops uint64
		if !n.Parent.IsZero() {
			parent, ok := c.known[n.Parent]
			if !ok {
				return nil, kinds.Errorf(kinds.NotFound, "parent: %s is not known", n.Parent)
			}
			if hops = parent + 1; hops > wire.MaxHops {
				return nil, kinds.Errorf(kinds.LoopDetected, "notify: hops: message number %d", hops)
			}
		}
		c.parents = append(c.parents, n.Parent)
		id := wire.NewMessageID()
		c.deliver(id, hops)
		return &client.Receipt{To: n.To.Names[0], ID: id, State: client.Held}, nil
	}
	serve(d, client.MethodNotify, func(n client.NotifyParams) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return send(&n)
	})
	return c
}

// come lets a message lie in the inbox, beside others.
func (c *hopCounter) come(m client.HeldMessage, hops uint64) client.HeldMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[m.Envelope.ID] = hops
	return m
}

// last returns the parent of the notice that was sent last.
func (c *hopCounter) last() wire.MessageID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parents[len(c.parents)-1]
}

// Three sessions that tell each other something for ever, in a ring and without saying what it
// follows from, end at the bound of hops.
// holds: security.md#agents-on-this-machine
func TestARingOfThreeSessionsEnds(t *testing.T) {
	var peers client.Peers
	for i := range 3 {
		peers.Peers = append(peers.Peers, client.Peer{ID: identity.ID{0xa0, byte(i)}, Name: fmt.Sprintf("host-%d", i), State: client.PeerConnected, Addrs: []string{}})
	}
	var ring [3]*program
	var counters [3]*hopCounter
	for i := range ring {
		d := newFakeDaemon(t)
		d.answer(client.MethodPeers, &peers)
		counters[i] = d.countHops()
		ring[i], _ = attachedProgram(t, d, &Server{})
	}
	for i := range ring {
		next := (i + 1) % 3
		counters[i].deliver = func(id wire.MessageID, hops uint64) {
			m := heldNotice(1, "And now?")
			m.Envelope.ID, m.Envelope.From = id, peers.Peers[i].ID
			ring[next].daemon.inboxOf(counters[next].come(m, hops))
		}
	}
	for n := 0; ; n++ {
		r := ring[n%3].call("acp_notify", args{"to": fmt.Sprintf("host-%d", (n+1)%3), "topic": "ping"})
		if r.Error != nil && r.Error.Code == kinds.LoopDetected {
			if n != wire.MaxHops+1 {
				t.Errorf("it ends after %d notices, want %d", n, wire.MaxHops+1)
			}
			return
		}
		if r.State != "held" || n > wire.MaxHops+1 {
			t.Fatalf("notice %d: %s", n, r.said)
		}
		ring[(n+1)%3].must("shown", "acp_inbox", nil)
	}
}

// A notice at the bound of hops costs a session one call. The error says from what the call was
// taken to follow and what to do, and that helps: also if the notice is shown again, and until
// another message is shown.
// holds: security.md#agents-on-this-machine
func TestANoticeAtTheBoundOfHopsCostsOneCall(t *testing.T) {
	for name, several := range map[string]bool{"to one peer": false, "to several": true} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDaemon(t)
			d.addShelf()
			c := d.countHops()
			p, _ := attachedProgram(t, d, &Server{})
			own := c.come(heldNotice(1, "Tell shelf."), 0)
			hostile := client.HeldMessage{Seq: 2, Envelope: copyFrom(wire.NewMessageID(), kinds.KindNotify, &kinds.Notify{Topic: "x"}).Envelope}
			c.come(hostile, wire.MaxHops)
			notice := args{"to": "desk", "topic": "x"}
			if several {
				notice["to"] = []string{"desk", "shelf"}
			}
			about := func(what string) args { return args{"to": notice["to"], "topic": "x", "about": what} }
			send := func(arguments args) *shownResult {
				t.Helper()
				r := p.call("acp_notify", arguments)
				if r.Error != nil {
					t.Errorf("%v: %s", arguments, r.said)
				}
				return r
			}
			d.inboxOf(own)
			p.must("shown", "acp_inbox", nil)
			d.inboxOf(own, hostile)
			p.must("shown", "acp_inbox", nil)
			r := p.fails(kinds.LoopDetected, "acp_notify", notice)
			if !strings.Contains(r.said, hostile.Envelope.ID.String()+" of shelf") || !strings.Contains(r.Error.Remedy, `about "user"`) {
				t.Errorf("%s", r.said)
			}
			p.fails(kinds.LoopDetected, "acp_notify", notice) // who only tries again goes on in a loop
			send(about(own.Envelope.ID.String()))
			send(notice)
			if c.last() != own.Envelope.ID {
				t.Errorf("parent %s, want what was named", c.last())
			}
			d.inboxOf(own, hostile, c.come(heldNotice(3, "new"), wire.MaxHops))
			p.must("shown", "acp_inbox", nil)
			p.fails(kinds.LoopDetected, "acp_notify", notice)
			send(about("user"))
			p.must("shown", "acp_inbox", nil)
			send(notice)
			if !c.last().IsZero() {
				t.Errorf("parent %s, want none", c.last())
			}
			fresh := c.come(heldNotice(4, "newer"), 3)
			d.inboxOf(fresh)
			p.must("shown", "acp_inbox", nil)
			send(notice)
			if c.last() != fresh.Envelope.ID {
				t.Errorf("parent %s, want what was shown since", c.last())
			}
		})
	}
}

// A share that is used up by a guess is explained as well, and what a peer or another bound says is not.
func TestRefusalsThatNoGuessHasCaused(t *testing.T) {
	d, p := newProgram(t)
	shown := messageKey{desk, wire.NewMessageID()}
	p.server.seen.show(shown)
	for _, c := range []struct {
		err       *kinds.Error
		explained bool
	}{
		{kinds.Errorf(kinds.LoopDetected, "hops"), true},
		{kinds.Errorf(kinds.Overloaded, "its share is used up").WithReason(kinds.ReasonShareUsed), true},
		{&kinds.Error{Code: kinds.Overloaded, From: desk.String(), Details: jsontext.Value(`{"reason":"share_used"}`)}, false},
		{kinds.Errorf(kinds.Overloaded, "busy"), false},
		{&kinds.Error{Code: kinds.LoopDetected, Message: "hops", From: desk.String()}, false},
	} {
		d.answer(client.MethodQuery, c.err)
		if r := p.fails(c.err.Code, "acp_query", args{"to": "desk", "question": "?"}); strings.Contains(r.said, shown.id.String()) != c.explained {
			t.Errorf("%v: %s", c.err, r.said)
		}
		if r := p.fails(c.err.Code, "acp_query", args{"to": "desk", "question": "?", "about": shown.id.String()}); strings.Contains(r.said, "not given") {
			t.Errorf("%v, named: %s", c.err, r.said)
		}
	}
}

// Where nobody sits, no call is the user's.
func TestARunHasNoUser(t *testing.T) {
	d := newFakeDaemon(t)
	p := startProgram(t, d, &Server{Parent: wire.NewMessageID()})
	d.answerQueries(func(context.Context, *client.QueryParams, string) (string, error) { return "", nil })
	p.fails(kinds.Invalid, "acp_query", args{"to": "desk", "question": "?", "about": "user"})
	p.must("answered", "acp_query", args{"to": "desk", "question": "?"})
}

// A call that is not sent, as its arguments are refused, changes nothing in what later ones follow from.
func TestACallThatIsNotSentChangesNoParent(t *testing.T) {
	d, p := newProgram(t)
	d.answerQueries(func(context.Context, *client.QueryParams, string) (string, error) { return "", nil })
	older, newer := messageKey{desk, wire.NewMessageID()}, messageKey{desk, wire.NewMessageID()}
	p.server.seen.show(older)
	p.server.seen.show(newer)
	for _, c := range []struct {
		about string
		sent  messageKey // what calls follow from when it was sent
	}{{older.id.String(), older}, {"user", messageKey{}}} {
		before := p.server.seen.newest()
		p.fails(kinds.Invalid, "acp_query", args{"to": "desk", "question": "", "about": c.about})
		p.fails(kinds.Invalid, "acp_delegate", args{"to": "desk", "task": "", "about": c.about})
		p.fails(kinds.Invalid, "acp_notify", args{"to": "desk", "topic": "", "about": c.about})
		if got := p.server.seen.newest(); got != before {
			t.Errorf("about %s, not sent: calls follow from %v, want %v", c.about, got, before)
		}
		p.must("answered", "acp_query", args{"to": "desk", "question": "?", "about": c.about})
		if got := p.server.seen.newest(); got != c.sent {
			t.Errorf("about %s, sent: calls follow from %v, want %v", c.about, got, c.sent)
		}
	}
}

// Of what is shown together, calls follow from what the session was woken for: its peer pays for the
// turn. Then from what is open.
func TestCallsFollowFromWhatWokeTheSession(t *testing.T) {
	d := newFakeDaemon(t)
	d.addShelf()
	session := newFakeSession()
	s := &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return session, nil }}
	p, agent := attachedProgram(t, d, s)
	before, woke, after := heldNotice(1, "the longest one"), heldNotice(2, "two"), heldNotice(3, "three")
	d.inboxOf(before, woke, after)
	in := &client.Inbound{Envelope: woke.Envelope, Name: "desk", Wake: &client.WakeGrant{}}
	if err := agent.conn.Call(await.NewContext(t), client.MethodWake, in, nil); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "a post", session.posts)
	open, _ := openQuery(t, agent, "?", 0)
	p.awaitOpen(1)
	p.must("shown", "acp_inbox", nil)
	order := p.server.seen.last.keysOf(func(messageKey, sight) bool { return true })
	want := []messageKey{keyOf(&before.Envelope), keyOf(&after.Envelope), keyOf(&open.Envelope), keyOf(&woke.Envelope)}
	if !slices.Equal(order, want) || p.server.seen.newest() != want[3] {
		t.Errorf("shown in the order %v, want %v", order, want)
	}
}

// Calls do not follow from a message for which the session was not woken after all: the daemon has
// given that turn back to its peer.
func TestCallsFollowFromNoWakeThatWasRefused(t *testing.T) {
	d, p, agent, f := newWokenSession(t)
	woke, refused := heldNotice(1, "one"), heldNotice(2, "two")
	wake := func(m client.HeldMessage) bool {
		t.Helper()
		return await.Receive(t, "the answer", wakeSoon(t, agent, &client.Inbound{Envelope: m.Envelope, Name: "desk"})).Posted
	}
	if !wake(woke) {
		t.Fatal("not posted")
	}
	f.set(false, &harness.Error{Harness: "claude", Err: harness.ErrUnattended})
	if wake(refused) || wake(woke) {
		t.Fatal("posted")
	}
	d.inboxOf(woke, refused)
	p.must("shown", "acp_inbox", nil)
	if got := p.server.seen.newest(); got != keyOf(&woke.Envelope) {
		t.Errorf("calls follow from %v, want what woke the session", got)
	}
}

// A message of which the session has read a part before it is woken for it is newest when it is shown
// again, and once: a message that comes later is newer.
func TestCallsFollowFromAWakeForWhatWasReadInPart(t *testing.T) {
	d, p, agent, _ := newWokenSession(t)
	woke, later := heldNotice(1, strings.Repeat("long ", 5000)), heldNotice(2, "two")
	newest := func(want client.HeldMessage, shows ...client.HeldMessage) {
		t.Helper()
		d.inboxOf(shows...)
		p.must("shown", "acp_inbox", nil)
		if got := p.server.seen.newest(); got != keyOf(&want.Envelope) {
			t.Errorf("calls follow from %v, want %v", got, keyOf(&want.Envelope))
		}
	}
	newest(woke, woke)
	newest(later, later)
	newest(later, woke)
	if !await.Receive(t, "the answer", wakeSoon(t, agent, &client.Inbound{Envelope: woke.Envelope, Name: "desk"})).Posted {
		t.Fatal("not posted")
	}
	newest(woke, woke)
	last := heldNotice(3, "three")
	newest(last, last)
	newest(last, woke)
}
