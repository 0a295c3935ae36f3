package waking

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// ListKnownPeers returns the peers that have a permission, or have caused a turn.
func (w *Waker) ListKnownPeers() []identity.ID {
	all := w.Rules.listPeers("")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.charges {
		all[c.cause] = true
	}
	return slices.Collect(maps.Keys(all))
}

// ForgetPeer removes, in memory, a peer's permissions, its waiting messages and the turns that are
// charged to it. [Waker.DeletePeer] deletes them on disk.
func (w *Waker) ForgetPeer(peer identity.ID) {
	w.Rules.Revoke(func(p Permission) bool { return p.Peer == peer })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charges = slices.DeleteFunc(w.charges, func(c *charge) bool { return c.cause == peer })
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return a.Peer.ID == peer })
	maps.DeleteFunc(w.declined, func(k heldKey, _ bool) bool { return k.peer == peer })
	for _, s := range w.sessions {
		s.waiting = slices.DeleteFunc(s.waiting, func(e *entry) bool { return e.Peer.ID == peer })
		if s.current != nil && s.current.Peer.ID == peer {
			s.current = nil
		}
		maps.DeleteFunc(s.bounds, func(k boundKey, _ reachedBound) bool { return k.peer == peer })
		delete(s.asked, peer)
	}
	w.changed.Set()
}

// DeletePeer deletes on disk what ForgetPeer has forgotten.
func (w *Waker) DeletePeer(ctx context.Context, peer identity.ID) error {
	unsaved := w.Rules.Save()
	left, err := store.ReadValue(ctx, w.DB, func(tx *store.Tx) (bool, error) { return hasChargesOf(tx, peer[:]) })
	if err == nil && left { // else nothing has to be written
		err = w.DB.Write(ctx, true, func(tx *store.Tx) error { return deleteChargesOf(tx, peer[:]) })
	}
	return cmp.Or(unsaved, err)
}
