package peer

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// joins has the authority's word count at s, and gives s a certificate for d.
func (s *side) joins(a *authority.Authority, d time.Duration, principals ...string) *side {
	s.t.Helper()
	s.trust.SetAuthorities([]identity.Authority{a.Authority})
	s.SetCertificate(a.Sign(s.ID(), d, principals...))
	return s
}

// revokes makes s take no certificate of the authority for a name any more.
func (s *side) revokes(a *authority.Authority, name string) {
	s.t.Helper()
	revoked, err := identity.ParseRevocations([]byte("name " + name))
	if err != nil {
		s.t.Fatal(err)
	}
	s.trust.SetAuthorities([]identity.Authority{{Name: "corp", Key: a.Key, Revoked: revoked}})
}

// fleet makes two nodes that know each other by certificates alone. a knows where b is.
func (w *network) fleet(d time.Duration, edit func(*Config)) (corp *authority.Authority, a, b *side) {
	corp = authority.New(w.t, "corp")
	b = w.side(edit)
	at := b.Addr().String()
	a = w.side(func(c *Config) {
		if edit != nil {
			edit(c)
		}
		c.Addrs = func(id identity.ID) []string {
			if id == b.ID() {
				return []string{at}
			}
			return nil
		}
	})
	w.start()
	a.serve().joins(corp, d, "acp:desk", "acp:group:ci")
	b.serve().joins(corp, d, "acp:build-7")
	return corp, a, b
}

// introduce expects that b is a peer of s then.
func (s *side) introduce(o *side) {
	s.t.Helper()
	if err := s.Introduce(s.t.Context(), o.ID()); err != nil {
		s.t.Fatal(err)
	}
}

func TestCertifiedPeersTalk(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		_, a, b := w.fleet(time.Hour, nil)
		if err := a.tryAsk(b, "before"); code(err) != kinds.UnknownPeer {
			t.Errorf("before it was introduced: %v", err)
		}
		a.introduce(b)
		a.ask(b, "hello")
		b.ask(a, "and back")
		if p, err := a.trust.Resolve("build-7.corp"); err != nil || p.ID != b.ID() {
			t.Errorf("%+v, %v", p, err)
		}
		if p, err := b.trust.Resolve("desk.corp"); err != nil || !slices.Equal(p.Certificate.Groups, []string{"ci.corp"}) || p.PQ.IsZero() {
			t.Errorf("%+v, %v", p, err)
		}
		if a.saw(EventUp) != 1 || b.saw(EventUp) != 1 || len(a.trust.Peers()) != 0 || len(b.Pending()) != 0 {
			t.Errorf("%d and %d up, trusted %v, pending %v", a.saw(EventUp), b.saw(EventUp), a.trust.Peers(), b.Pending())
		}
		a.introduce(b) // nothing is left to do
		if err := a.Introduce(t.Context(), identity.ID{1}); code(err) != kinds.Unreachable {
			t.Errorf("nobody: %v", err)
		}
	})
}

func TestStrangersAmongCertified(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp, foreign := authority.New(t, "corp"), authority.New(t, "foreign")
		b := w.side(nil)
		hosts := []*host{w.host(), w.host(), w.host()}
		w.start()
		b.serve().joins(corp, time.Hour, "acp:build-7")
		hour := func(a *authority.Authority, id identity.ID, change func(*ssh.Certificate)) []byte {
			return a.SignChanged(id, time.Hour, change, "acp:desk")
		}
		for name, cert := range map[string]func(id identity.ID) []byte{
			"none":           func(identity.ID) []byte { return nil },
			"no certificate": func(identity.ID) []byte { return []byte("ssh") },
			"another key":    func(identity.ID) []byte { return hour(corp, identity.ID{1}, nil) },
			"foreign":        func(id identity.ID) []byte { return hour(foreign, id, nil) },
			"of users": func(id identity.ID) []byte {
				return hour(corp, id, func(c *ssh.Certificate) { c.CertType = ssh.UserCert })
			},
			"expired": func(id identity.ID) []byte {
				return hour(corp, id, func(c *ssh.Certificate) { c.ValidAfter, c.ValidBefore = 0, 1 })
			},
			"another pq half": func(id identity.ID) []byte {
				return corp.SignChanged(id, time.Hour, withPQ(identity.HashPQ(nil)), "acp:desk")
			},
		} {
			c := hosts[0].dial(b, newKey(t))
			c.sendHello(func(h *wire.Hello) { h.Cert = cert(c.key.ID()) })
			go func() { // a window for what may come before the refusal
				if s, err := c.qc.AcceptUniStream(t.Context()); err == nil {
					_, _ = io.Copy(io.Discard, s)
				}
			}()
			if got := c.closed(); got != closeNotTrusted {
				t.Errorf("%s: close code %d", name, got)
			}
			time.Sleep(time.Second)
		}
		if len(b.Peers()) != 0 || len(b.Pending()) == 0 {
			t.Errorf("peers %v, pending %v", b.Peers(), b.Pending())
		}

		// With a certificate that counts it is a peer.
		c := hosts[1].dial(b, newKey(t))
		c.sendHello(func(h *wire.Hello) { h.Cert = hour(corp, c.key.ID(), nil) })
		c.readHello()
		c.alive()

		// What is trusted or blocked by the owner stays so, whatever it shows.
		blocked := hosts[2].dial(b, newKey(t))
		if err := b.trust.Untrust(blocked.key.ID()); err != nil {
			t.Fatal(err)
		}
		blocked.sendHello(func(h *wire.Hello) { h.Cert = hour(corp, blocked.key.ID(), nil) })
		if got := blocked.closed(); got != closeNotTrusted {
			t.Errorf("blocked: close code %d", got)
		}
	})
}

// withPQ has a certificate name a post-quantum key.
func withPQ(hash identity.PQHash) func(*ssh.Certificate) {
	return func(c *ssh.Certificate) { c.Extensions = map[string]string{"pq@acpd": hash.String()} }
}

// holds: security.md#fleets
func TestExpiryEndsConnections(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp, a, b := w.fleet(time.Hour, nil)
		a.introduce(b)
		a.SetCertificate(corp.Sign(a.ID(), 3*time.Hour, "acp:desk")) // b's alone ends
		time.Sleep(time.Hour + identity.ClockTolerance - time.Second)
		a.introduce(b)
		a.ask(b, "in time")
		time.Sleep(time.Minute)
		if err := a.tryAsk(b, "too late"); code(err) != kinds.UnknownPeer {
			t.Errorf("after the end: %v", err)
		}
		if a.saw(EventDecertified) != 1 || b.saw(EventDecertified) != 0 || len(a.Peers()) != 0 || b.saw(EventRefused) != 1 {
			t.Errorf("%d and %d ended, peers %v, %d refused", a.saw(EventDecertified), b.saw(EventDecertified), a.Peers(), b.saw(EventRefused))
		}

		// With a new one it is a peer again.
		b.SetCertificate(corp.Sign(b.ID(), time.Hour, "acp:build-8"))
		a.introduce(b)
		a.ask(b, "again")
	})
}

func TestRenewalOnAnOpenConnection(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp, a, b := w.fleet(time.Hour, nil)
		foreign := authority.New(t, "foreign")
		a.introduce(b)
		hold := func() {
			for range 12 {
				time.Sleep(4 * time.Minute)
				a.ask(b, "still there")
			}
		}
		hold()
		b.SetCertificate(foreign.Sign(b.ID(), time.Hour, "acp:build-7")) // counts nowhere, and changes nothing
		time.Sleep(time.Second)
		a.ask(b, "the old one counts")
		b.SetCertificate(corp.Sign(b.ID(), 2*time.Hour, "acp:build-8"))
		a.SetCertificate(corp.Sign(a.ID(), 2*time.Hour, "acp:desk"))
		time.Sleep(time.Second)
		if _, err := a.trust.Resolve("build-8.corp"); err != nil {
			t.Error(err)
		}
		hold()
		if a.saw(EventDown) != 0 || a.saw(EventUp) != 1 {
			t.Errorf("%d down, %d up", a.saw(EventDown), a.saw(EventUp))
		}

		// Without a certificate it is no peer any more, and hears that.
		b.SetCertificate(nil)
		synctest.Wait()
		time.Sleep(time.Second)
		if err := a.tryAsk(b, "gone"); code(err) != kinds.UnknownPeer {
			t.Errorf("%v", err)
		}
		if _, ok := b.trust.FindPeer(a.ID()); !ok {
			t.Error("the other side lost its certificate too")
		}
	})
}

// Renewals that come too often are not looked at, and do no harm.
// holds: security.md#fleets
func TestManyRenewals(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp := authority.New(t, "corp")
		b, h := w.side(nil), w.host()
		w.start()
		b.serve().joins(corp, time.Hour, "acp:build-7")
		c := h.dial(b, newKey(t))
		c.sendHello(func(hello *wire.Hello) { hello.Cert = corp.Sign(c.key.ID(), time.Hour, "acp:desk") })
		c.readHello()
		for i := range 100 {
			name := "acp:desk-" + string(rune('a'+i%26))
			c.write(item(t, &wire.Renewal{Cert: corp.Sign(c.key.ID(), time.Hour, name)}))
		}
		c.alive()
		if p, ok := b.trust.FindPeer(c.key.ID()); !ok || p.Name != "desk-f.corp" {
			t.Errorf("%+v", p)
		}
		time.Sleep(2 * time.Minute)
		c.write(item(t, &wire.Renewal{Cert: corp.Sign(c.key.ID(), time.Hour, "acp:laptop")}))
		c.alive()
		if p, _ := b.trust.FindPeer(c.key.ID()); p.Name != "laptop.corp" {
			t.Errorf("%+v", p)
		}
	})
}

// A call that is under way when a certificate is revoked ends at once, on both sides, and says that it
// may have been handled.
// holds: security.md#fleets
func TestRevocationInTheMiddleOfACall(t *testing.T) {
	for _, by := range []string{"the side that called", "the side that answers"} {
		t.Run(by, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
				corp, a, b := w.fleet(time.Hour, func(c *Config) {
					c.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
						begun <- struct{}{}
						<-ctx.Done()
						ended <- struct{}{}
						return nil, ctx.Err()
					}
				})
				a.introduce(b)
				called := make(chan error, 1)
				go func() { called <- a.tryAsk(b, "hello") }()
				<-begun
				at := time.Now()
				if by == "the side that called" {
					a.revokes(corp, "build-7")
				} else {
					b.revokes(corp, "desk")
				}
				err := <-called
				<-ended
				if took := time.Since(at); took > time.Second || kinds.AsError(err).Delivered() != kinds.DeliveredUnknown {
					t.Errorf("after %v: %v, delivered %q", took, err, kinds.AsError(err).Delivered())
				}
				time.Sleep(time.Second)
				if len(a.Peers())+len(b.Peers()) != 0 {
					t.Errorf("still connected: %v, %v", a.Peers(), b.Peers())
				}
				if by == "the side that called" {
					says(t, a.Introduce(t.Context(), b.ID()), kinds.UnknownPeer, "corp has revoked it")
				}
				if len(a.Pending()) != 0 {
					t.Errorf("what this side dialled waits for a decision: %v", a.Pending())
				}
			})
		})
	}
}

// A connection to a certified peer is let go by the side that dialled it, and dialled again on demand.
func TestIdleConnectionsAreLetGo(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		_, a, b := w.fleet(24*time.Hour, nil)
		a.introduce(b)
		for range 4 {
			time.Sleep(idleRelease - certifiedTick - time.Second)
			b.ask(a, "a stream of the other side counts")
		}
		if a.saw(EventDown) != 0 {
			t.Errorf("let go while in use")
		}
		time.Sleep(idleRelease + 3*certifiedTick)
		if len(a.Peers()) != 0 || len(b.Peers()) != 0 {
			t.Errorf("not let go: %v, %v", a.Peers(), b.Peers())
		}
		a.ask(b, "on demand")
		time.Sleep(time.Minute)
		if a.saw(EventUp) != 2 || a.saw(EventRefused)+b.saw(EventRefused) != 0 {
			t.Errorf("%d up", a.saw(EventUp))
		}
	})
}

// A daemon whose owner trusts this one keeps its connection, although it counts by a certificate here.
func TestTrustingSideKeepsItsConnection(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp := authority.New(t, "corp")
		a, b := w.side(nil), w.side(nil)
		a.trusts(b, "hub")
		w.start()
		b.serve().joins(corp, 24*time.Hour, "acp:hub")
		a.SetCertificate(corp.Sign(a.ID(), 24*time.Hour, "acp:desk"))
		a.serve()
		a.Connect(b.ID())
		time.Sleep(time.Hour)
		if a.saw(EventUp) != 1 || a.saw(EventDown) != 0 || len(b.Peers()) != 1 {
			t.Errorf("%d up, %d down, %v", a.saw(EventUp), a.saw(EventDown), b.Peers())
		}
		b.ask(a, "in use")
	})
}

// TestCertifiedPeersMeetAtARelay: a certificate is valid on a relay as on the network.
func TestCertifiedPeersMeetAtARelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r, corp := newRelayNet("hub"), authority.New(t, "corp")
		a, b := w.side(r.joined(nil)), w.side(r.joined(nil))
		w.serve(a.joins(corp, time.Hour, "acp:desk"), b.joins(corp, time.Hour, "acp:build-7"))
		synctest.Wait() // until all are on the relay
		if err := a.Introduce(t.Context(), b.ID()); err != nil {
			t.Fatal(err)
		}
		if p, ok := b.trust.FindPeer(a.ID()); !ok || p.Name != "desk.corp" {
			t.Errorf("%v %v", p, ok)
		}
		if p, ok := a.Peer(b.ID()); !ok || p.Path != ViaRelay {
			t.Errorf("%+v, %v", p, ok)
		}
	})
}
