package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxInvitations    = 8
	defaultInvitation = 10 * time.Minute
)

var (
	// ErrInvitationsFull says that eight invitations are open.
	ErrInvitationsFull = fmt.Errorf("invite: %d invitations are open: wait until one expires", maxInvitations)
	// ErrNoInvitation says that no open invitation has the token.
	ErrNoInvitation = errors.New("join: the invitation is unknown or has expired: ask for a new one")
	// ErrInvitationUsed says that another key has redeemed the token.
	ErrInvitationUsed = errors.New("join: the invitation was used by somebody else: tell who invited you, and ask for a new one")
)

// Invitations are the open invitations of one daemon: at most eight, in memory.
// The zero value has none. It is safe for concurrent use.
type Invitations struct {
	last atomic.Pointer[time.Time] // when the last one expires

	// mu is held over Redeem's admit too: that is what lets one of two win.
	// Handshakes, which ask Any, do not wait for it.
	mu   sync.Mutex
	open []openInvitation
}

type openInvitation struct {
	token   [16]byte
	expires time.Time
	name    string // the petname meant for who redeems it; "": what it calls itself
	usedBy  ID     // zero: nobody yet
}

// Open makes an invitation that lasts d, or 10 minutes if d is 0 or less, for a
// peer that will have the petname name here; "": what it calls itself. With eight
// open it returns [ErrInvitationsFull].
func (v *Invitations) Open(d time.Duration, name string) (token [16]byte, expires time.Time, err error) {
	if d <= 0 {
		d = defaultInvitation
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	if len(v.open) >= maxInvitations {
		return token, expires, ErrInvitationsFull
	}
	rand.Read(token[:])
	expires = time.Now().Add(d)
	v.open = append(v.open, openInvitation{token: token, expires: expires, name: name})
	if last := v.last.Load(); last == nil || last.Before(expires) {
		v.last.Store(&expires)
	}
	return token, expires, nil
}

// Any reports whether an invitation is open. One that was redeemed still is,
// until it expires: its joiner may not have heard the answer.
func (v *Invitations) Any() bool {
	last := v.last.Load()
	return last != nil && time.Now().Before(*last)
}

// Redeem admits the owner of key, which a handshake has proved, if token belongs
// to an open invitation that no other key has redeemed. It calls admit, which
// writes the trust store, with the name that Open was given, and binds the token to the key if that returns nil.
// The same key may repeat it until the invitation expires, and admit is called
// again; any other gets [ErrInvitationUsed]. A token that fits none
// gets [ErrNoInvitation].
//
// Calls wait for each other, and admit must not call v.
func (v *Invitations) Redeem(token [16]byte, key ID, admit func(name string) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	var found *openInvitation
	for i := range v.open {
		// All are compared, so that time does not tell which came close.
		if subtle.ConstantTimeCompare(v.open[i].token[:], token[:]) == 1 {
			found = &v.open[i]
		}
	}
	switch {
	case found == nil:
		return ErrNoInvitation
	case !found.usedBy.IsZero() && found.usedBy != key:
		return ErrInvitationUsed
	}
	if err := admit(found.name); err != nil {
		return err
	}
	found.usedBy = key
	return nil
}

func (v *Invitations) expire() {
	now := time.Now()
	v.open = slices.DeleteFunc(v.open, func(o openInvitation) bool { return !now.Before(o.expires) })
}
