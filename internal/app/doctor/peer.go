package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
)

// examinePeer looks at one peer in depth: what answers at each of its addresses, its pin, what its
// daemon says, its clock, and what each side lets the other one send.
func (x *examination) examinePeer(ctx context.Context) error {
	if c, err := config.LoadConfig(x.filePath(statedir.ConfigName)); err == nil {
		x.config = c
	}
	addrs, err := x.probe(ctx)
	if err != nil {
		return err
	}
	peers, err := x.Daemon.Peers(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(peers, func(p client.Peer) bool {
		isTrusted := p.State == client.PeerConnected || p.State == client.PeerTrusted
		return isTrusted && (p.Name == x.Peer || len(x.Peer) >= 6 && strings.HasPrefix(p.ID.String(), strings.ToLower(x.Peer)))
	})
	if i < 0 {
		return fmt.Errorf("doctor: %s has gone from the trusted peers meanwhile", x.Peer)
	}
	p := &peers[i]
	answer := x.ping(ctx, p)
	if now, err := x.Daemon.Peers(ctx); err == nil { // the ping may have connected it
		if i := slices.IndexFunc(now, func(q client.Peer) bool { return q.ID == p.ID }); i >= 0 {
			p = &now[i]
		}
	}
	x.addPeer(p, &answer)
	x.addPeerClock(p, &answer)
	x.addAddrs(p, addrs)
	x.addPin(p)
	x.addPolicies(ctx, p, &answer)
	return nil
}

// probe tries the peer's addresses. One that is known by no more than its certified name is looked for first, as a call
// does.
func (x *examination) probe(ctx context.Context) ([]client.ProbedAddr, error) {
	addrs, err := x.Daemon.Probe(ctx, x.Peer)
	if err == nil || kinds.AsError(err).Code != kinds.UnknownPeer || identity.CheckCertifiedName(x.Peer) != nil {
		return addrs, err
	}
	_, failure := x.Daemon.Ping(ctx, client.PingParams{To: x.Peer})
	addrs, err = x.Daemon.Probe(ctx, x.Peer) // a peer that refuses a ping is known too
	if err != nil && failure != nil {
		err = failure
	}
	return addrs, err
}

func (x *examination) addAddrs(p *client.Peer, addrs []client.ProbedAddr) {
	switch give := fmt.Sprintf("acpctl trust %s --addr HOST:PORT", p.Name); {
	case len(addrs) > 0:
	case x.hasPipe(p):
		x.addUnreadPipe(p)
	case p.Path == client.PathPipe:
		x.add("address.none", p.Name, "no address of "+p.Name+" is known: only it can call, and has, at "+p.Addrs[0], "nothing, if that does; else "+give+", or a pipe to it in config.yaml")
	default:
		x.add("address.none", p.Name, "no address of "+p.Name+" is known: only it can call", give)
	}
	for _, a := range addrs {
		e := a.Error
		switch {
		case a.Source == client.SourcePipe && e == nil:
			x.add("pipe.ok", a.Addr, fmt.Sprintf("%s: %s has proved its key there; round trip %.1f ms", a.Addr, p.Name, float64(a.RTTUS)/1000), "")
		case a.Source == client.SourcePipe && e.Code != kinds.IdentityConflict:
			x.addDeadPipe(p, e)
		case e == nil:
			x.add("address.ok", a.Addr, fmt.Sprintf("%s (%s): %s has proved its key there; round trip %.1f ms", a.Addr, a.Source, p.Name, float64(a.RTTUS)/1000), "")
		case e.Code == kinds.IdentityConflict:
			x.add("address.wrong", a.Addr, fmt.Sprintf("%s (%s): %s", a.Addr, a.Source, e.Message), fmt.Sprintf("correct the address: acpctl trust %s --addr HOST:PORT, or config.yaml", p.Name))
		default:
			remedy := "do what it says; acpctl ping " + p.Name + " shows whether that was enough"
			if a.Source != client.SourceRelay {
				remedy += "; where nothing answers, look for an MTU below 1,280, and for a firewall: one of that machine must let in the UDP port of the address, and " + x.describeOpenPorts()
			}
			x.add("address.dead", a.Addr, fmt.Sprintf("%s (%s): %s", a.Addr, a.Source, e.Message), remedy)
		}
	}
}

func (x *examination) addPeerClock(p *client.Peer, answer *pong) {
	if !answer.timed || answer.ahead.Abs() < clockBound {
		return
	}
	which := "ahead of"
	if answer.ahead < 0 {
		which = "behind"
	}
	x.add("peer.clock", p.Name, fmt.Sprintf("the clock of %s is %s %s that of this machine", p.Name, answer.ahead.Abs().Round(1e9), which), "synchronise both clocks")
}

// addPin says whether the peer's post-quantum key is pinned.
func (x *examination) addPin(p *client.Peer) {
	if p.Pinned {
		x.add("peer.pinned", p.Name, "the post-quantum key of "+p.Name+" is pinned: another one is refused", "")
	} else {
		x.add("peer.unpinned", p.Name, "no post-quantum key of "+p.Name+" is pinned yet", "nothing: it is pinned when "+p.Name+" connects and has one")
	}
}

// addPolicies says what the peer may send here, and what it takes from here, as far as it has
// shown that.
func (x *examination) addPolicies(ctx context.Context, p *client.Peer, answer *pong) {
	var allowed, forbidden, rules []string
	for _, kind := range config.ListPolicyKinds() {
		if kinds.Has(kind, kinds.OfDelegation) { // no policy forbids it
			continue
		}
		decision, err := x.Daemon.Policy(ctx, client.PolicyParams{Peer: p.ID.String(), Kind: kind})
		if err != nil {
			return
		}
		if !slices.Contains(rules, decision.Rule) {
			rules = append(rules, decision.Rule)
		}
		if decision.Allowed {
			allowed = append(allowed, kind)
		} else {
			forbidden = append(forbidden, kind)
		}
	}
	what := fmt.Sprintf("%s may send here: %s", p.Name, cmp.Or(strings.Join(allowed, ", "), "nothing"))
	if len(forbidden) > 0 {
		what += "; it may not: " + strings.Join(forbidden, ", ")
	}
	x.add("policy.here", p.Name, fmt.Sprintf("%s (%s)", what, strings.Join(rules, "; ")), "")

	shown := "it has not answered"
	switch e, _ := errors.AsType[*kinds.Error](answer.err); {
	case answer.err == nil:
		shown = fmt.Sprintf("it takes a ping, and is %s with %d agents attached", client.Line(answer.pong.Status), answer.pong.Attached)
		if _, err := x.Daemon.Discover(ctx, client.DiscoverParams{To: p.ID.String(), TimeoutMS: uint64(pingPatience.Milliseconds())}); err == nil {
			shown += "; it takes a discover"
		} else if e, _ := errors.AsType[*kinds.Error](err); e != nil && e.Code == kinds.NotAuthorized {
			shown += "; it refuses a discover"
		}
	case e != nil && e.Code == kinds.NotAuthorized:
		shown = "it refuses a ping"
	}
	x.add("policy.there", p.Name, fmt.Sprintf("what %s takes from here: %s", p.Name, shown), fmt.Sprintf("the rest is known only there: acpctl doctor %s on %s", x.status.ID.Label(), p.Name))
}
