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
	var invited []identity.InvitedRelay
	var used []*usedRelay
	for _, u := range r.list() {
		if u.link != nil && !(p.WithCredential && !u.Share) {
			used = append(used, u)
		}
	}
	rank := func(u *usedRelay) int {
		if u.describe().State == client.RelayUp {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(used, func(a, b *usedRelay) int { return rank(a) - rank(b) })
	for _, u := range used[:min(len(used), identity.MaxInvitedRelays)] {
		next := identity.InvitedRelay{URL: u.URL}
		if p.WithCredential {
			next.Token = string(u.Token)
		}
		invited = append(invited, next)
	}
	if p.WithCredential && len(invited) == 0 {
		return nil, kinds.Errorf(kinds.Invalid, "with_credential: no relay's token may be given away: add one with acpctl relay add --token-file FILE --share, or share: true in config.yaml")
	}
	return invited, nil
}

// relayTime is how long a join waits for a relay of its invitation to be up.
const relayTime = 5 * time.Second

// Join redeems an invitation. With reach.direct off, its addresses are neither dialled nor kept if this
// daemon uses a relay of it. Relays that it names and that are not used yet
// are used for that if choice says so, and kept if the join succeeds. So are new tokens for relays that refuse this
// daemon.
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
		if _, failure := r.getKept(); failure != nil {
			return nil, kinds.Errorf(kinds.Internal, "join: relays.yaml cannot be used, so no relay can be kept: %v: fix or remove the file, then acpctl reload", failure)
		}
		for _, s := range slices.Concat(unknown, renewed) {
			names = append(names, s.Name)
		}
		r.addInvited(unknown, renewed)
		r.apply()
		defer func() {
			r.removeInvited(unknown, renewed)
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
	problem := r.describeProblem(names)
	if err != nil {
		err = addProblem(err, strings.Join(slices.DeleteFunc([]string{problem, r.describeOldProblem(inv, names)}, func(s string) bool { return s == "" }), "; "))
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
	switch old := r.describeOldProblem(inv, names); {
	case problem != "" && len(unknown) > 0:
		p.Warning = "the relay is kept, and cannot be used yet: " + problem
	case problem != "":
		p.Warning = "the token of the invitation is not kept, as the relay cannot be used with it: " + problem
	case old != "":
		p.Warning = "a relay of the invitation cannot be used: " + old
	}
	return p, nil
}

// listRenewed returns the kept relays for which an invitation has a token, and which refuse this daemon
// as it logs in now. One that works, that the owner gave credentials or a user, or that is in config.yaml
// is none of them.
func (r *Service) listRenewed(inv identity.Invitation) []config.Relay {
	var renewed []config.Relay
	for _, u := range r.list() {
		i := slices.IndexFunc(inv.Relays, func(r identity.InvitedRelay) bool { return r.URL == u.URL })
		if i < 0 || inv.Relays[i].Token == "" || u.source != client.RelayKept || u.link == nil || u.describe().State != client.RelayRefused {
			continue
		}
		if login := u.login(); login != client.LoginToken && login != client.LoginNkey || string(u.Token) == inv.Relays[i].Token {
			continue
		}
		next := u.Relay
		next.Token, next.Share = config.Secret(inv.Relays[i].Token), false // it is the inviter's to give away
		renewed = append(renewed, next)
	}
	return renewed
}

// keepToken writes the token of a kept relay to relays.yaml, and whether it may be shared.
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

// isUp reports whether a relay is up with the token of s: another join may have had another one tried.
func (r *Service) isUp(s config.Relay) bool {
	return slices.ContainsFunc(r.list(), func(u *usedRelay) bool {
		return u.Name == s.Name && u.URL == s.URL && u.Token == s.Token && u.describe().State == client.RelayUp
	})
}

// describeOldProblem returns what is wrong with the relays of an invitation that this daemon used before
// and that refuse it, and what to do; "" if nothing is. It leaves out the relays that names lists.
func (r *Service) describeOldProblem(inv identity.Invitation, names []string) string {
	renewed := r.listRenewed(inv)
	var problems []string
	for _, u := range r.list() {
		isInvited := slices.ContainsFunc(inv.Relays, func(r identity.InvitedRelay) bool { return r.URL == u.URL })
		if !isInvited || u.link == nil || slices.Contains(names, u.Name) {
			continue
		}
		row := u.describe()
		switch {
		case row.State != client.RelayRefused:
			continue
		case slices.ContainsFunc(renewed, func(n config.Relay) bool { return n.Name == u.Name }):
			problems = append(problems, u.Name+" refuses this daemon, and the invitation has a token for it: acpctl join --keep-relay takes it")
		default:
			problems = append(problems, u.Name+": "+row.Error)
		}
	}
	return strings.Join(problems, "; ")
}

// usesAnyOf reports whether this daemon uses one of the relays of an invitation.
func (r *Service) usesAnyOf(inv identity.Invitation) bool {
	return slices.ContainsFunc(r.list(), func(u *usedRelay) bool {
		return u.link != nil && slices.ContainsFunc(inv.Relays, func(r identity.InvitedRelay) bool { return r.URL == u.URL })
	})
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

func (r *Service) addInvited(unknown, renewed []config.Relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.invited = append(r.invited, unknown...)
	r.renewed = append(r.renewed, renewed...)
}

// isInvited reports whether a relay is of an invitation by which this daemon is joining.
func (r *Service) isInvited(s config.Relay) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.invited, s)
}

// removeInvited takes each out once: another join may have the same.
func (r *Service) removeInvited(unknown, renewed []config.Relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.invited = removeEach(r.invited, unknown)
	r.renewed = removeEach(r.renewed, renewed)
}

func removeEach(from, all []config.Relay) []config.Relay {
	for _, s := range all {
		if i := slices.Index(from, s); i >= 0 {
			from = slices.Delete(slices.Clone(from), i, i+1)
		}
	}
	return from
}

// describeProblem returns why none of the relays is up, "" if one is. Where one refuses the login it
// says what the operator needs: the errors of package relay name this daemon's nkey.
func (r *Service) describeProblem(names []string) string {
	var problems []string
	for _, u := range r.list() {
		if !slices.Contains(names, u.Name) {
			continue
		}
		row := u.describe()
		switch {
		case row.State == client.RelayUp:
			return ""
		case row.Error == "":
			problems = append(problems, u.URL+": no answer within "+relayTime.String())
		default:
			problems = append(problems, row.Error)
		}
	}
	return strings.Join(problems, "; ")
}

// addProblem adds to the error of a join why the relay of the invitation was no help.
func addProblem(err error, problem string) error {
	if problem == "" {
		return err
	}
	return addToJoinError(err, "; and the relay of the invitation: "+problem)
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
