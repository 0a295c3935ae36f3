package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// holds: security.md#against-strangers
func TestStrangers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b := w.side(nil)
		h := w.host()
		w.serve(b)

		// One that says hello hears nothing but the refusal.
		c := h.dial(b, newKey(t))
		c.sendHello(func(h *wire.Hello) { h.Name = "lap\x1b[31mtop" })
		if _, err := c.qc.AcceptUniStream(t.Context()); err == nil {
			t.Error("a stranger was greeted")
		}
		if got := c.closed(); got != closeNotTrusted {
			t.Errorf("close code %d", got)
		}
		if p := b.Pending(); len(p) != 1 || p[0].ID != c.key.ID() || p[0].Claim != "lap[31mtop" {
			t.Errorf("pending: %+v", p)
		}

		// One that lies in its hello leaves no trace, nor one that is silent.
		c = h.dial(b, newKey(t))
		c.sendHello(func(h *wire.Hello) { h.PQ.Sig[0] ^= 1 })
		if got := c.closed(); got != closeProtocolError {
			t.Errorf("close code %d", got)
		}
		start := time.Now()
		c = h.dial(b, newKey(t))
		if got, took := c.closed(), time.Since(start); got != closeHelloTimeout || took < strangerTime || took > strangerTime+20*latency {
			t.Errorf("close code %d after %v", got, took)
		}

		if n := len(b.Pending()); n != 1 {
			t.Errorf("%d pending, want 1", n)
		}
	})
}

// TestFloodingStranger fills the windows instead of saying hello: it is cut off
// long before they are full, and before its time is over.
func TestFloodingStranger(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		c := h.dial(b, newKey(t))
		start := time.Now()
		var sent atomic.Int64
		for range 200 {
			s, err := c.qc.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for b, err := make([]byte, 4<<10), error(nil); err == nil; {
					var n int
					n, err = s.Write(b)
					sent.Add(int64(n))
				}
			}()
		}
		if got := c.closed(); got != closeNotTrusted || time.Since(start) > strangerTime/4 {
			t.Errorf("close code %d after %v", got, time.Since(start))
		}
		if n := sent.Load(); n > 1<<20 {
			t.Errorf("it could send %d bytes", n)
		}
	})
}

// It is refused, so it does not dial again. The node dials it then, although nobody has named an
// address.
func TestTrustedWhileItsHelloIsAwaited(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		conf, err := key.ServerTLS(false, func() []string { return []string{identity.ALPN} })
		if err != nil {
			t.Fatal(err)
		}
		back, err := h.tr.Listen(conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := h.dial(b, key)
		time.Sleep(100 * time.Millisecond)
		b.knows(c.key, "laptop")
		b.Connect(c.key.ID())
		c.sendHello(nil)
		c.closed()
		time.Sleep(time.Second)
		if len(b.Pending()) != 0 || b.saw(EventIdentityConflict) != 0 {
			t.Errorf("pending %+v, conflicts %d", b.Pending(), b.saw(EventIdentityConflict))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := back.Accept(ctx); err != nil {
			t.Errorf("the peer is not dialled: %v", err)
		}
	})
}

// holds: security.md#against-strangers
func TestPendingTable(t *testing.T) {
	var table pendingTable
	now := time.Now()
	id := func(n int) (id identity.ID) { id[0], id[1] = byte(n), byte(n>>8); id[31] = 1; return id }
	v4 := func(n int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n))} }
	v6 := func(s string) net.Addr { return &net.UDPAddr{IP: net.ParseIP(s)} }
	add := func(n int, at time.Duration, from net.Addr) bool {
		return table.add(Pending{ID: id(n), At: now.Add(at)}, nil, newHostSource(from))
	}
	if !add(1, 0, v4(1)) || add(1, 29*time.Second, v4(1)) || !add(1, 30*time.Second, v4(2)) {
		t.Error("a key is news at most every 30 s")
	}
	for n := range 6 {
		add(10+n, 0, v4(7))
	}
	if n := len(table.entries); n != 1+4 {
		t.Errorf("%d entries, want 4 of one source beside the first", n)
	}
	if _, ok := table.remove(id(11)); ok {
		t.Error("the oldest of one source did not give way")
	}
	for n, ip := range []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1", "2001:db8:0:4::1", "2001:db8:0:ff::1", "2001:db8:0:100::1"} {
		add(20+n, 0, v6(ip))
	}
	if _, ok := table.remove(id(20)); ok {
		t.Error("a /56 counts as more than one source")
	}
	if _, ok := table.remove(id(25)); !ok {
		t.Error("another /56 is missing")
	}
	other := new(endpoint)
	table.add(Pending{ID: id(900), At: now}, other, source{text: "of another link"})
	for n := range 200 {
		add(1000+n, 0, v4(1000+n))
	}
	if n := len(table.entries); n != maxPending+1 {
		t.Errorf("%d entries, want %d and one of another link", n, maxPending)
	}
	if _, ok := table.remove(id(900)); !ok {
		t.Error("a flood on one link displaced a stranger of another")
	}
	if _, ok := table.remove(id(1000 + 199)); !ok {
		t.Error("the newest is missing")
	}
}

// forge makes a client that shows the victim's certificate but holds another key.
func forge(t testing.TB, victim *identity.Key, alpn string) *tls.Config {
	t.Helper()
	own := newKey(t)
	shown := certificate(t, victim)
	held := certificate(t, own)
	forged := &tls.Certificate{Certificate: shown.Certificate, PrivateKey: held.PrivateKey}
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		InsecureSkipVerify:   true,
		NextProtos:           []string{alpn},
		Certificates:         []tls.Certificate{*forged},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return forged, nil },
	}
}

func certificate(t testing.TB, key *identity.Key) *tls.Certificate {
	t.Helper()
	conf, err := key.ClientTLS(key.ID(), false, identity.ALPN)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := conf.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestForger shows a foreign certificate, as a client and as a server: nobody is
// accepted, or becomes pending, with a key that it does not hold.
func TestForger(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		for _, alpn := range []string{identity.ALPN, identity.ALPNJoin} {
			bubble(t, nil, func(t *testing.T, w *network) {
				b, h := w.facing(nil)
				victim := newKey(t)
				if trusted {
					b.knows(victim, "planner")
				}
				token, _, err := b.Invitations().Issue(0, "", 1)
				if err != nil {
					t.Fatal(err)
				}
				qc, err := h.tr.Dial(t.Context(), b.Addr(), forge(t, victim, alpn), nil)
				if err == nil {
					// A client believes in the connection before the server has judged it.
					c := &raw{t: t, key: victim, to: b.ID(), qc: qc}
					if alpn == identity.ALPNJoin {
						body, _ := wire.MarshalCBOR(joinRequest{V: 1, Token: token[:], Name: "planner"})
						c.openBidi(append([]byte{byte(wire.StreamJoin)}, body...)...).Close()
					} else {
						c.openControl(item(t, c.hello()))
						c.openBidi(append([]byte{byte(wire.StreamExchange)}, c.envelope(kinds.KindPing, "", nil)...)...).Close()
					}
					<-qc.Context().Done()
					err = context.Cause(qc.Context())
				}
				if te, ok := errors.AsType[*quic.TransportError](err); !ok || !te.ErrorCode.IsCryptoError() {
					t.Errorf("the forger heard %v, want an error of TLS", err)
				}
				time.Sleep(5 * time.Second)
				if len(b.Pending()) != 0 || len(b.Peers()) != 0 || len(b.received()) != 0 || b.saw(EventUp)+b.saw(EventPending)+b.saw(EventTrust)+b.saw(EventIdentityConflict) != 0 {
					t.Errorf("trusted %v, %s: the forger was taken for its victim", trusted, alpn)
				}
				if _, now := b.trust.FindPeer(victim.ID()); now != trusted {
					t.Error("the victim's trust changed")
				}
			})
		}
	}
	t.Run("server", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, w *network) {
			a, h := w.facing(nil)
			victim := newKey(t)
			conf := forge(t, victim, identity.ALPN)
			conf.ClientAuth = tls.RequireAnyClientCert
			l, err := h.tr.Listen(conf, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a.trust.Trust(identity.Peer{ID: victim.ID(), Name: "reviewer", Addrs: []string{h.tr.Conn.LocalAddr().String()}})
			_, _, err = a.Exchange(t.Context(), victim.ID(), query("is it you?"))
			if e := kinds.AsError(err); e.Code != kinds.Unreachable || e.Delivered() != kinds.DeliveredNo {
				t.Errorf("got %v", err)
			}
			if a.saw(EventUp) != 0 {
				t.Error("the forger was accepted")
			}
		})
	})
}
