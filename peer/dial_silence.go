package peer

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// troubled is a [Link] that may know by itself that it carries nothing at the moment.
type troubled interface {
	// Trouble returns what is wrong, which follows the link's name, and what to do, "" if whoever asked says
	// it; both "": packets come and go as far as the link knows. It does not block.
	Trouble() (what, remedy string)
}

const maxSilentShown = 4 // addresses in one error

// silence is where a dial heard nothing of the peer, nor from its host.
type silence struct {
	silent    []string  // addresses for people
	own       []string  // the same, where this node itself answers
	foreign   []string  // the same, where somebody else answers a join
	routeless []string  // the same, to which this host has no route
	impeded   []impeded // links that carry nothing
}

type impeded struct{ name, what, remedy string }

// noteSilence returns what a leg on which nothing was heard says.
func (e *endpoint) noteSilence(addr string) (s silence) {
	if troubled, ok := e.link.(troubled); ok {
		if what, remedy := troubled.Trouble(); what != "" {
			s.impeded = []impeded{{e.name, what, remedy}}
			return s
		}
	}
	if e.path == Direct && !e.node.hasOwnAddr() {
		s.impeded = []impeded{{e.socket.LocalAddr().String(), absentAddr, absentRemedy}}
		return s
	}
	s.silent = []string{addr}
	return s
}

// add adds what other legs say.
func (s *silence) add(other silence) {
	addNew := func(to *[]string, addrs []string) {
		for _, addr := range addrs {
			if !slices.Contains(*to, addr) { // else of one host name
				*to = append(*to, addr)
			}
		}
	}
	addNew(&s.silent, other.silent)
	addNew(&s.own, other.own)
	addNew(&s.foreign, other.foreign)
	addNew(&s.routeless, other.routeless)
	for _, i := range other.impeded {
		if !slices.Contains(s.impeded, i) { // else of another address on that link
			s.impeded = append(s.impeded, i)
		}
	}
}

// isForeign reports whether somebody else answers at each address.
func (s *silence) isForeign() bool {
	return len(s.foreign) > 0 && len(s.silent)+len(s.own)+len(s.routeless)+len(s.impeded) == 0
}

// isSilentRelay reports whether a relay that works brought no answer and no word that the peer is away. A peer
// that does not trust this node is silent so: it drops this node's packets there before they reach QUIC.
func (s *silence) isSilentRelay() bool {
	return slices.ContainsFunc(s.silent, func(addr string) bool { return strings.HasPrefix(addr, string(ViaRelay)+":") })
}

// describe returns what was not heard where, and what to do, with one semicolon between the two.
func (s *silence) describe(isJoining bool) string {
	var what, remedies []string
	if len(s.silent) > 0 {
		what = append(what, "no answer from "+joinAddrs(s.silent))
	}
	if len(s.own) > 0 {
		what = append(what, "at "+joinAddrs(s.own)+" this daemon itself answers")
	}
	if len(s.foreign) > 0 {
		what = append(what, "at "+joinAddrs(s.foreign)+" somebody else answers")
	}
	switch {
	case s.isSilentRelay() && isJoining:
		remedies = append(remedies, "either the daemon there is off, or its invitation has expired, was used or revoked, or went with a restart: start the daemon, or ask for a new one")
	case s.isSilentRelay():
		remedies = append(remedies, "either its daemon is off, or it does not trust this one: start it, or have its owner run acpctl trust there")
	case len(s.impeded)+len(s.routeless) == 0:
		remedies = append(remedies, "check the address and the network between")
	}
	if len(s.routeless) > 0 {
		what = append(what, "this machine has no route to "+joinAddrs(s.routeless))
		remedies = append(remedies, "check its network, or correct the address")
	}
	for _, i := range s.impeded {
		what = append(what, i.name+" "+i.what)
		if i.remedy != "" {
			remedies = append(remedies, i.remedy)
		}
	}
	text := strings.Join(what, ", and ")
	if len(remedies) > 0 {
		text += "; " + strings.Join(remedies, ", and ")
	}
	return text
}

// addImpeded adds the links that carry nothing to the text of an error that does not name them.
func (s *silence) addImpeded(text string) string {
	for _, i := range s.impeded {
		text += fmt.Sprintf("; and %s %s", i.name, i.what)
		if i.remedy != "" {
			text += ": " + i.remedy
		}
	}
	return text
}

// joinAddrs returns addresses for people: the first few and, if there are many, the last one. The last one is on a
// link, where a user looks last.
func joinAddrs(all []string) string {
	shown := all
	if len(all) > maxSilentShown {
		shown = append(slices.Clone(all[:maxSilentShown-1]), fmt.Sprintf("%d others", len(all)-maxSilentShown), all[len(all)-1])
	}
	if len(shown) == 1 {
		return shown[0]
	}
	return strings.Join(shown[:len(shown)-1], ", ") + " or " + shown[len(shown)-1]
}

// newSilenceError returns the error of a dial on which nothing was heard.
func (n *Node) newSilenceError(id identity.ID, s silence) *kinds.Error {
	return n.newUnreachableError(id, kinds.DeliveredNo, "%s", s.describe(false))
}

// toDialFailure returns the failure that an error of a dial of the leg means.
func (l leg) toDialFailure(id identity.ID, err error) *dialFailure {
	f := l.on.node.toDialFailure(id, l.text, err)
	f.addr, f.isOfPipe = l.text, l.isOpened()
	timeout, ok := errors.AsType[net.Error](err)
	wrong, isWrong := errors.AsType[*identity.WrongIDError](err)
	switch {
	case isWrong && wrong.Got == l.on.node.self:
		f.silence.own = []string{l.text}
	case f.Code != kinds.Unreachable:
		return f
	case errors.Is(err, errNoRoute):
		f.silence.routeless = []string{l.text}
	case ok && timeout.Timeout():
		f.silence = l.on.noteSilence(l.text)
	case errors.Is(err, errRefused):
		return f
	default:
		return f
	}
	f.beSilent(l, id)
	return f
}

// beSilent makes f say no more than its silence.
func (f *dialFailure) beSilent(l leg, id identity.ID) {
	f.isSilent = true
	f.Error = l.on.node.newSilenceError(id, f.silence)
}

// hostRefusalCounts is how long a host that has refused a port is taken to refuse it while it is silent.
const hostRefusalCounts = time.Minute

// recallHostRefusal returns the error of a dial of the leg. If the host last refused the port and is silent now, it
// returns that refusal: Linux reports a closed port to one machine about once a second, and a dial sends more
// packets than that, so dials that follow each other closely get no report.
func (state *peerState) recallHostRefusal(l leg, err error) error {
	if l.on.path != Direct {
		return err
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errRefused):
		state.hostRefusedAddr, state.hostRefusedAt = l.text, time.Now()
	case ok && timeout.Timeout() && l.text == state.hostRefusedAddr && time.Since(state.hostRefusedAt) < hostRefusalCounts:
		return errRefused
	}
	return err
}

// recallRefusal returns the error of a dial. If the peer last refused this node as not trusted, and is silent now on a
// relay that works, it returns that refusal, because a peer that refuses is silent there. A background dial
// goes on all the same, since a relay could drop the packets too.
func (state *peerState) recallRefusal(err *kinds.Error, background bool) *kinds.Error {
	if background {
		return err
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if f := state.sharedFailure; state.refusesUs && f != nil && f.Error == err && f.silence.isSilentRelay() {
		return state.node.newNotTrustedError(state.node.peerName(state.id)).WithDelivered(kinds.DeliveredNo)
	}
	return err
}
