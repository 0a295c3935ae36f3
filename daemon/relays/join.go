package relays

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// ListInvited returns the relays that an invitation names: the first two that are used, those
// first that are up.
func (r *Service) ListInvited(p *client.InviteParams) ([]identity.InvitedRelay, error) {
	if p.NoRelay && p.WithCredential {
		return nil, kinds.Errorf(kinds.Invalid, "invite: no_relay and with_credential: leave one of them out")
	}
	if p.NoRelay {
		return nil, nil
	}
	var up, others []identity.InvitedRelay
	for _, u := range r.list() {
		if u.link == nil || p.WithCredential && !u.Share {
			continue
		}
		named := identity.InvitedRelay{URL: u.URL}
		if p.WithCredential {
			named.Token = string(u.Token)
		}
		if u.describe().State == client.RelayUp {
			up = append(up, named)
		} else {
			others = append(others, named)
		}
	}
	all := append(up, others...)
	if p.WithCredential && len(all) == 0 {
		return nil, kinds.Errorf(kinds.Invalid, "with_credential: no relay's token may be given away: add one with acpctl relay add --token-file FILE --share, or share: true in config.yaml")
	}
	return all[:min(len(all), identity.MaxInvitedRelays)], nil
}

// relayTime is how long a join waits for a relay of its invitation to be up.
const relayTime = 5 * time.Second

// join has the relays of an invitation by which this daemon is joining.
type join struct {
	unknown []config.Relay // that it does not use otherwise
	renewed []config.Relay // that are kept, with the token of the invitation
}

// Join redeems an invitation. If reach.direct is off and this daemon uses a relay of the invitation, the
// addresses in it are neither dialled nor kept. Relays of the invitation that are not used yet are used for the
// join if choice is keep, and kept if the join succeeds. New tokens for relays that refuse this daemon are used and
// kept with any choice.
func (r *Service) Join(ctx context.Context, inv identity.Invitation, choice client.JoinRelay) (*client.NamedPeer, error) {
	unknown := r.listUnknown(inv)
	switch {
	case choice != "" && choice != client.JoinKeepsRelay && choice != client.JoinSkipsRelay:
		return nil, kinds.Errorf(kinds.Invalid, "join: relay: expected keep or skip")
	case choice == client.JoinSkipsRelay:
		unknown = nil
	case choice == "" && len(unknown) > 0:
		return nil, kinds.Errorf(kinds.Invalid, "join: the invitation names the relay %s, which this daemon does not use: say keep, to use it from now on, or skip", unknown[0].URL)
	}
	renewed := r.listRenewed(inv)
	if choice != client.JoinKeepsRelay {
		renewed = nil
	}
	var names []string
	if len(unknown)+len(renewed) > 0 {
		if failure := r.kept.Load().failure; failure != nil {
			return nil, kinds.Errorf(kinds.Internal, "join: relays.yaml cannot be used, so no relay can be kept: %v: fix or remove the file, then acpctl reload", failure)
		}
		for _, s := range slices.Concat(unknown, renewed) {
			names = append(names, s.Name)
		}
		j := &join{unknown, renewed}
		r.beginJoin(j)
		r.apply()
		defer func() {
			r.endJoin(j)
			r.work.Go(r.apply)
		}()
		waiting, cancel := context.WithTimeout(ctx, relayTime)
		r.await(waiting, names)
		cancel()
	}
	withoutAddrs := choice != client.JoinSkipsRelay && r.Start.Direct == config.Off && len(inv.Addrs) > 0 && r.usesAnyOf(inv)
	if withoutAddrs {
		inv.Addrs = nil
	}
	r.joining.Store(inv.ID, true)
	defer r.joining.Delete(inv.ID)
	who, err := r.Node.Join(ctx, inv)
	problems, older := r.listProblems(inv, names)
	if err != nil {
		if all := append(problems, older...); len(all) > 0 {
			err = addToJoinError(err, "; and the relay of the invitation: "+strings.Join(all, "; "))
		}
		if withoutAddrs && errors.Is(err, &kinds.Error{Code: kinds.Unreachable}) {
			err = addToJoinError(err, "; its addresses are not dialled, since reach.direct is off: acpctl join --no-relay dials them")
		}
		return nil, err
	}
	p := &client.NamedPeer{ID: who.ID, Name: who.Name}
	for _, s := range unknown {
		if err := r.keep(s); err != nil {
			p.Warning = "the relay " + s.Name + " is not kept: " + kinds.AsError(explainError("join", err)).Message
			return p, nil
		}
		p.Kept = append(p.Kept, s.Name)
	}
	for _, s := range renewed {
		if !r.isUp(s) {
			continue // the new token is of no more use than the old one
		}
		if err := r.keepToken(s); err != nil {
			p.Warning = "the new token of the relay " + s.Name + " is not kept: " + kinds.AsError(explainError("join", err)).Message
			return p, nil
		}
		p.Kept = append(p.Kept, s.Name)
	}
	switch {
	case len(problems) > 0 && len(unknown) > 0:
		p.Warning = "the relay is kept, and cannot be used yet: " + strings.Join(problems, "; ")
	case len(problems) > 0:
		p.Warning = "the token of the invitation is not kept, as the relay cannot be used with it: " + strings.Join(problems, "; ")
	case len(older) > 0:
		p.Warning = "a relay of the invitation cannot be used: " + strings.Join(older, "; ")
	}
	return p, nil
}

// listRenewed returns those kept relays that refuse this daemon, and for which an invitation has another token, with
// that token. It leaves out relays to which the owner logs in with credentials or as a user.
func (r *Service) listRenewed(inv identity.Invitation) []config.Relay {
	var renewed []config.Relay
	for _, u := range r.list() {
		named := findInvited(inv, u.URL)
		if named == nil || named.Token == "" || u.source != client.RelayKept || u.link == nil || u.describe().State != client.RelayRefused {
			continue
		}
		if login := u.login(); login != client.LoginToken && login != client.LoginNkey || string(u.Token) == named.Token {
			continue
		}
		next := u.Relay
		next.Token, next.Share = config.Secret(named.Token), false // it is the inviter's to give away
		renewed = append(renewed, next)
	}
	return renewed
}

// keepToken writes the token of a kept relay to relays.yaml, and whether it may be given away.
func (r *Service) keepToken(s config.Relay) error {
	return r.changeKept(func(kept []config.Relay) ([]config.Relay, error) {
		for i := range kept {
			if kept[i].Name == s.Name && kept[i].URL == s.URL {
				kept[i].Token, kept[i].Share = s.Token, s.Share
				return kept, nil
			}
		}
		return nil, kinds.Errorf(kinds.NotFound, "there is no relay %s any more: acpctl relay add it again", s.Name)
	})
}

// isUp reports whether a relay is up with the token of s. Another join may be trying another one.
func (r *Service) isUp(s config.Relay) bool {
	return slices.ContainsFunc(r.list(), func(u *usedRelay) bool {
		return u.Name == s.Name && u.URL == s.URL && u.Token == s.Token && u.describe().State == client.RelayUp
	})
}

// listProblems returns why none of the relays in names is up, nothing if one is. Where one refuses the login it says
// what the operator needs: the errors of package relay name this daemon's nkey. older is about the other relays of an
// invitation: those that this daemon used before and that refuse it.
func (r *Service) listProblems(inv identity.Invitation, names []string) (problems, older []string) {
	renewed := r.listRenewed(inv)
	isUp := false
	for _, u := range r.list() {
		row := u.describe()
		isNew := slices.Contains(names, u.Name)
		switch {
		case isNew && row.State == client.RelayUp:
			isUp = true
		case isNew && row.Error == "":
			problems = append(problems, u.URL+": no answer within "+relayTime.String())
		case isNew:
			problems = append(problems, row.Error)
		case u.link == nil || row.State != client.RelayRefused || findInvited(inv, u.URL) == nil:
		case slices.ContainsFunc(renewed, func(n config.Relay) bool { return n.Name == u.Name }):
			older = append(older, u.Name+" refuses this daemon, and the invitation has a token for it: acpctl join --keep-relay takes it")
		default:
			older = append(older, u.Name+": "+row.Error)
		}
	}
	if isUp {
		problems = nil
	}
	return problems, older
}

// usesAnyOf reports whether this daemon uses one of the relays of an invitation.
func (r *Service) usesAnyOf(inv identity.Invitation) bool {
	return slices.ContainsFunc(r.list(), func(u *usedRelay) bool { return u.link != nil && findInvited(inv, u.URL) != nil })
}

// findInvited returns the relay of an invitation that has a URL, or nil.
func findInvited(inv identity.Invitation, url string) *identity.InvitedRelay {
	for i := range inv.Relays {
		if inv.Relays[i].URL == url {
			return &inv.Relays[i]
		}
	}
	return nil
}

// listUnknown returns the relays of an invitation that this daemon does not use, each with a name.
func (r *Service) listUnknown(inv identity.Invitation) []config.Relay {
	used := r.ListURLs()
	var unknown []config.Relay
	var taken []string // by those before it: two may be of one host
	for _, named := range inv.Relays {
		if slices.Contains(used, named.URL) {
			continue
		}
		s := config.Relay{Name: r.pickName(named.URL, taken...), URL: named.URL, Token: config.Secret(named.Token)}
		unknown, taken = append(unknown, s), append(taken, s.Name)
	}
	return unknown
}

// beginJoin makes the relays of an invitation wanted until endJoin is called. The caller calls apply after both.
func (r *Service) beginJoin(j *join) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joins = append(r.joins, j)
}

func (r *Service) endJoin(j *join) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joins = slices.DeleteFunc(r.joins, func(other *join) bool { return other == j })
}

// isInvited reports whether a relay is of an invitation by which this daemon is joining.
func (r *Service) isInvited(s config.Relay) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.joins, func(j *join) bool { return slices.Contains(j.unknown, s) })
}

// addToJoinError adds a text to the error of a join, unless the inviter has answered.
func addToJoinError(err error, text string) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.From != "" {
		return err
	}
	told := *e
	told.Message += text
	return &told
}
