package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// dropsFrom has the relay lose what one node sends, as a daemon does that takes nothing from strangers.
func (r *relayNet) dropsFrom(id identity.ID) {
	r.set(func() {
		r.mangle = func(p *relayPacket) []time.Duration {
			if p.from == id {
				return nil
			}
			return []time.Duration{0}
		}
	})
}

// says expects an error with this code and all of these words.
func says(t testing.TB, err error, want kinds.Code, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != want {
		t.Errorf("%v, want the code %s", err, want)
		return
	}
	for _, word := range words {
		if !strings.Contains(e.Message, word) {
			t.Errorf("%q is not in %q", word, e.Message)
		}
	}
}

// TestRefusalOverARelayIsRecalled: a peer that has refused is silent on a relay from then on. A call says
// what it said, and the background tries on.
func TestRefusalOverARelayIsRecalled(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("hub")
		a, b := w.relayed(r, nil)
		a.ask(b, "?")
		b.untrusts(a)
		time.Sleep(time.Second)
		r.dropsFrom(a.ID())
		for range 2 {
			says(t, a.tryAsk(b, "?"), kinds.NotTrusted, "reviewer does not trust this daemon; ask its owner to run acpctl trust "+a.ID().String()+" there")
			time.Sleep(2 * shareVerdict)
		}
		if n := a.saw(EventRefused); n != 1 {
			t.Errorf("%d events refused, want 1", n)
		}

		// What only the network says is not held against the peer.
		r.set(func() { r.mangle = nil })
		r.cut(b.ID())
		says(t, a.tryAsk(b, "?"), kinds.Unreachable, "nobody takes its packets at relay:hub; start its daemon, and see with acpctl relay list there how it stands to the relay")
	})
}

// TestSilenceNamesEveryLeg: who hears nothing at all is told where it listened, and what that may mean.
func TestSilenceNamesEveryLeg(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("hub")
		a, b := w.side(r.joined(nil)), w.side(r.joined(nil))
		a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer", Addrs: []string{nowhere}})
		w.serve(a, b)
		time.Sleep(time.Second)
		r.dropsFrom(a.ID())
		says(t, a.tryAsk(b, "?"), kinds.Unreachable, "no answer from "+nowhere+" or relay:hub; either its daemon is off, or it does not trust this one: start it, or have its owner run acpctl trust there")
		_, err := a.Join(t.Context(), identity.Invitation{ID: b.ID(), Addrs: []string{nowhere}, Token: [16]byte{1}})
		says(t, err, kinds.Unreachable, "join: ", "no answer from "+nowhere+" or relay:hub; ", "ask for a new one")

		// Where the packets come through, the answer outweighs the silence elsewhere, though it comes later.
		r.set(func() { r.mangle = nil })
		_, err = a.Join(t.Context(), identity.Invitation{ID: b.ID(), Addrs: []string{nowhere}, Token: [16]byte{1}})
		says(t, err, kinds.NotAuthorized, "join: no invitation is open at relay:hub; ", "ask for a new one")
	})
}

// troubledLink is a link that knows that it carries nothing.
type troubledLink struct{ *relayLink }

func (l troubledLink) Trouble() (what, remedy string) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if !l.net.out {
		return "", ""
	}
	return "is down", "acpctl relay test hub says why"
}

// TestTroubleUnderACallIsTold: a call that ends because nothing comes any more is told of the relay that is down.
func TestTroubleUnderACallIsTold(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("hub")
		join := func(c *Config) {
			slowly(c)
			c.Links = append(c.Links, troubledLink{r.link(c.Key.ID())})
		}
		a, b := w.side(join), w.side(join)
		a.knows(b.cfg.Key, "reviewer")
		b.knows(a.cfg.Key, "planner")
		w.serve(a, b)
		time.Sleep(time.Second)
		a.ask(b, "before")
		call := a.start(b, lasting(time.Minute))
		time.Sleep(time.Second)
		r.set(func() { r.out = true })
		says(t, (<-call).err, kinds.Unreachable, "it stopped answering; and relay:hub is down: acpctl relay test hub says why; repeat with the same id when it is back")
	})
}

// TestTroubleOfALinkIsTold: whatever else a call hears, it is told of a relay that is down, also if
// dials of the background are under way.
func TestTroubleOfALinkIsTold(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("hub")
		r.out = true
		a := w.side(func(c *Config) { c.Links = append(c.Links, troubledLink{r.link(c.Key.ID())}) })
		w.serve(a)
		key := newKey(t)
		a.knows(key, "reviewer")
		call := func() error {
			_, _, err := a.Exchange(t.Context(), key.ID(), query("?"))
			return err
		}
		says(t, call(), kinds.Unreachable, "reviewer: relay:hub is down; acpctl relay test hub says why")
		a.Connect(key.ID())
		for range 40 {
			time.Sleep(700 * time.Millisecond)
			says(t, call(), kinds.Unreachable, "relay:hub is down; acpctl relay test hub says why")
		}
		a.trust.Trust(identity.Peer{ID: key.ID(), Name: "reviewer", Addrs: []string{nowhere}})
		time.Sleep(time.Minute) // a dial without that address may be under way
		says(t, call(), kinds.Unreachable, "no answer from "+nowhere+", and relay:hub is down; acpctl relay test hub says why")
	})
}

func TestVerdictThatSaysMostWins(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("hub")
		a := w.side(r.joined(nil))
		w.serve(a)
		id := newKey(t).ID()
		udp := leg{on: a.udp, text: nowhere}
		hub := leg{on: a.links.snapshot()[0], text: "relay:hub"}
		pipe := leg{on: &endpoint{node: a.Node, path: ViaPipe, link: new(pipeEnd)}, text: "pipe:build"}
		closedWith := func(code quic.ApplicationErrorCode, remote bool) error {
			return &quic.ApplicationError{ErrorCode: code, Remote: remote}
		}
		legs := map[string]error{
			"silence": context.DeadlineExceeded, "no route": errNoRoute, "refused": errRefused, "reset": &quic.StatelessResetError{},
			"command": errCommandEnded, "clone": closedWith(closeIdentityConflict, false), "overloaded": closedWith(closeOverloaded, true), "not trusted": closedWith(closeNotTrusted, true),
		}
		for _, c := range []struct {
			udp, other string
			want       kinds.Code
			words      []string
		}{
			{"silence", "refused", kinds.Unreachable, []string{"nobody takes its packets at relay:hub"}},
			{"silence", "not trusted", kinds.NotTrusted, []string{"acpctl trust"}},
			{"refused", "not trusted", kinds.NotTrusted, []string{"acpctl trust"}},
			{"refused", "silence", kinds.Unreachable, []string{"nothing listens at " + nowhere}},
			{"no route", "silence", kinds.Unreachable, []string{"no answer from relay:hub, and this machine has no route to " + nowhere + "; ", "check its network"}},
			{"silence", "overloaded", kinds.Overloaded, nil},
			{"silence", "reset", kinds.Unreachable, []string{"two daemons there use one key", "stop one"}},
			{"silence", "clone", kinds.IdentityConflict, []string{"two processes there use one key", "stop the wrong one"}},
			{"refused", "command", kinds.Unreachable, []string{errCommandEnded.Error()}},
			{"silence", "command", kinds.Unreachable, []string{errCommandEnded.Error()}},
			{"clone", "command", kinds.IdentityConflict, []string{"stop the wrong one"}},
		} {
			other := hub
			if c.other == "command" {
				other = pipe
			}
			for _, first := range []string{"udp", "other"} {
				both := []route{
					{"udp", Direct, 0, func(context.Context) ([]leg, error) { return []leg{udp}, nil }},
					{"other", other.on.path, 0, func(context.Context) ([]leg, error) { return []leg{other}, nil }},
				}
				fail := a.race(t.Context(), id, both, func(_ context.Context, l leg) *dialFailure {
					name, said := "udp", c.udp
					if l.text == other.text {
						name, said = "other", c.other
					}
					if name != first {
						time.Sleep(time.Second)
					}
					return l.toDialFailure(id, legs[said])
				})
				says(t, fail.Error, c.want, c.words...)
			}
		}
	})
}

// Many addresses are not all listed, and the link is.
func TestManySilentAddresses(t *testing.T) {
	var u silence
	for i := range 8 {
		addr := fmt.Sprintf("192.0.2.%d:7117", i)
		u.add(silence{silent: []string{addr, addr}})
	}
	u.add(silence{silent: []string{"relay:hub"}})
	text := u.describe(false)
	if !strings.HasPrefix(text, "no answer from 192.0.2.0:7117, 192.0.2.1:7117, 192.0.2.2:7117, 5 others or relay:hub; ") || len(u.silent) != 9 || !slices.Contains(u.silent, "relay:hub") {
		t.Error(text)
	}
}

// A host that has said that nothing listens there may say it too seldom for each dial to hear it. Its last word counts for a
// while, unless the peer was heard since.
func TestRefusalOfAHostIsRecalled(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var found atomic.Int32
		a := w.side(nil)
		key := newKey(t)
		a.trust.Trust(identity.Peer{ID: key.ID(), Name: "reviewer", Addrs: []string{nowhere}})
		a.udp.prober = hostProber(func(context.Context, net.Addr) probeResult { return probeResult(found.Load()) })
		w.serve(a)
		call := func() error {
			time.Sleep(shareVerdict)
			_, _, err := a.Exchange(t.Context(), key.ID(), query("?"))
			return err
		}
		const refuses = "nothing listens at " + nowhere + "; start its daemon"
		says(t, call(), kinds.Unreachable, "no answer from "+nowhere)
		found.Store(int32(probeRefused))
		says(t, call(), kinds.Unreachable, refuses)
		found.Store(int32(probeSilent))
		for range 3 {
			says(t, call(), kinds.Unreachable, refuses)
		}
		time.Sleep(hostRefusalCounts)
		says(t, call(), kinds.Unreachable, "no answer from "+nowhere)

		found.Store(int32(probeRefused))
		says(t, call(), kinds.Unreachable, refuses)
		found.Store(int32(probeSilent))
		state := a.findState(key.ID())
		state.mu.Lock()
		state.finishDial(nil) // as a connection does that becomes ready
		state.mu.Unlock()
		says(t, call(), kinds.Unreachable, "no answer from "+nowhere)
	})
}
