package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// maxOffered bounds the strangers that are shown: whoever is on the network can make up any number.
const maxOffered = 8

// otherNetworks says what a line without a relay is good for.
const otherNetworks = "Without a relay, the line works only for machines on one network or VPN. " +
	"For others, connect the two by ssh (pipes in config.yaml) or by a relay: acpctl relay add."

// listPeers returns the peers.
func (u *run) listPeers(ctx context.Context) ([]client.Peer, error) {
	all, err := u.Daemon.Peers(ctx)
	return slices.DeleteFunc(all, func(p client.Peer) bool {
		return p.State != client.PeerConnected && p.State != client.PeerTrusted
	}), err
}

// findPeer makes sure that there is a peer: the one of the command line, or any.
func (u *run) findPeer(ctx context.Context) error {
	if !u.given.ID.IsZero() {
		u.Tell("Shells remember what they were given: next time paste the line when acpctl up asks for it.")
		over, err := u.join(ctx, u.given)
		if u.asks && !over && err == nil {
			u.leaveOut("%s is not trusted: acpctl up, and paste its line", describeNewPeer(u.given.Name, u.given.ID))
		}
		return err
	}
	peers, err := u.listPeers(ctx)
	if err != nil || len(peers) > 0 {
		return err
	}
	if !u.asks {
		u.leaveOut("there is no peer yet: type acpctl up at a terminal, here and on the other machine")
		return nil
	}
	return u.askForPeer(ctx)
}

// askForPeer asks for the line of another machine until there is a peer, or until the person leaves it.
func (u *run) askForPeer(ctx context.Context) error {
	u.Tell("\nType acpctl up on the other machine too. One of the two makes a line, and the other one gets it.\nThe fingerprint of this machine is %s.", u.me.ID.Fingerprint())
	for {
		over := false
		answer, err := u.SkipEmptyLines(ctx) // an Enter from before the question is no answer to it
		if answer == "" && err == nil {
			fmt.Fprint(u.Err, u.WrapTalk("Paste the line of the other machine, or press Enter to make one:")+" ")
			answer, over, err = u.readWhile(ctx, func() (bool, error) { return u.lookForPeer(ctx) })
		}
		switch {
		case err != nil || over:
			return err
		case answer == "q" || u.InputEnded():
			u.leaveOut("there is no peer yet: acpctl up, here and on the other machine")
			return nil
		case answer == "":
			return u.invite(ctx)
		}
		if over, err = u.takeAnswer(ctx, answer); err != nil || over {
			return err
		}
	}
}

// takeAnswer trusts the stranger whose number was typed, or joins by the line that was pasted. It reports whether there
// is a peer.
func (u *run) takeAnswer(ctx context.Context, answer string) (over bool, err error) {
	if number, err := strconv.Atoi(answer); err == nil && number >= 1 && number <= len(u.offered) {
		over, err = u.trust(ctx, u.offered[number-1])
		return over, u.sayProblem(ctx, err)
	}
	return u.joinPasted(ctx, answer)
}

// joinPasted joins by a line that begins with what was pasted, and reports whether the daemon that made it is a peer.
// It says what is wrong with a line: the next one may be good.
func (u *run) joinPasted(ctx context.Context, begun string) (over bool, err error) {
	inv, err := u.meet.ReadInvitation(ctx, begun)
	if err == nil {
		over, err = u.join(ctx, inv)
	}
	return over, u.sayProblem(ctx, err)
}

// sayProblem says what an error is that does not end up. It returns the error if up was interrupted.
func (u *run) sayProblem(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	e, _ := u.ClassifyError(ctx, err)
	u.Tell("%s", client.Text(e.Message))
	return nil
}

// lookForPeer reports whether there is a peer meanwhile. Until then it offers the strangers.
func (u *run) lookForPeer(ctx context.Context) (bool, error) {
	all, err := u.Daemon.Peers(ctx)
	for _, p := range all {
		if p.State == client.PeerConnected || p.State == client.PeerTrusted {
			u.Tell("\n%s is a trusted peer now.", p.Name)
			u.met = p.ID
			return true, err
		}
	}
	u.offerStrangers(all)
	return false, err
}

// offerStrangers shows the strangers that were not shown yet, as peers to choose, and once more each one that calls
// meanwhile.
func (u *run) offerStrangers(all []client.Peer) {
	for _, p := range all {
		i := slices.IndexFunc(u.offered, func(o client.Peer) bool { return o.ID == p.ID })
		calls := p.State == client.PeerPending
		switch {
		case !calls && p.State != client.PeerDiscovered:
			continue
		case i < 0 && len(u.offered) < maxOffered:
			i, u.offered = len(u.offered), append(u.offered, p)
		case i >= 0 && calls && u.offered[i].State != client.PeerPending:
			u.offered[i] = p
		default:
			continue
		}
		where := "is on this network"
		if calls {
			where = "wants to be your peer"
			u.ring()
		}
		u.Tell("\n%s %s, at %s. To trust it, type %d:", ui.FormatPeerName(&p), where, client.Line(strings.Join(p.Addrs, " ")), i+1)
	}
}

// describeNewPeer describes a peer to be. The name that it gives itself is quoted, unless it can only be a name.
func describeNewPeer(claim string, id identity.ID) string {
	if identity.CheckName(claim) != nil {
		claim = strconv.Quote(client.Line(claim))
	}
	return fmt.Sprintf("%s (claimed name), fingerprint %s,", claim, id.Fingerprint())
}

const whatPeersMay = "its agents may send messages to yours."

// join asks whether the daemon that made an invitation is to be trusted, and joins it. It reports whether it is a peer.
func (u *run) join(ctx context.Context, inv identity.Invitation) (bool, error) {
	if inv.ID == u.me.ID {
		return false, frame.UsageErrorf("this line is of this machine itself: paste it on the other one")
	}
	peers, err := u.listPeers(ctx)
	if err != nil {
		return false, err
	}
	if i := slices.IndexFunc(peers, func(p client.Peer) bool { // one that is not connected may not trust this daemon yet
		return p.ID == inv.ID && !p.Refuses && (p.State == client.PeerConnected || !u.asks)
	}); i >= 0 {
		u.Tell("%s is a trusted peer already.", peers[i].Name)
		u.met = inv.ID
		return true, nil
	}
	who := describeNewPeer(inv.Name, inv.ID)
	if !u.asks {
		u.leaveOut("%s is not trusted: only a person can say that, at a terminal", who)
		return false, nil
	}
	if yes, err := u.Confirm(ctx, fmt.Sprintf("This makes %s a trusted peer: %s Trust it?", who, whatPeersMay)); err != nil || !yes {
		return false, err
	}
	u.Tell("Joining…")
	peer, err := u.meet.Join(ctx, inv, false, false)
	if e, ok := errors.AsType[*kinds.Error](err); ok && (e.Code == kinds.Unreachable || e.Code == kinds.Timeout) && len(inv.Relays) == 0 {
		u.Tell(otherNetworks)
	}
	if err != nil {
		return false, err
	}
	u.met = peer.ID
	return true, nil
}

// callPause is between two calls to a machine that does not trust this one yet: its daemon logs each of them. As soon as
// it does, it calls by itself, if it knows where.
const callPause = 20 * time.Second

// trust trusts a stranger if the person has compared its fingerprint, and waits until that trusts this
// daemon too. It reports whether it is a peer.
func (u *run) trust(ctx context.Context, p client.Peer) (bool, error) {
	yes, err := u.meet.ConfirmTrust(ctx, &p)
	if err != nil || !yes {
		return false, err
	}
	peer, err := u.Daemon.Trust(ctx, client.TrustParams{Peer: p.ID.String()})
	if err != nil {
		return false, err
	}
	u.met = peer.ID
	if peer.Warning != "" {
		u.Warn("%s", peer.Warning)
	}
	u.Tell("%s is trusted here. Waiting until it trusts this machine: answer acpctl up there, or type it, and choose %s with the fingerprint\n%s. q goes on without.", peer.Name, client.Line(u.me.Name), u.me.ID.Fingerprint())
	var called time.Time
	for {
		answer, over, err := u.readWhile(ctx, func() (bool, error) {
			peers, _ := u.listPeers(ctx)
			if slices.ContainsFunc(peers, func(p client.Peer) bool { return p.ID == peer.ID && p.State == client.PeerConnected && !p.Refuses }) {
				return true, nil
			}
			if time.Since(called) < callPause {
				return false, nil
			}
			called = time.Now()
			_, err := u.Daemon.Ping(ctx, client.PingParams{To: peer.ID.String(), TimeoutMS: 1000})
			return err == nil, nil
		})
		switch {
		case over:
			u.ring()
			return true, nil
		case err != nil || answer == "q" || u.InputEnded():
			return true, err
		case answer != "": // the other machine has made a line instead
			if joined, err := u.joinPasted(ctx, answer); joined || err != nil {
				return true, err
			}
		}
	}
}
