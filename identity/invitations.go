package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// MaxInvitationUses is how many keys can redeem one invitation at most.
const MaxInvitationUses = 64

const (
	maxInvitations    = 8  // that can be used
	maxUsedUp         = 64 // that are kept for those who repeat a join
	defaultInvitation = 10 * time.Minute
)

var (
	// ErrInvitationsFull says that eight invitations are open that can be used.
	ErrInvitationsFull = ownwords.Errorf("invite: %d invitations are open that can still be used: wait until one is used or expires, or end some with acpctl invite --revoke", maxInvitations)
	// ErrNoInvitation says that no open invitation has the token.
	ErrNoInvitation = ownwords.New("join: the invitation is unknown, has expired or was revoked: ask for a new one")
	// ErrInvitationUsed says that other keys have redeemed the token, as many as it is for.
	ErrInvitationUsed = ownwords.New("join: others have used up the invitation: ask for a new one, and if it was only for you, warn the person who invited you")
)

// Invitations are the open invitations of one daemon, in memory: at most eight that can be used, and those
// that are used up.
// The zero value is empty. It is safe for concurrent use.
type Invitations struct {
	last atomic.Pointer[deadline] // of the one that ends last; nil if all have ended

	// mu is held over Redeem's call of trust too: so one of two joiners wins.
	// Handshakes, which ask HasOpen, do not wait for it.
	mu   sync.Mutex
	open []invitationEntry
}

// InvitationInfo describes an open invitation for the owner, without its token.
type InvitationInfo struct {
	ID      string    // 8 hex digits, by which it is revoked
	Expires time.Time // by the wall clock
	Name    string    // the petname that joiners get, the second one with -2; "": what each calls itself
	Uses    int       // how many keys can redeem it, 1 to MaxInvitationUses
	UsedBy  []ID      // the keys that redeemed it, the first one first
}

// isUsedUp reports whether as many keys have redeemed the invitation as it is for.
func (o *InvitationInfo) isUsedUp() bool { return len(o.UsedBy) >= o.Uses }

// isFor reports whether a key may redeem the invitation.
func (o *InvitationInfo) isFor(key ID) bool {
	return !o.isUsedUp() || slices.Contains(o.UsedBy, key)
}

type invitationEntry struct {
	InvitationInfo
	token [16]byte
	ends  deadline
}

// deadline is the time at which an invitation ends, by whichever clock reaches it first.
// The monotonic one stands still while a machine sleeps; the wall clock may be set back.
type deadline struct{ monotonic, wall time.Time }

func newDeadline(d time.Duration) deadline {
	at := time.Now().Add(d)
	return deadline{monotonic: at, wall: at.Round(0)}
}

func (e deadline) isReached() bool {
	now := time.Now()
	return !now.Before(e.monotonic) || !now.Round(0).Before(e.wall)
}

// Issue makes an invitation that lasts d, or 10 minutes if d is 0 or less, and that as many
// keys can redeem as uses says. They will have the petname name here, the second one with -2;
// "": what each calls itself. With eight open that can be used it returns [ErrInvitationsFull].
func (v *Invitations) Issue(d time.Duration, name string, uses int) (token [16]byte, opened InvitationInfo, err error) {
	if uses < 1 || uses > MaxInvitationUses {
		return token, opened, ownwords.Errorf("invite: %d uses: expected 1 to %d", uses, MaxInvitationUses)
	}
	if d <= 0 {
		d = defaultInvitation
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropExpired()
	usedUp := 0
	for i := range v.open {
		if v.open[i].isUsedUp() {
			usedUp++
		}
	}
	switch {
	case len(v.open)-usedUp >= maxInvitations:
		return token, opened, ErrInvitationsFull
	case usedUp >= maxUsedUp:
		oldest := slices.IndexFunc(v.open, func(o invitationEntry) bool { return o.isUsedUp() })
		v.open = slices.Delete(v.open, oldest, oldest+1)
	}
	rand.Read(token[:])
	var id [4]byte // another one than the token's beginning: it is shown
	rand.Read(id[:])
	ends := newDeadline(d)
	opened = InvitationInfo{ID: hex.EncodeToString(id[:]), Expires: ends.wall, Name: name, Uses: uses}
	v.setOpenEntries(append(v.open, invitationEntry{InvitationInfo: opened, token: token, ends: ends}))
	return token, opened, nil
}

// HasOpen reports whether an invitation is open. One that was redeemed as often as it can be
// still is, until it ends: a joiner may not have heard the answer.
func (v *Invitations) HasOpen() bool {
	last := v.last.Load()
	return last != nil && !last.isReached()
}

// List returns the open invitations in the order in which they were made. It waits
// for a Redeem that is under way.
func (v *Invitations) List() []InvitationInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropExpired()
	all := make([]InvitationInfo, len(v.open))
	for i, o := range v.open {
		all[i] = o.InvitationInfo
		all[i].UsedBy = slices.Clone(o.UsedBy)
	}
	return all
}

// Revoke ends the invitations that match and returns how many there were. It waits for a
// Redeem that is under way: when it returns, no key can redeem one of them.
func (v *Invitations) Revoke(match func(InvitationInfo) bool) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropExpired()
	before := len(v.open)
	v.setOpenEntries(slices.DeleteFunc(v.open, func(o invitationEntry) bool { return match(o.InvitationInfo) }))
	return before - len(v.open)
}

// Redeem redeems the open invitation that token belongs to, for a key that a handshake
// has proved. It calls trust, which writes the trust store, with the name that Issue was
// given. If trust returns nil, one use of the token is bound to the key: the same key may
// repeat the call until the invitation expires, and trust is called again. When all uses are
// bound, any other key gets [ErrInvitationUsed]. A token that belongs to none gets
// [ErrNoInvitation].
//
// Calls wait for each other, and trust must not call v.
func (v *Invitations) Redeem(token [16]byte, key ID, trust func(name string) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropExpired()
	var found *invitationEntry
	for i := range v.open {
		// All are compared, so that time does not tell which came close.
		if subtle.ConstantTimeCompare(v.open[i].token[:], token[:]) == 1 {
			found = &v.open[i]
		}
	}
	switch {
	case found == nil:
		return ErrNoInvitation
	case !found.isFor(key):
		return ErrInvitationUsed
	}
	if err := trust(found.Name); err != nil {
		return err
	}
	if !slices.Contains(found.UsedBy, key) {
		found.UsedBy = append(found.UsedBy, key)
	}
	return nil
}

// dropExpired drops the invitations that have ended. The caller holds mu.
func (v *Invitations) dropExpired() {
	v.setOpenEntries(slices.DeleteFunc(v.open, func(o invitationEntry) bool { return o.ends.isReached() }))
}

// setOpenEntries sets the open invitations, and what HasOpen looks at. The caller holds mu.
func (v *Invitations) setOpenEntries(open []invitationEntry) {
	v.open = open
	if len(open) == 0 {
		v.last.Store(nil)
		return
	}
	last := slices.MaxFunc(open, func(a, b invitationEntry) int { return a.ends.monotonic.Compare(b.ends.monotonic) })
	v.last.Store(&last.ends)
}
