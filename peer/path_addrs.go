package peer

import (
	"context"
	"net/netip"
	"slices"

	"github.com/acpd/acpd/wire"
)

// publicAddrer is a link whose server reports the IP address at which it sees this machine.
// The zero value means that the link does not know it.
type publicAddrer interface {
	PublicAddr() netip.Addr
}

// listOwnPaths returns the addresses at which the peer may reach the UDP socket, the likeliest
// first, as many as an item of paths holds: what STUN servers see, what the servers of relays see
// with the socket's own port, and those of the interfaces. It blocks for as long as STUN takes.
func (n *Node) listOwnPaths(ctx context.Context) (own []netip.AddrPort) {
	for _, a := range append(n.stun.listReflexiveAddrs(ctx), n.listLocalPaths()...) {
		if !slices.Contains(own, a) && len(own) < wire.MaxPaths {
			own = append(own, a)
		}
	}
	return own
}

// listLocalPaths is listOwnPaths without STUN; it asks nobody.
func (n *Node) listLocalPaths() (own []netip.AddrPort) {
	port := toAddrPort(n.Addr()).Port()
	for _, e := range n.links.snapshot() {
		if l, ok := e.link.(publicAddrer); ok {
			if ip := l.PublicAddr().Unmap(); isPublicAddr(ip) {
				own = append(own, netip.AddrPortFrom(ip, port))
			}
		}
	}
	var private []netip.AddrPort
	for _, text := range n.LocalAddrs() {
		a, err := netip.ParseAddrPort(text)
		switch {
		case err != nil:
		case isPublicAddr(a.Addr()):
			own = append(own, a)
		case isPrivateAddr(a.Addr()):
			private = append(private, a)
		}
	}
	return append(own, private...)
}

// AddrsChanged tells the node that the addresses of this machine may have changed. If they have,
// a direct path is tried again to each peer on a relay. It does not block.
func (n *Node) AddrsChanged() {
	n.startTask(func() {
		local := n.listLocalPaths()
		n.mu.Lock()
		same := slices.Equal(local, n.localPaths)
		n.localPaths = local
		n.mu.Unlock()
		if same {
			return
		}
		n.stun.forget()
		for _, c := range n.listConns() {
			if c.canUpgrade() {
				c.peer.rounds.noteAddrs()
			}
		}
	})
}

func toTexts(addrs []netip.AddrPort) []string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return texts
}
