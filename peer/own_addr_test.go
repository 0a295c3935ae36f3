package peer

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// TestAddressOfThisNode: two hosts may have an address each for themselves, as bridges of containers do. Where
// a node meets itself it has not met the peer.
func TestAddressOfThisNode(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a := w.side(nil)
		peer := newKey(t).ID()
		w.serve(a)
		own := a.Addr().String()
		a.trust.Trust(identity.Peer{ID: peer, Name: "reviewer", Addrs: []string{own}})
		for range 2 {
			_, _, err := a.Exchange(t.Context(), peer, query("?"))
			says(t, err, kinds.Unreachable, "reviewer: at "+own+" this daemon itself answers; check the address")
			time.Sleep(2 * shareVerdict)
		}
		_, failure := a.TryAddr(t.Context(), peer, own)
		says(t, failure, kinds.Unreachable, "at "+own+" this daemon itself answers; ")
		a.trust.Trust(identity.Peer{ID: peer, Name: "reviewer", Addrs: []string{own, nowhere}})
		_, _, err := a.Exchange(t.Context(), peer, query("?"))
		says(t, err, kinds.Unreachable, "reviewer: no answer from "+nowhere+", and at "+own+" this daemon itself answers; check the address and the network between")
	})
}

// TestJoinAtAnAddressOfSomebodyElse: that no invitation is open is believed of the inviter, whose key is proved.
// Whoever else has its address in this network says nothing of it.
func TestJoinAtAnAddressOfSomebodyElse(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		host, guest, other := w.side(nil), w.side(nil), w.side(nil)
		w.serve(host, guest, other)
		here, own, foreign := host.Addr().String(), guest.Addr().String(), other.Addr().String()
		for round := range 2 { // of the second all offer joining, so that the first handshake already proves their keys
			for _, c := range []struct {
				addrs []string
				code  kinds.Code
				words string
			}{
				{[]string{nowhere, own}, kinds.Unreachable, "no answer from " + nowhere + ", and at " + own + " this daemon itself answers; check the address and the network between"},
				{[]string{own, foreign}, kinds.Unreachable, "at " + own + " this daemon itself answers, and at " + foreign + " somebody else answers; "},
				{[]string{nowhere, foreign}, kinds.Unreachable, "no answer from " + nowhere + ", and at " + foreign + " somebody else answers; "},
				{[]string{foreign}, kinds.IdentityConflict, "at " + foreign + " somebody else answers than " + host.ID().Label() + "; ask for a new invitation"},
				{[]string{nowhere, own, foreign, here}, kinds.NotAuthorized, ""},
			} {
				_, err := guest.Join(t.Context(), identity.Invitation{ID: host.ID(), Addrs: c.addrs, Token: [16]byte{1}})
				says(t, err, c.code, c.words)
				if err != nil && round == 0 && c.code == kinds.NotAuthorized && !strings.Contains(err.Error(), "no invitation is open at "+here) {
					t.Errorf("without an invitation: %v", err)
				}
			}
			for _, s := range []*side{host, guest, other} {
				s.invite(time.Hour, "")
			}
		}
		if n := host.saw(EventPending); n != 0 {
			t.Errorf("to ask for the key raised %d events", n)
		}
	})
}

// TestUnsentPackets: what this machine's own system does not send is told with what to do, and not in the words
// of QUIC.
func TestUnsentPackets(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		const forbidden = "this machine does not let packets out to 192.0.2.7:7117; check its firewall and routes"
		for no, words := range map[syscall.Errno]string{
			syscall.EMSGSIZE:     "the MTU of this machine's interface to 192.0.2.7:7117 is below the 1,228 bytes (IPv4) or 1,248 (IPv6) that QUIC needs; raise it",
			syscall.EPERM:        forbidden,
			syscall.EACCES:       forbidden,
			syscall.ENETUNREACH:  forbidden,
			syscall.EHOSTUNREACH: forbidden,
		} {
			says(t, a.toDialError(b.ID(), "192.0.2.7:7117", newUnsentError(no)), kinds.Unreachable, "reviewer: "+words)
		}
	})
}

// newUnsentError returns the error of QUIC for a packet that the system did not send.
func newUnsentError(no syscall.Errno) error {
	return &quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "write udp [::]:7117->192.0.2.7:7117: sendmsg: " + no.Error()}
}
