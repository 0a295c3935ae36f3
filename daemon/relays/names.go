package relays

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/acpd/acpd/daemon/names"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// listNameRelays returns the relays that are asked for names. Those of invitations are not asked until they are kept,
// since they would see whom this daemon looks for.
func (r *Service) listNameRelays() map[string]names.Relay {
	all := make(map[string]names.Relay)
	for _, u := range r.list() {
		if u.link != nil && !u.invited {
			all[u.Name] = u.link
		}
	}
	return all
}

// setNameOnRelays makes the relays of listNameRelays find this daemon by the name in its certificate.
func (r *Service) setNameOnRelays() {
	for _, u := range r.list() {
		if u.link != nil {
			_ = u.link.SetName(r.pickNameOn(u.relaySettings)) // the name of a certificate has the form, and none has too
		}
	}
}

// pickNameOn returns the name by which others find this daemon on a relay, "" if they do not.
func (r *Service) pickNameOn(s relaySettings) string {
	_, says := r.Certificate()
	if s.invited || says == nil {
		return ""
	}
	return says.Name
}

// answerNameRequest returns this daemon's certificate if the hash of the key that has signed it is in want.
func (r *Service) answerNameRequest(asker identity.ID, want []byte) []byte {
	raw, says := r.Certificate()
	if says == nil || !says.IsValidAt(time.Now()) || r.Trust.IsBlocked(asker) {
		return nil
	}
	signer := says.Signer().Hash()
	for hash := range slices.Chunk(want, len(signer)) {
		if bytes.Equal(hash, signer[:]) {
			return raw
		}
	}
	return nil
}

// CanAsk reports whether there are relays that can be asked who has a name.
func (r *Service) CanAsk(name string) bool {
	return r.Names.IsAskable(name) && len(r.listNameRelays()) > 0
}

// Introduce returns the peer that has a name on a relay, after it has proved its key and shown the certificate. If it
// does not, a later call asks the relays for the name again. Introduce blocks as a call does. The caller has begun a
// search.
func (r *Service) Introduce(ctx context.Context, name string) (identity.Peer, error) {
	c, err := r.Names.Find(ctx, name)
	if err != nil {
		return identity.Peer{}, err
	}
	if err := r.Node.Introduce(ctx, c.ID); err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // that would say nothing of the key
			r.Names.Doubt(c)
		}
		return identity.Peer{}, err
	}
	p, ok := r.Trust.FindPeer(c.ID)
	if !ok || p.Certificate != nil && p.Name != name {
		r.Names.Doubt(c)
		return identity.Peer{}, kinds.Errorf(kinds.Unreachable, "no peer %q is known: the key %s, which had that name on a relay, shows another certificate now", name, c.ID.Label()).WithDelivered(kinds.DeliveredNo)
	}
	return p, nil
}
