package peer

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// leg is one address of a race, on one of the node's links.
type leg struct {
	on   *endpoint
	addr net.Addr
	text string // for people
}

// route leads to one leg or, if it is a host name, to several.
type route struct {
	text    string
	path    Path
	delay   time.Duration // after the race begins
	resolve func(context.Context) ([]leg, error)
}

// orderRoutes returns the ways to a peer in the order in which they are dialled: the addresses on
// UDP, dialStagger apart; then its pipes, unless background is set, and its relays, linkDelay after
// the first. known are addresses as text; those on links it leaves out, as it asks the links.
func (n *Node) orderRoutes(id identity.ID, known []string, background bool) []route {
	var routes []route
	for _, text := range known {
		if isLinkAddr(text) {
			continue
		}
		routes = append(routes, route{text, Direct, time.Duration(len(routes)) * dialStagger, func(ctx context.Context) ([]leg, error) {
			return n.resolveUDP(ctx, text)
		}})
	}
	var delay time.Duration
	if len(routes) > 0 {
		delay = linkDelay
	}
	links := n.links.snapshot()
	slices.SortStableFunc(links, func(a, b *endpoint) int { return a.path.rank() - b.path.rank() })
	for _, e := range links {
		if addr := e.link.Addr(id); addr != nil && !(background && e.path == ViaPipe) {
			routes = append(routes, newLinkRoute(e, addr, delay))
			delay += dialStagger
		}
	}
	return routes
}

func newLinkRoute(e *endpoint, addr net.Addr, delay time.Duration) route {
	l := leg{e, addr, shortAddr(addr.String())}
	return route{l.text, e.path, delay, func(context.Context) ([]leg, error) { return []leg{l}, nil }}
}

// findRoute returns the way to a peer that a text names: host:port, the address of the peer on a
// link, or the link's name. The error says what to write instead.
func (n *Node) findRoute(id identity.ID, text string) (route, error) {
	for _, e := range n.links.snapshot() {
		addr := e.link.Addr(id)
		if addr != nil && (text == addr.String() || text == shortAddr(addr.String())) {
			return newLinkRoute(e, addr, 0), nil
		}
	}
	if isLinkAddr(text) {
		return route{}, ownwords.New("there is no such link here; see acpctl relay list")
	}
	return route{text, Direct, 0, func(ctx context.Context) ([]leg, error) { return n.resolveUDP(ctx, text) }}, nil
}

// isLinkAddr reports whether a text is an address on a link, or a link's name, and no host:port.
func isLinkAddr(text string) bool {
	kind, name, _ := strings.Cut(text, ":")
	return (kind == string(ViaRelay) || kind == string(ViaPipe)) && strings.Trim(name, "0123456789") != ""
}

// shortAddr returns an address as people see it: on a relay without the id.
func shortAddr(addr string) string {
	if isLinkAddr(addr) {
		addr, _, _ = strings.Cut(addr, "/")
	}
	return addr
}

// resolveUDP returns the legs of host:port.
func (n *Node) resolveUDP(ctx context.Context, text string) ([]leg, error) {
	udp, err := resolveAddr(ctx, text)
	if err != nil {
		return nil, err
	}
	legs := make([]leg, len(udp))
	for i := range udp {
		legs[i] = leg{on: n.udp, addr: udp[i], text: text}
	}
	return legs, nil
}

// StaysOnRelays reports whether addresses at which peers were before are not dialled: connections
// are to stay on relays ([Config.NoUpgrade]), and there is one.
func (n *Node) StaysOnRelays() bool {
	if n.cfg.NoUpgrade && n.cfg.HasRelays != nil {
		return n.cfg.HasRelays()
	}
	return n.cfg.NoUpgrade && slices.ContainsFunc(n.links.snapshot(), func(e *endpoint) bool { return e.path == ViaRelay })
}

// listRoutes returns the ways to the peer: first the address where it last proved its key, unless the node
// stays on relays; then those of [Config.Addrs], then the links.
func (state *peerState) listRoutes(background bool) []route {
	state.mu.Lock()
	good := state.lastGoodAddr
	state.mu.Unlock()
	known := state.node.cfg.Addrs(state.id) // which may leave out for a while what it has returned
	if good != "" && !state.node.StaysOnRelays() {
		known = append([]string{good}, slices.DeleteFunc(slices.Clone(known), func(a string) bool { return a == good })...)
	}
	return state.node.orderRoutes(state.id, known, background)
}

// hasPipe reports whether a peer can be reached through a command.
func (n *Node) hasPipe(id identity.ID) bool {
	return slices.ContainsFunc(n.links.snapshot(), func(e *endpoint) bool {
		return e.path == ViaPipe && e.link.Addr(id) != nil
	})
}

// dialLimit returns how long a dial takes at most on which a caller waits.
func (n *Node) dialLimit(id identity.ID) time.Duration {
	if n.hasPipe(id) {
		return pipeDialTime
	}
	return dialTime
}
