package peer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// otherPQ signs a hello with a post-quantum key that the identity does not derive.
func (c *raw) otherPQ(h *wire.Hello) {
	c.t.Helper()
	public, private, err := mldsa65.GenerateKey(rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	state := c.qc.ConnectionState().TLS
	text, err := state.ExportKeyingMaterial(identity.ExporterLabel, nil, 32)
	if err != nil {
		c.t.Fatal(err)
	}
	own := c.key.ID()
	text = append(append(text, own[:]...), c.to[:]...)
	h.PQ = &wire.HelloPQ{Key: public.Bytes(), Sig: make([]byte, mldsa65.SignatureSize)}
	if err := mldsa65.SignTo(private, text, []byte("acp-hello-v1"), true, h.PQ.Sig); err != nil {
		c.t.Fatal(err)
	}
}

func TestPostQuantum(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, h := w.side(nil), w.side(nil), w.host()
		w.meet(a, b)
		a.ask(b, "pinned?")
		time.Sleep(10 * latency)
		for _, pair := range [][2]*side{{a, b}, {b, a}} {
			if p, _ := pair[0].trust.FindPeer(pair[1].ID()); p.PQ != identity.HashPQ(pair[1].cfg.Key.PublicPQ()) {
				t.Error("the post-quantum half was not pinned at the first contact")
			}
			if got := pair[0].listConns()[0].qc.ConnectionState().TLS.CurveID; got != tls.X25519MLKEM768 {
				t.Errorf("key exchange %v", got)
			}
		}

		key := newKey(t)
		b.knows(key, "laptop")
		c := h.dial(b, key)
		c.greet()
		c.alive()
		for name, edit := range map[string]func(*raw, *wire.Hello){
			"another": (*raw).otherPQ,
			"none":    func(_ *raw, h *wire.Hello) { h.PQ = nil },
		} {
			before := b.saw(EventIdentityConflict)
			c := h.dial(b, key)
			c.sendHello(func(h *wire.Hello) { edit(c, h) })
			if got := c.closed(); got != closeNotTrusted || b.saw(EventIdentityConflict) != before+1 {
				t.Errorf("%s: close code %d", name, got)
			}
		}
		c.alive() // what was accepted before is not their business
		if p, _ := b.trust.FindPeer(key.ID()); p.PQ != identity.HashPQ(key.PublicPQ()) {
			t.Error("the pin has changed")
		}
	})
}

// TestTwoFirstContacts shows two post-quantum keys at once: the one that is not
// pinned is closed.
func TestTwoFirstContacts(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		b.knows(key, "laptop")
		boot := wire.Boot{1}
		first, second := h.dial(b, key), h.dial(b, key)
		first.sendHello(func(h *wire.Hello) { h.Boot = boot })
		second.sendHello(func(h *wire.Hello) { h.Boot = boot; second.otherPQ(h) })
		time.Sleep(time.Second)
		p, _ := b.trust.FindPeer(key.ID())
		conns := b.listConns()
		if len(conns) != 1 || conns[0].peerPQ != p.PQ {
			t.Errorf("%d connections", len(conns))
		}
	})
}

func TestRequirePQ(t *testing.T) {
	classical := func(t *testing.T, h *host, to *side, key *identity.Key) (*raw, error) {
		conf, err := key.ClientTLS(to.ID(), false, identity.ALPN)
		if err != nil {
			t.Fatal(err)
		}
		conf.CurvePreferences = []tls.CurveID{tls.X25519}
		qc, err := h.tr.Dial(t.Context(), to.Addr(), conf, nil)
		return &raw{t: t, key: key, to: to.ID(), qc: qc}, err
	}
	for _, require := range []bool{false, true} {
		bubble(t, nil, func(t *testing.T, w *network) {
			b, h := w.facing(func(c *Config) { c.RequirePQ = require })
			key := newKey(t)
			b.knows(key, "laptop")
			c, err := classical(t, h, b, key)
			if !require {
				if err != nil {
					t.Fatalf("key exchange without the hybrid: %v", err)
				}
				c.greet()
				c.alive()
				return
			}
			if te, ok := errors.AsType[*quic.TransportError](err); !ok || !te.ErrorCode.IsCryptoError() {
				t.Errorf("key exchange without the hybrid: %v", err)
			}
			c = h.dial(b, key)
			c.sendHello(func(h *wire.Hello) { h.PQ = nil })
			if got := c.closed(); got != closeNotTrusted {
				t.Errorf("close code %d", got)
			}
			c = h.dial(b, key)
			c.greet()
			c.alive()
		})
	}
}

// invite opens an invitation of s.
func (s *side) invite(d time.Duration, name string) identity.Invitation {
	s.t.Helper()
	token, _, err := s.Invitations().Issue(d, name, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	return identity.Invitation{ID: s.ID(), Addrs: []string{s.Addr().String()}, Name: s.cfg.Name, PQ: identity.HashPQ(s.cfg.Key.PublicPQ()), Token: token}
}

func TestJoin(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		named := func(name string) func(*Config) { return func(c *Config) { c.Name = name } }
		host, guest, rival, third, odd := w.side(named("Desk")), w.side(named("laptop")), w.side(named("laptop")), w.side(named("laptop")), w.side(named("The desk (new)"))
		all := []*side{host, guest, rival, third, odd}
		w.start()
		for _, s := range all {
			s.serve()
		}

		closed := identity.Invitation{ID: host.ID(), Addrs: []string{host.Addr().String()}, Token: [16]byte{1}}
		if _, err := guest.Join(t.Context(), closed); code(err) != kinds.NotAuthorized {
			t.Errorf("without an invitation: %v", err)
		}

		inv := host.invite(0, "")
		p, err := guest.Join(t.Context(), inv)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != "desk" || p.ID != host.ID() || p.PQ != inv.PQ {
			t.Errorf("joined %+v", p)
		}
		guest.ask(host, "heard?")
		host.ask(guest, "heard?")
		if p, _ := host.trust.FindPeer(guest.ID()); p.Name != "laptop" || p.PQ != identity.HashPQ(guest.cfg.Key.PublicPQ()) || len(p.Addrs) > 0 {
			t.Errorf("the inviter trusts %+v", p)
		}
		if host.saw(EventTrust) != 1 || guest.saw(EventTrust) != 1 {
			t.Error("no event trust")
		}

		start := time.Now()
		if _, err := rival.Join(t.Context(), inv); code(err) != kinds.NotAuthorized || time.Since(start) < wrongWait {
			t.Errorf("the second joiner: %v after %v", err, time.Since(start))
		}
		if p, err := guest.Join(t.Context(), inv); err != nil || p.Name != "desk" {
			t.Errorf("the same key again: %+v, %v", p, err)
		}

		wrong := inv
		wrong.Token[3] ^= 1
		start = time.Now()
		var guesses sync.WaitGroup
		for range 4 { // guessing side by side is no quicker
			guesses.Go(func() {
				if _, err := rival.Join(t.Context(), wrong); code(err) != kinds.NotAuthorized {
					t.Errorf("a wrong token: %v", err)
				}
			})
		}
		guesses.Wait()
		if took := time.Since(start); took < 4*wrongWait || took > 5*wrongWait {
			t.Errorf("four wrong tokens took %v", took)
		}
		if _, trusted := host.trust.FindPeer(rival.ID()); trusted || len(host.Pending()) != 0 {
			t.Error("the rival came in")
		}

		if _, err := third.Join(t.Context(), host.invite(0, "")); err != nil {
			t.Error(err)
		}
		if p, _ := host.trust.FindPeer(third.ID()); p.Name != "laptop-2" {
			t.Errorf("a name that is taken: %q", p.Name)
		}
		if p, err := odd.Join(t.Context(), host.invite(0, "")); err != nil || p.Name != "desk" {
			t.Errorf("a name that is no petname: %+v, %v", p, err)
		}
		if p, _ := host.trust.FindPeer(odd.ID()); p.Name != "peer-"+odd.ID().Label() {
			t.Errorf("a name that is no petname: %q", p.Name)
		}

		host.untrusts(guest)
		if _, err := guest.Join(t.Context(), host.invite(0, "")); code(err) != kinds.NotAuthorized || !strings.Contains(err.Error(), "untrusted") {
			t.Errorf("a blocked key: %v", err)
		}
		if _, err := host.Join(t.Context(), inv); code(err) != kinds.Invalid {
			t.Errorf("the own invitation: %v", err)
		}

		time.Sleep(11 * time.Minute)
		if _, err := rival.Join(t.Context(), inv); code(err) != kinds.NotAuthorized {
			t.Errorf("after all have expired: %v", err)
		}
	})
}

// TestJoinExpired has another invitation open, so that only the token is over.
func TestJoinExpired(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		host, guest := w.side(nil), w.side(nil)
		w.serve(host, guest)
		short := host.invite(time.Minute, "")
		named := host.invite(time.Hour, "tester")
		time.Sleep(2 * time.Minute)
		if _, err := guest.Join(t.Context(), short); code(err) != kinds.NotAuthorized {
			t.Errorf("got %v", err)
		}
		named.Addrs = append([]string{"192.0.2.99:7117", "192.0.2.98:7117"}, named.Addrs...)
		start := time.Now()
		if _, err := guest.Join(t.Context(), named); err != nil || time.Since(start) > time.Second {
			t.Errorf("behind addresses where nobody is: %v after %v", err, time.Since(start))
		}
		if p, _ := host.trust.FindPeer(guest.ID()); p.Name != "tester" {
			t.Errorf("named %q", p.Name)
		}

		named.ID = guest.ID()
		other := named
		other.ID = newKey(t).ID()
		if _, err := guest.Join(t.Context(), other); code(err) != kinds.Unreachable {
			t.Errorf("another key there: %v", err)
		}
	})
}

func TestTwoJoinersAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		host, one, two := w.side(nil), w.side(nil), w.side(nil)
		w.serve(host, one, two)
		inv := host.invite(0, "")
		errs := make(chan error, 2)
		for _, s := range []*side{one, two} {
			go func() { _, err := s.Join(context.Background(), inv); errs <- err }()
		}
		a, b := <-errs, <-errs
		if (a == nil) == (b == nil) {
			t.Errorf("got %v and %v", a, b)
		}
		if n := len(host.trust.Peers()); n != 1 {
			t.Errorf("%d came in", n)
		}
	})
}

func TestJoinGarbage(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		desk := w.side(func(c *Config) { c.RequirePQ = true })
		hosts := w.hosts(9)
		w.serve(desk)
		inv := desk.invite(0, "")
		request := func(r joinRequest) []byte {
			b, err := wire.MarshalCBOR(r)
			if err != nil {
				t.Fatal(err)
			}
			return append([]byte{byte(wire.StreamJoin)}, b...)
		}
		for name, tt := range map[string]struct {
			body []byte
			want kinds.Code
		}{
			"nothing":       {nil, kinds.Invalid},
			"type alone":    {[]byte{0x10}, kinds.Invalid},
			"another type":  {[]byte{0x01, 0xa0}, kinds.Invalid},
			"not CBOR":      {[]byte{0x10, 0xff}, kinds.Invalid},
			"too long":      {make([]byte, joinBytes+1), kinds.Invalid},
			"version":       {request(joinRequest{V: 2, Token: inv.Token[:]}), kinds.Invalid},
			"short token":   {request(joinRequest{V: 1, Token: inv.Token[:15]}), kinds.Invalid},
			"no PQ, though": {request(joinRequest{V: 1, Token: inv.Token[:]}), kinds.NotAuthorized},
		} {
			c := hosts[0].joining(desk)
			s := c.openBidi(tt.body...)
			s.Close()
			body, err := io.ReadAll(s)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var reply joinReply
			if err := wire.UnmarshalCBOR(body, &reply); err != nil || reply.Code != string(tt.want) {
				t.Errorf("%s: %+v, %v", name, reply, err)
			}
			c.qc.CloseWithError(0, "")
			time.Sleep(10 * latency)
		}
		if len(desk.trust.Peers()) != 0 {
			t.Error("somebody came in")
		}

		// Who opens no stream is shown the door, and blocks no other source.
		var idle []*raw
		for range 5 {
			idle = append(idle, hosts[1].joining(desk))
		}
		start := time.Now()
		if got := idle[4].closed(); got != closeOverloaded || time.Since(start) > time.Second {
			t.Errorf("the fifth of one source: close code %d after %v", got, time.Since(start))
		}
		if got, took := idle[0].closed(), time.Since(start); got != closeJoinClosed || took > kinds.JoinDeadline+20*latency {
			t.Errorf("close code %d after %v", got, took)
		}
	})
}

func TestUntrustCutsCalls(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(slowly)
		there, back := a.start(b, lasting(5*time.Minute)), b.start(a, lasting(5*time.Minute))
		start := time.Now()
		b.untrusts(a)
		for _, call := range []<-chan outcome{there, back} {
			o := <-call
			o.took = time.Since(start)
			o.want(t, kinds.NotTrusted, kinds.DeliveredUnknown, 0, time.Second)
		}
		b.call(a.ID(), query("and back?")).want(t, kinds.UnknownPeer, kinds.DeliveredNo, 0, 0)
		a.call(b.ID(), query("still there?")).want(t, kinds.NotTrusted, kinds.DeliveredNo, 0, time.Second)
		time.Sleep(time.Minute)
		if len(b.Pending()) != 0 || len(a.Peers())+len(b.Peers()) != 0 || a.saw(EventRefused) == 0 || b.saw(EventRefused) != 0 {
			t.Errorf("it left a trace: refused %d and %d times", a.saw(EventRefused), b.saw(EventRefused))
		}
	})
}

func TestUnknownPeerTakesNoRoom(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a := w.side(nil)
		w.serve(a)
		for range 10 {
			_, _, err := a.Exchange(t.Context(), newKey(t).ID(), query("?"))
			outcome{err, 0}.want(t, kinds.UnknownPeer, kinds.DeliveredNo, 0, 0)
		}
		if _, err := a.Send(t.Context(), newKey(t).ID(), notify("a.b"), true); code(err) != kinds.UnknownPeer {
			t.Error(err)
		}
		if _, err := a.OpenStream(t.Context(), newKey(t).ID(), wire.StreamMail); code(err) != kinds.UnknownPeer {
			t.Error(err)
		}
		a.Node.mu.RLock()
		n := len(a.peers)
		a.Node.mu.RUnlock()
		if n != 0 {
			t.Errorf("%d are kept", n)
		}
		a.call(a.ID(), query("?")).want(t, kinds.Invalid, "", 0, 0)
	})
}
