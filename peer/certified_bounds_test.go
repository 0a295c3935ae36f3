package peer

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/wire"
)

// Of keys that come and go nothing stays.
// holds: security.md#fleets
func TestStatesOfCertifiedPeersAreForgotten(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp := authority.New(t, "corp")
		b, h := w.side(nil), w.host()
		w.start()
		b.serve().joins(corp, 24*time.Hour, "acp:hub")
		for range 20 {
			c := h.dial(b, newKey(t))
			c.sendHello(func(hello *wire.Hello) { hello.Cert = corp.Sign(c.key.ID(), 10*time.Minute, "acp:build-7") })
			c.readHello()
			c.alive()
			c.qc.CloseWithError(0, "")
			time.Sleep(time.Second)
		}
		if n := len(b.trust.CertifiedPeers()); n != 4 {
			t.Errorf("%d keys have one name", n)
		}
		time.Sleep(20 * time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Node.mu.RLock()
		defer b.Node.mu.RUnlock()
		if len(b.peers) != 0 || len(b.trust.CertifiedPeers()) != 0 {
			t.Errorf("%d states, %v", len(b.peers), b.trust.CertifiedPeers())
		}
		for _, total := range b.cfg.Budget.ListTotals() {
			if total.Held != 0 && total.Row.Name != "log_lines" {
				t.Errorf("%s: %d held", total.Row.Name, total.Held)
			}
		}
	})
}

// Where an authority is configured, 64 strangers are heard at a time, and eight of a source; without
// one, eight and two. A stranger beyond is closed at once, and hears that it may try again if it could
// be a peer. Those that go make room.
// holds: security.md#fleets
func TestManyStrangersAtATime(t *testing.T) {
	for name, is := range map[string]struct {
		most, perSource int
		code            quic.ApplicationErrorCode
	}{
		"without an authority": {8, 2, closeNotTrusted},
		"of a fleet":           {64, 8, closeOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				corp, b, most := authority.New(t, "corp"), w.side(nil), is.most
				hosts := w.hosts(most/is.perSource + 1)
				w.start()
				if b.serve(); most > 8 {
					b.joins(corp, time.Hour, "acp:build-7")
				}
				silent := make([]*raw, most)
				var dials sync.WaitGroup
				began := time.Now()
				for i := range silent {
					dials.Go(func() { silent[i] = hosts[i/is.perSource].dial(b, newKey(t)) })
					if i%8 == 7 { // QUIC's queue of connections to be accepted has 32
						dials.Wait()
						time.Sleep(5 * latency)
					}
				}
				if took := time.Since(began); took > strangerTime*3/4 {
					t.Fatalf("the dials took %v", took)
				}
				beyond := hosts[most/is.perSource].dial(b, newKey(t))
				if got := beyond.closed(); got != is.code || time.Since(began) > strangerTime {
					t.Errorf("one more: close code %d after %v", got, time.Since(began))
				}
				for i, c := range silent {
					if got := c.closed(); got != closeHelloTimeout {
						t.Errorf("stranger %d, who says nothing: close code %d", i, got)
					}
				}
				var ofOne []*raw // while there is room for others
				for range is.perSource + 1 {
					ofOne = append(ofOne, hosts[0].dial(b, newKey(t)))
				}
				if got := ofOne[is.perSource].closed(); got != is.code {
					t.Errorf("one more of a source: close code %d", got)
				}
				late := hosts[most/is.perSource].dial(b, newKey(t))
				late.sendHello(func(h *wire.Hello) { h.Cert = corp.Sign(late.key.ID(), time.Hour, "acp:desk") })
				if most == 8 {
					if got := late.closed(); got != closeNotTrusted || len(b.Pending()) != 1 {
						t.Errorf("after that: close code %d, pending %v", got, b.Pending())
					}
					return
				}
				late.readHello()
				late.alive()
			})
		})
	}
}

// A daemon whose owner trusts a hub, where it counts by its certificate alone, comes while strangers who
// say nothing have all places. It goes on trying, and is there when they are gone.
// holds: security.md#fleets
func TestStrangersKeepOutNoFleetForGood(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp := authority.New(t, "corp")
		hub, a := w.side(nil), w.side(nil)
		a.trusts(hub, "hub")
		hosts := w.hosts(32)
		w.start()
		hub.serve().joins(corp, time.Hour, "acp:hub")
		a.SetCertificate(corp.Sign(a.ID(), time.Hour, "acp:desk"))
		a.serve()
		for round := range 3 {
			var dials sync.WaitGroup
			for range 2 {
				for _, h := range hosts {
					dials.Go(func() { h.dial(hub, newKey(t)) })
				}
				dials.Wait()
				time.Sleep(5 * latency)
			}
			if round == 0 {
				a.Connect(hub.ID())
			}
			time.Sleep(strangerTime + 20*latency)
		}
		time.Sleep(maxBackoff + dialTime)
		if len(a.Peers()) != 1 || a.saw(EventRefused) != 0 {
			t.Errorf("peers %v, refused %d times", a.Peers(), a.saw(EventRefused))
		}
	})
}

// Beyond the keys that one name can have, a certificate that counts brings overloaded, and not what a
// stranger hears. When one of them goes, there is room.
// holds: security.md#fleets
func TestCertifiedPeersBeyondTheirNumber(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp := authority.New(t, "corp")
		b, h := w.facing(nil)
		b.joins(corp, time.Hour, "acp:hub")
		come := func(key *identity.Key) *raw {
			c := h.dial(b, key)
			c.sendHello(func(hello *wire.Hello) { hello.Cert = corp.Sign(key.ID(), time.Hour, "acp:build-7") })
			return c
		}
		var there []*raw
		for range 4 {
			c := come(newKey(t))
			c.readHello()
			c.alive()
			there = append(there, c)
			time.Sleep(time.Second)
		}
		fifth := newKey(t)
		if got := come(fifth).closed(); got != closeOverloaded || len(b.Pending()) != 0 || b.saw(EventPending) != 0 {
			t.Errorf("close code %d, pending %v", got, b.Pending())
		}
		there[0].qc.CloseWithError(0, "")
		time.Sleep(time.Second)
		c := come(fifth)
		c.readHello()
		c.alive()
	})
}

// A state that Connect has got hold of, and that was forgotten before it had its lock, is not used. That of a
// peer is not forgotten.
// holds: security.md#fleets
func TestConnectTakesNoStateThatIsGone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b := w.side(nil)
		w.serve(b)
		key := newKey(t)
		b.knows(key, "laptop")
		state := b.findOrCreateState(key.ID())
		if !b.tryForgetState(key.ID()) || b.findState(key.ID()) != state {
			t.Error("the state of a peer is forgotten")
		}
		state.mu.Lock()
		var connecting sync.WaitGroup
		connecting.Go(func() { b.Connect(key.ID()) })
		for range 1000 { // it comes to the lock
			runtime.Gosched()
		}
		state.gone = true // as tryForgetState does, if it is called before that
		b.Node.mu.Lock()
		delete(b.peers, key.ID())
		b.Node.mu.Unlock()
		state.mu.Unlock()
		connecting.Wait()
		if now := b.findState(key.ID()); now == nil || now == state {
			t.Error("the peer has no state that lasts")
		}
	})
}
