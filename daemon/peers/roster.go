package peers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/settings"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// serveTrustRoster returns what a roster would change. If the caller wants it applied, all its peers are
// trusted by one write of the trust store, or none of them, and then the error names the obstacles. It
// removes nobody, lifts no block, and skips this daemon's own entry.
func (s *Service) serveTrustRoster(ctx context.Context, _ *local.Conn, p *client.RosterParams) (any, error) {
	if n := len(p.Peers); n == 0 || n > client.MaxRoster {
		return nil, kinds.Errorf(kinds.Invalid, "trust: peers: %d of them: expected 1 to %d", n, client.MaxRoster)
	}
	missing, err := s.listMissingRelays(p.Peers)
	if err != nil {
		return nil, err
	}
	plan := s.planRoster(p.Peers)
	if !p.Apply {
		return &client.Roster{Peers: plan.rows, Relays: missing}, nil
	}
	if err := plan.checkNoneRefused(); err != nil {
		return nil, err
	}
	trusted, err := s.trustAllAfterCleanup(ctx, plan.peers)
	if err != nil {
		return nil, explainTrustError("trust", err)
	}
	for i, who := range trusted {
		if row := plan.peerRows[i]; row.Change != client.RosterUnchanged {
			row.Warning = s.beginTrust(who, plan.met[who.ID])
		}
	}
	return &client.Roster{Peers: plan.rows, Applied: true, Relays: missing}, nil
}

// listMissingRelays returns relays that entries name and that this daemon does not use, at most as many as it
// can use. It returns an error if a text is not the URL of a relay.
func (s *Service) listMissingRelays(entries []client.RosterEntry) (missing []string, err error) {
	used := s.Relays.ListURLs()
	for i, e := range entries {
		if n := len(e.Relays); n > identity.MaxInvitedRelays {
			return nil, kinds.Errorf(kinds.Invalid, "trust: peers[%d].relays: %d of them: give at most %d", i, n, identity.MaxInvitedRelays)
		}
		for j, text := range e.Relays {
			url, err := identity.ParseRelayURL(text)
			if err != nil {
				return nil, kinds.Errorf(kinds.Invalid, "trust: peers[%d].relays[%d]: %s", i, j, err)
			}
			if e.ID != s.Self && !slices.Contains(used, url) && len(missing) < config.MaxRelays && !slices.Contains(missing, url) {
				missing = append(missing, url)
			}
		}
	}
	return missing, nil
}

// rosterPlan is what a roster would change.
type rosterPlan struct {
	rows     []client.RosterPeer
	peers    []identity.Peer              // those to trust: all but this daemon
	peerRows []*client.RosterPeer         // their rows
	met      map[identity.ID]peer.Pending // the strangers among them that have called or are on the network
}

// planRoster finds what each entry changes, and what prevents it.
func (s *Service) planRoster(entries []client.RosterEntry) *rosterPlan {
	plan := &rosterPlan{rows: make([]client.RosterPeer, len(entries)), met: make(map[identity.ID]peer.Pending)}
	for _, w := range s.listStrangers() {
		plan.met[w.ID] = w
	}
	for i, e := range entries {
		row := &plan.rows[i]
		*row = client.RosterPeer{ID: e.ID, Name: e.Name, Addrs: e.Addrs, Change: client.RosterNew}
		if e.ID == s.Self {
			row.Change = client.RosterSelf
		} else {
			who := identity.Peer{ID: e.ID, Name: e.Name, Addrs: e.Addrs}
			if old, known := s.Trust.FindPeer(e.ID); known && old.Certificate == nil {
				compareWithTrusted(row, old)
			} else {
				who.PQ = cmp.Or(old.PQ, plan.met[e.ID].PQ) // old is a peer by its certificate
			}
			plan.peers = append(plan.peers, who)
			plan.peerRows = append(plan.peerRows, row)
		}
		if row.Addrs == nil {
			row.Addrs = []string{}
		}
	}
	for i, obstacle := range s.Trust.FindObstacles(plan.peers) {
		if obstacle != nil {
			row := plan.peerRows[i]
			row.Change, row.Was, row.Problem = client.RosterRefused, nil, ownwords.Of(obstacle)
		}
	}
	return plan
}

// compareWithTrusted makes row describe a change of a peer that is trusted already.
func compareWithTrusted(row *client.RosterPeer, old identity.Peer) {
	if row.Addrs == nil {
		row.Addrs = old.Addrs
	}
	if row.Name == old.Name && slices.Equal(row.Addrs, old.Addrs) {
		row.Change = client.RosterUnchanged
		return
	}
	row.Change = client.RosterChanged
	row.Was = &client.RosterEntry{ID: old.ID, Name: old.Name, Addrs: slices.Concat([]string{}, old.Addrs)}
}

// checkNoneRefused returns an error that names the refused entries, or nil.
func (p *rosterPlan) checkNoneRefused() error {
	var refused []string
	for _, row := range p.rows {
		if row.Change == client.RosterRefused {
			refused = append(refused, fmt.Sprintf("%.64q: %s", row.Name, row.Problem))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	told := strings.Join(refused[:min(len(refused), settings.MaxNamesInWarning)], "; ")
	if more := len(refused) - settings.MaxNamesInWarning; more > 0 {
		told += fmt.Sprintf("; and %d more", more)
	}
	return kinds.Errorf(kinds.Invalid, "trust: %d of %d peers are refused, so nothing was changed: %s", len(refused), len(p.rows), told)
}
