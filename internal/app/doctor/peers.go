package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

const (
	maxListed    = 64 // interfaces that are tried, peers that are asked if they are not connected, and agents, projects and twins that have findings of their own
	clockBound   = time.Minute
	pingPatience = 4 * time.Second
)

// examinePeers says of each trusted peer whether it is connected, and if it is not, why. Who
// waits for a decision it lists too.
func (x *examination) examinePeers(ctx context.Context) {
	if x.status == nil {
		if len(x.trusted) > 0 {
			x.add("peer.unasked", "peers", fmt.Sprintf("trusted peers: %d; only a running daemon can say whether they are in reach", len(x.trusted)), x.makeUpCommand())
		} else if !x.has("record.lost", "record.newer") {
			x.addNobody()
		}
		return
	}
	peers, err := x.Daemon.Peers(ctx)
	if err != nil {
		return
	}
	var trusted []client.Peer
	for _, p := range peers {
		switch p.State {
		case client.PeerConnected, client.PeerTrusted:
			trusted = append(trusted, p)
		case client.PeerPending:
			x.add("peer.waiting", p.ID.Label(), fmt.Sprintf("a daemon that calls itself %q has called and waits for a decision", client.Line(p.Claim)), "acpctl trust "+p.ID.String()+" if you know whose it is; else nothing")
		}
	}
	if len(trusted) == 0 {
		x.addNobody()
	}
	answers := make([]pong, len(trusted))
	var pings sync.WaitGroup
	asked := 0
	for i, p := range trusted {
		if p.State == client.PeerConnected {
			continue
		}
		if asked++; asked > maxListed {
			answers[i].err = kinds.Errorf(kinds.Unreachable, "it is not connected")
			continue
		}
		pings.Go(func() { answers[i] = x.ping(ctx, &p) })
	}
	pings.Wait()
	for i := range trusted {
		x.addPeer(&trusted[i], &answers[i])
	}
}

func (x *examination) addNobody() {
	x.add("peer.none", "peers", "nobody is trusted: no message comes or goes", x.makeUpCommand()+", and acpctl up on the other machine")
}

// pong is the answer to a ping.
type pong struct {
	err   error
	rtt   time.Duration
	ahead time.Duration // of the peer's clock
	timed bool          // ahead is known
	pong  kinds.Pong
}

func (x *examination) ping(ctx context.Context, peer *client.Peer) (p pong) {
	patience := pingPatience
	if x.hasPipe(peer) {
		patience = kinds.PipeProbeDeadline
	}
	a, err := x.Daemon.Ping(ctx, client.PingParams{To: peer.ID.String(), TimeoutMS: uint64(patience.Milliseconds())})
	if err != nil {
		return pong{err: err}
	}
	p.rtt = time.Duration(a.RTTUS) * time.Microsecond
	if a.TS > 0 {
		p.timed, p.ahead = true, time.UnixMilli(int64(min(a.TS, 1<<60))).Sub(x.Machine.Now().Add(-p.rtt/2))
	}
	json.Unmarshal(a.Payload, &p.pong) // of another form, it says nothing
	return p
}

// adviseTrust says how a peer comes to trust this daemon.
func (x *examination) adviseTrust(name string) string {
	remedy := fmt.Sprintf("on %s: acpctl trust %s", name, x.status.ID)
	if x.config.Organisation.Certificate != "" {
		remedy = "see acpctl cert show: a certificate that has ended, or is revoked there, is signed anew; else " + remedy
	}
	return remedy
}

// addPeer records what is known of a trusted peer: that it is connected, or what a ping said.
func (x *examination) addPeer(p *client.Peer, answer *pong) {
	name := p.Name
	away := Code("peer.away")
	if x.Peer != "" {
		away = "peer.unreached"
	}
	e, _ := errors.AsType[*kinds.Error](answer.err)
	switch {
	case p.Refuses || e != nil && e.Code == kinds.NotTrusted:
		x.add("peer.refuses", name, name+" is reached, and does not trust this daemon", x.adviseTrust(name))
	case answer.err == nil && (p.State == client.PeerConnected || answer.rtt > 0):
		at := ""
		if len(p.Addrs) > 0 {
			at = " at " + p.Addrs[0]
		}
		software := p.Software
		if software != "" {
			software = ", " + client.Line(software)
		}
		x.add("peer.ok", name, fmt.Sprintf("%s is connected%s%s", name, at, software), "")
		x.addPeerVersion(p)
	case e != nil && e.From == "" && e.Code == kinds.IdentityConflict:
		x.add("peer.conflict", name, client.Line(e.Message), "do what it says; acpctl ping "+name+" shows whether that was enough")
	case e != nil && e.Code == kinds.IncompatibleVersion:
		x.add("peer.incompatible", name, tellError(name, e), "update the older side; post_quantum: require in a config.yaml demands a peer that has it")
	case e != nil && (e.Code == kinds.NotAuthorized || e.Code == kinds.Overloaded):
		x.add("peer.forbids", name, fmt.Sprintf("%s answers, and refuses a ping: %s", name, tellError(name, e)), "nothing, if its owner means that")
	case x.isByPipe(p, e):
		if x.Peer == "" {
			x.addDeadPipe(p, e)
		} else { // addAddrs tells why
			x.add(away, name, name+" is not connected, and its pipe does not lead to it", "see what is said of the pipe")
		}
	case len(p.Addrs) == 0 && !x.usesRelays():
		x.add(away, name, "no address of "+name+" is known"+cmp.Or(tellLastSeen(p), ", and it has not called"), fmt.Sprintf("start its daemon; where discovery does not reach: acpctl trust %s --addr HOST:PORT, or acpctl relay add for the relay that it uses", name))
	default:
		why, remedy := "it does not answer", "start its daemon"
		if e != nil {
			why = tellError(name, e)
		}
		if e != nil && e.From == "" { // a peer's words are no remedy of ours
			remedy = "do what it says, and start its daemon if it does not run"
		}
		x.add(away, name, fmt.Sprintf("%s is not connected%s: %s", name, tellLastSeen(p), strings.TrimPrefix(why, name+": ")), remedy+x.adviseAddresses(name))
	}
}

// tellError returns the message of an error on one line. A peer's words stand behind its name.
func tellError(name string, e *kinds.Error) string {
	if e.From == "" {
		return client.Line(e.Message)
	}
	return name + " says: " + client.Line(e.Message)
}

// tellLastSeen returns when the peer was last connected, to be appended to a text; "" if it never was.
func tellLastSeen(p *client.Peer) string {
	if p.LastSeen.IsZero() || p.LastSeen.Unix() <= 0 {
		return ""
	}
	return ", last seen " + p.LastSeen.UTC().Format(time.RFC3339)
}

// adviseAddresses returns what follows the remedy for a peer that does not answer, unless that is what runs.
func (x *examination) adviseAddresses(name string) string {
	if x.Peer != "" {
		return ""
	}
	return "; acpctl doctor " + name + " tries each address"
}

// addPeerVersion reports a peer whose program is of another version.
func (x *examination) addPeerVersion(p *client.Peer) {
	if p.Software == "" || p.Software == "acpd "+x.status.Version {
		return
	}
	x.add("peer.version", p.Name, fmt.Sprintf("%s runs %s, and this daemon is acpd %s", p.Name, client.Line(p.Software), x.status.Version), "nothing: both sides speak the same protocol; update the older one when it suits")
}
