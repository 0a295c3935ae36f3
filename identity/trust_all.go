package identity

import (
	"slices"
	"sort"

	"github.com/acpd/acpd/internal/ownwords"
)

// TrustAll makes each of peers trusted, or updates the peer that has its id, by one write: all
// of them, or none if there is an error. It returns them as stored. If that changes anything, it
// waits until the files are durable.
//
// An update keeps the fields that an entry leaves zero; a new peer needs a name. Names are compared as
// they are afterwards, so two peers may swap theirs. TrustAll lifts no block. What
// [TrustStore.FindObstacles] finds is the error.
func (t *TrustStore) TrustAll(peers []Peer) ([]Peer, error) {
	return applyChange(t, func(s *trustSnapshot) (trustRecord, []Peer, error) { return s.newRecordWithPeers(peers) })
}

// FindObstacles returns, for each of peers, what keeps [TrustStore.TrustAll] from trusting them:
// a [*BlockedError], a [*NameTakenError], [ErrTrustFull], or an error that says which field or
// which repetition is wrong; nil where nothing does. Another caller can change that.
func (t *TrustStore) FindObstacles(peers []Peer) []error {
	return t.current.Load().findObstacles(peers)
}

// newRecordWithPeers returns the record in which all of peers are trusted, and them as stored in
// it. If nothing would change, it returns s.trustRecord itself.
func (s *trustSnapshot) newRecordWithPeers(peers []Peer) (trustRecord, []Peer, error) {
	for _, err := range s.findObstacles(peers) {
		if err != nil {
			return trustRecord{}, nil, err
		}
	}
	changed := false
	stored := make([]Peer, len(peers))
	given := make(map[ID]bool, len(peers))
	for i, p := range peers {
		given[p.ID] = true
		old, known := s.findPeer(p.ID)
		stored[i] = p.withDefaults(old).prepareToStore()
		changed = changed || !known || !stored[i].isEqual(old)
	}
	if !changed {
		return s.trustRecord, stored, nil
	}
	next := s.copyForChange()
	next.Peers = slices.DeleteFunc(next.Peers, func(p Peer) bool { return given[p.ID] })
	next.Peers = append(next.Peers, stored...)
	sort.Slice(next.Peers, func(i, j int) bool { return next.Peers[i].Name < next.Peers[j].Name })
	return next, stored, nil
}

// findObstacles does what [TrustStore.FindObstacles] says.
func (s *trustSnapshot) findObstacles(peers []Peer) []error {
	given := make(map[ID]int, len(peers)) // the first entry of each id
	for i, p := range peers {
		if _, repeated := given[p.ID]; !repeated {
			given[p.ID] = i
		}
	}
	room := maxPeers - len(s.Peers)
	names := make(map[string]ID, len(peers))
	obstacles := make([]error, len(peers))
	for i, p := range peers {
		old, known := s.findPeer(p.ID)
		p = p.withDefaults(old).prepareToStore()
		_, blocked := s.blocked[p.ID]
		other, repeated := names[p.Name]
		holder, taken := s.byName[p.Name]
		if taken { // one that is given too has the name that it is given
			_, leaves := given[s.Peers[holder].ID]
			taken = !leaves
		}
		switch err := p.checkFields(); {
		case err != nil:
			obstacles[i] = err
		case blocked:
			obstacles[i] = &BlockedError{ID: p.ID}
		case given[p.ID] != i:
			obstacles[i] = ownwords.Errorf("%s is listed twice: remove one", p.ID.Label())
		case repeated:
			obstacles[i] = &NameTakenError{Name: p.Name, By: other}
		case taken:
			obstacles[i] = &NameTakenError{Name: p.Name, By: s.Peers[holder].ID}
		case !known && room == 0:
			obstacles[i] = ErrTrustFull
		case !known:
			room--
		}
		if _, repeated := names[p.Name]; !repeated {
			names[p.Name] = p.ID
		}
	}
	return obstacles
}

// findPeer returns the trusted peer with that id.
func (s *trustSnapshot) findPeer(id ID) (Peer, bool) {
	i, ok := s.byID[id]
	if !ok {
		return Peer{}, false
	}
	return s.Peers[i], true
}
