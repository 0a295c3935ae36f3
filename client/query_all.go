package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// MaxAsked is how many peers one question is sent to at most.
const MaxAsked = 16

// Asked is what became, at one peer, of a question to all of them.
type Asked struct {
	To      string         `json:"to"`
	ID      wire.MessageID `json:"id,omitzero"` // of the message to it; zero: none was sent
	Answer  *Answer        `json:"answer,omitzero"`
	Error   *kinds.Error   `json:"error,omitzero"`
	Skipped string         `json:"skipped,omitzero"` // why it does not answer, in words of this machine, where that is no failure

	Err error `json:"-"` // that Error is taken from
}

// ChooseAsked returns the names of the peers that may be asked a question that is for all: those that are connected,
// and that the owner trusts by name. skipped has the others that are known by a name, and why.
func ChooseAsked(peers []Peer) (names []string, skipped []Asked) {
	for _, p := range peers {
		switch {
		case p.State != PeerConnected && p.State != PeerTrusted:
		case p.Certificate != nil:
			skipped = append(skipped, Asked{To: p.Name, Skipped: "known only by a certificate"})
		case p.State != PeerConnected:
			skipped = append(skipped, Asked{To: p.Name, Skipped: "not connected"})
		default:
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names, skipped
}

// AskEach calls ask for each name, with the id of the message, for [MaxAsked] of them at the same time. It calls tell with
// each outcome as it comes, one after the other. A peer that the settings here do not let the caller call leaves its place to
// another one; names for which there is no place are skipped. domain is that of the question, or "". It returns nil if
// a peer has answered, else the first failure, or [kinds.NoAgent] if there was none.
func AskEach(names []string, domain string, ask func(to string, id wire.MessageID) (*Answer, error), tell func(Asked)) (err error) {
	ended := make(chan Asked)
	answered, open, places := false, 0, MaxAsked
	if len(names) == 0 {
		return kinds.Errorf(kinds.NoAgent, "no peer is connected that the owner trusts by name: acpctl peers lists them, and acpctl up connects another machine")
	}
	for open > 0 || places > 0 && len(names) > 0 {
		if places > 0 && len(names) > 0 {
			a := Asked{To: names[0], ID: wire.NewMessageID()}
			names, places, open = names[1:], places-1, open+1
			go func() {
				a.Answer, a.Err = ask(a.To, a.ID)
				ended <- a
			}()
			continue
		}
		a := <-ended
		open--
		if a.explain(domain) {
			places++
		}
		answered, err = answered || a.Answer != nil, cmp.Or(err, a.Err)
		tell(a)
	}
	for _, to := range names {
		tell(Asked{To: to, Skipped: fmt.Sprintf("more than %d", MaxAsked)})
	}
	if err == nil {
		err = kinds.Errorf(kinds.NoAgent, "no peer that is connected has an agent for this: acpctl agents lists those that answer")
	}
	if answered {
		return nil
	}
	return err
}

// explain sets Error, or Skipped if an error says that the peer was not asked or has nobody to answer. It reports
// whether the daemon here did not let the caller call the peer.
func (a *Asked) explain(domain string) (notAllowed bool) {
	if a.Err == nil {
		return false
	}
	e := kinds.AsError(a.Err)
	notAllowed = e.From == "" && e.Code == kinds.NotAuthorized
	switch {
	case notAllowed:
		a.Skipped = "your owner does not let this agent call it"
	case e.From == "" || e.Delivered() == kinds.DeliveredUnknown || e.Code != kinds.NoAgent && e.Code != kinds.UnknownDomain:
		a.Answer, a.Error = nil, e
		return false
	case domain != "":
		a.Skipped = "offers no " + domain
	default:
		a.Skipped = "has no agent that answers"
	}
	a.Answer, a.Err = nil, nil
	return notAllowed
}

// FormatSkipped returns who was skipped, a line for each reason with so many names at most.
func FormatSkipped(all []Asked, most int) (lines []string) {
	names := make(map[string][]string)
	for _, a := range all {
		names[a.Skipped] = append(names[a.Skipped], a.To)
	}
	for _, why := range slices.Sorted(maps.Keys(names)) {
		line, n := "skipped ("+why+"): ", len(names[why])
		if line += strings.Join(names[why][:min(n, most)], ", "); n > most {
			line += fmt.Sprintf(" and %d more", n-most)
		}
		lines = append(lines, Line(line))
	}
	return lines
}
