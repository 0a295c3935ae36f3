package daemon

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/daemon/names"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// listNameRelays returns the relays that are asked for names. Those of invitations are not, until they are kept:
// they would see whom this daemon looks for.
func (d *Daemon) listNameRelays() map[string]names.Relay {
	all := make(map[string]names.Relay)
	for _, u := range d.relays.list() {
		if u.link != nil && !u.invited {
			all[u.Name] = u.link
		}
	}
	return all
}

// setNameOnRelays has the relays of listNameRelays find this daemon by the name in its certificate.
func (d *Daemon) setNameOnRelays() {
	for _, u := range d.relays.list() {
		if u.link != nil {
			_ = u.link.SetName(d.pickNameOn(u.relaySettings)) // the name of a certificate has the form, and none has too
		}
	}
}

// pickNameOn returns the name by which a relay has this daemon found; "": none.
func (d *Daemon) pickNameOn(s relaySettings) string {
	own := d.ownCertificate.Load()
	if s.invited || own == nil || len(own.raw) == 0 {
		return ""
	}
	return own.says.Name
}

// answerNameRequest returns this daemon's certificate, if a key has signed it whose hash is in want.
func (d *Daemon) answerNameRequest(asker identity.ID, want []byte) []byte {
	own := d.ownCertificate.Load()
	if own == nil || len(own.raw) == 0 || !own.says.IsValidAt(time.Now()) || d.trust.IsBlocked(asker) {
		return nil
	}
	signer := own.says.Signer().Hash()
	for hash := range slices.Chunk(want, len(signer)) {
		if bytes.Equal(hash, signer[:]) {
			return own.raw
		}
	}
	return nil
}

// isOwnCertifiedName reports whether this daemon has the name by its own certificate.
func (d *Daemon) isOwnCertifiedName(name string) bool {
	own := d.ownCertificate.Load()
	if own == nil || len(own.raw) == 0 {
		return false
	}
	short, authority, _ := strings.Cut(name, ".")
	return short == own.says.Name && slices.Contains(d.trust.ListAuthorityKeys(authority), own.says.Signer())
}

// mayAskForName reports whether relays are asked who has a name.
func (d *Daemon) mayAskForName(name string) bool {
	_, blocked := d.findBlockedPeer(name)
	return !blocked && d.names.IsAskable(name) && !d.isOwnCertifiedName(name) && len(d.listNameRelays()) > 0
}

// introduceByName returns the peer that has a name on a relay, after it has proved its key and shown the
// certificate. If it does not, relays are asked for the name again by a later call. It blocks as a call does.
func (d *Daemon) introduceByName(ctx context.Context, name string, forGuest bool) (identity.Peer, error) {
	c, err := d.names.Find(ctx, name, forGuest)
	if err != nil {
		return identity.Peer{}, err
	}
	if err := d.node.Introduce(ctx, c.ID); err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // that would say nothing of the key
			d.names.Doubt(c)
		}
		return identity.Peer{}, err
	}
	p, ok := d.trust.FindPeer(c.ID)
	if !ok || p.Certificate != nil && p.Name != name {
		d.names.Doubt(c)
		return identity.Peer{}, kinds.Errorf(kinds.Unreachable, "no peer %q is known: the key %s, which had that name on a relay, shows another certificate now", name, c.ID.Label()).WithDelivered(kinds.DeliveredNo)
	}
	return p, nil
}
