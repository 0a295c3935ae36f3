package peer

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// joinBy redeems an invitation by hand, once, and shows what edit makes of a request
// without a post-quantum key.
func joinBy(ctx context.Context, tr *quic.Transport, key *identity.Key, to *side, token [16]byte, edit func(*quic.Conn, *joinRequest)) (*joinReply, error) {
	conf, err := key.ClientTLS(to.ID(), false, identity.ALPNJoin)
	if err != nil {
		return nil, err
	}
	qc, err := tr.Dial(ctx, to.Addr(), conf, nil)
	if err != nil {
		return nil, err
	}
	defer qc.CloseWithError(0, "")
	s, err := qc.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	request := joinRequest{V: 1, Token: token[:], Name: "laptop"}
	edit(qc, &request)
	body, err := wire.MarshalCBOR(request)
	if err != nil {
		return nil, err
	}
	s.Write(append([]byte{byte(wire.StreamJoin)}, body...))
	s.Close()
	text, err := io.ReadAll(s)
	if err != nil {
		return nil, err
	}
	reply := new(joinReply)
	return reply, wire.UnmarshalCBOR(text, reply)
}

// shows makes a request show bytes as a key, of which nothing is proved.
func shows(pq ...byte) func(*quic.Conn, *joinRequest) {
	return func(_ *quic.Conn, r *joinRequest) { r.PQ = pq }
}

// TestJoinPinsWhatIsProved: a join pins the post-quantum key that signs for its
// connection, as a hello does, and replaces no pin. Who joins without a signature, as
// acpd before 0.1.0 does, is trusted, and pinned by its first hello.
// holds: security.md#cryptography
func TestJoinPinsWhatIsProved(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		desk, h := w.facing(nil)
		token := desk.invite(0, "").Token
		guest, other := newKey(t), newKey(t)
		signed := func(by *identity.Key, as *identity.Key) func(*quic.Conn, *joinRequest) {
			return func(qc *quic.Conn, r *joinRequest) {
				exporter, err := exportKeyingMaterial(qc)
				if err == nil {
					r.Sig, err = by.SignHello(exporter, desk.ID())
				}
				if err != nil {
					t.Error(err)
				}
				r.PQ = as.PublicPQ()
			}
		}
		elsewhere := func(qc *quic.Conn, r *joinRequest) {
			sig, err := guest.SignHello(make([]byte, 32), desk.ID())
			if err != nil {
				t.Error(err)
			}
			r.PQ, r.Sig = guest.PublicPQ(), sig
		}
		none, own, foreign := identity.PQHash{}, identity.HashPQ(guest.PublicPQ()), kinds.IdentityConflict
		for _, step := range []struct {
			what string
			edit func(*quic.Conn, *joinRequest)
			code kinds.Code
			pin  identity.PQHash
		}{
			{"a signature of another connection", elsewhere, foreign, none},
			{"another's signature", signed(other, guest), foreign, none},
			{"bytes of which nothing is proved", shows(1, 2, 3), "", none},
			{"nothing", shows(), "", none},
			{"its key, signed", signed(guest, guest), "", own},
			{"the same again", signed(guest, guest), "", own},
			{"other bytes of which nothing is proved", shows(1, 2, 3), "", own},
			{"another's key and signature", signed(other, other), foreign, own},
		} {
			reply, err := joinBy(t.Context(), h.tr, guest, desk, token, step.edit)
			p, trusted := desk.trust.FindPeer(guest.ID())
			if err != nil || reply.Code != string(step.code) || p.PQ != step.pin || trusted != (step.pin != none || step.code == "") {
				t.Errorf("%s: %v; trusted %v, pinned %v", step.what, err, trusted, p.PQ)
			}
			if step.code != "" {
				continue
			}
			if len(reply.Sig) == 0 {
				t.Errorf("%s: the reply proves nothing", step.what)
			}
		}
	})
}

// TestUnsignedJoinIsPinnedByHello: the inviter knows no other joiner than one that
// does not sign.
func TestUnsignedJoinIsPinnedByHello(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		desk, h := w.facing(nil)
		key := newKey(t)
		if reply, err := joinBy(t.Context(), h.tr, key, desk, desk.invite(0, "").Token, shows(key.PublicPQ()...)); err != nil || reply.Code != "" {
			t.Fatalf("%+v, %v", reply, err)
		}
		c := h.dial(desk, key)
		c.greet()
		c.alive()
		if p, _ := desk.trust.FindPeer(key.ID()); p.PQ != identity.HashPQ(key.PublicPQ()) {
			t.Errorf("pinned %v", p.PQ)
		}
	})
}

// TestJoinKeepsThePin: an invitation whose post-quantum key is not the one that is
// pinned for its id changes nothing here.
// holds: security.md#cryptography
func TestJoinKeepsThePin(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		desk, guest := w.side(nil), w.side(nil)
		w.serve(desk, guest)
		pin := identity.PQHash{1}
		if _, err := guest.trust.Trust(identity.Peer{ID: desk.ID(), Name: "desk", PQ: pin}); err != nil {
			t.Fatal(err)
		}
		if _, err := guest.Join(t.Context(), desk.invite(0, "")); code(err) != kinds.IdentityConflict {
			t.Errorf("joined: %v", err)
		}
		if p, _ := guest.trust.FindPeer(desk.ID()); p.PQ != pin {
			t.Errorf("pinned %v", p.PQ)
		}
	})
}

// TestUntrustHoldsAgainstRepeatedJoins: who has redeemed an invitation may repeat
// it. A join that is on its way when its key is untrusted does not bring it back.
// holds: security.md#against-strangers
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
func TestUntrustHoldsAgainstRepeatedJoins(t *testing.T) {
	for range 5 {
		trust, warning, err := identity.OpenTrustStore(t.TempDir())
		if err != nil || warning != nil {
			t.Fatal(err, warning)
		}
		desk := newSide(t, loopback(func(c *Config) { c.Trust = trust })).serve()
		socket, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		h, guest, token := newHost(t, socket), newKey(t), desk.invite(0, "").Token
		if reply, err := joinBy(t.Context(), h.tr, guest, desk, token, shows(0)); err != nil || reply.Code != "" {
			t.Fatalf("the first join: %+v, %v", reply, err)
		}

		var joiners sync.WaitGroup
		var untrusted atomic.Bool
		repeated := make(chan struct{}, 1)
		for i := range 4 {
			joiners.Go(func() {
				for n := byte(0); ; n++ {
					last := untrusted.Load()
					reply, err := joinBy(t.Context(), h.tr, guest, desk, token, shows(byte(i), n))
					switch {
					case last:
						if err == nil && reply.Code == "" {
							t.Error("a join was accepted after untrust")
						}
						return
					case err == nil && reply.Code == "":
						select {
						case repeated <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		for range 4 {
			<-repeated
		}
		if err := trust.Untrust(guest.ID()); err != nil {
			t.Fatal(err)
		}
		untrusted.Store(true)
		desk.Disconnect(guest.ID())
		joiners.Wait()
		if _, trusted := trust.FindPeer(guest.ID()); trusted || !trust.IsBlocked(guest.ID()) {
			t.Error("a join undid the untrust")
		}
		desk.shutdown()
	}
}
