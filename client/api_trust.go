package client

import (
	"time"

	"github.com/acpd/acpd/identity"
)

// Params and results about whom the daemon trusts: invitations, rosters, strangers.

// MaxInvitation bounds the life of an invitation.
const MaxInvitation = 24 * time.Hour

// MaxInvitationUses is how many daemons can join by one invitation at most.
const MaxInvitationUses = identity.MaxInvitationUses

// InviteParams are the params of invite.
type InviteParams struct {
	ExpiresSecs uint64 `json:"expires_secs,omitzero"` // 0: 10 minutes; up to MaxInvitation
	Name        string `json:"name,omitzero"`         // what the joiner will be called here, a second one with -2; "": what it calls itself
	Uses        uint64 `json:"uses,omitzero"`         // how many daemons can join by it, up to MaxInvitationUses; 0: one

	NoRelay        bool `json:"no_relay,omitzero"`        // name no relay, and write the longer form that acpd 0.1.0 reads
	WithCredential bool `json:"with_credential,omitzero"` // give the tokens of relays away that are marked for it
}

// Invitation is the result of invite.
type Invitation struct {
	URI     string    `json:"uri"` // a secret until it expires
	Expires time.Time `json:"expires"`
	ID      string    `json:"id"` // names it to revoke; not a secret

	Relays []string `json:"relays,omitzero"` // URLs of relays that it names, without secrets
	Shared []string `json:"shared,omitzero"` // of these, those whose token is in it: that cannot be taken back
}

// OpenInvitation is a row of invitations.
type OpenInvitation struct {
	ID      string      `json:"id"`
	Expires time.Time   `json:"expires"`
	Name    string      `json:"name,omitzero"`    // what the joiner will be called here; "": what it calls itself
	UsedBy  *NamedPeer  `json:"used_by,omitzero"` // who has used an invitation for one daemon, and can use it again; nil if nobody has
	Uses    int         `json:"uses"`             // how many daemons can join by it
	Left    int         `json:"left"`             // how many still can
	Joined  []NamedPeer `json:"joined,omitzero"`  // those that have, and may repeat it
}

// Invitations is the result of invitations, which has no params.
type Invitations struct {
	Invitations []OpenInvitation `json:"invitations"`
}

// RevokeParams are the params of revoke: either ID, or All.
type RevokeParams struct {
	ID  string `json:"id,omitzero"`
	All bool   `json:"all,omitzero"`
}

// Revoked is the result of revoke.
type Revoked struct {
	Revoked int `json:"revoked"` // how many invitations
}

// JoinParams are the params of join.
type JoinParams struct {
	URI   string    `json:"uri"`
	Relay JoinRelay `json:"relay,omitzero"` // what becomes of relays in it that the daemon does not use, and of tokens for kept ones that refuse it; "": the call is invalid if there are any of the former, and does without the latter
}

// JoinRelay says what becomes of relays in an invitation.
type JoinRelay string

// The values of JoinRelay.
const (
	JoinKeepsRelay JoinRelay = "keep" // use them for joining, and keep them if that succeeds
	JoinSkipsRelay JoinRelay = "skip" // do without them
)

// TrustParams are the params of trust.
type TrustParams struct {
	Peer  string   `json:"peer"`           // full id, or name or prefix of a pending one
	Name  string   `json:"name,omitzero"`  // "": the name it has, or what it calls itself
	Addrs []string `json:"addrs,omitzero"` // host:port, instead of those it had; nil leaves them, empty leaves none, nor where it was if it is not there now
}

// MaxRoster bounds the peers of one trust.roster.
const MaxRoster = 1024

// RosterParams are the params of trust.roster: 1 to MaxRoster peers.
type RosterParams struct {
	Peers []RosterEntry `json:"peers"`
	Apply bool          `json:"apply,omitzero"` // false: only say what would change
}

// RosterEntry is a machine that is to be trusted.
type RosterEntry struct {
	ID    identity.ID `json:"id"`
	Name  string      `json:"name"`           // what it will be called here
	Addrs []string    `json:"addrs,omitzero"` // host:port, instead of those it had; nil leaves them, empty leaves none

	// Relays are the URLs of relays at which it is, at most 2. The daemon adds none: a relay wants a login.
	Relays []string `json:"relays,omitzero"`
}

// Roster is the result of trust.roster.
type Roster struct {
	Peers   []RosterPeer `json:"peers"`   // one for each entry, in their order
	Applied bool         `json:"applied"` // all of them are trusted now; else nothing has changed

	// Relays are at most 8 that entries name and this daemon does not use; relay.add adds one.
	Relays []string `json:"relays,omitzero"`
}

// RosterPeer says what becomes of one entry.
type RosterPeer struct {
	ID      identity.ID  `json:"id"`
	Name    string       `json:"name"`  // afterwards
	Addrs   []string     `json:"addrs"` // that it was given, afterwards
	Change  RosterChange `json:"change"`
	Was     *RosterEntry `json:"was,omitzero"`     // of a changed one: before
	Problem string       `json:"problem,omitzero"` // of a refused one: what is in its way, and what to do
	Warning string       `json:"warning,omitzero"` // as of trust; of applied ones
}

// RosterChange is what a roster means for one peer.
type RosterChange string

// The changes. One refused entry keeps all others from being applied.
const (
	RosterNew       RosterChange = "new"
	RosterChanged   RosterChange = "changed" // its name or its addresses
	RosterUnchanged RosterChange = "unchanged"
	RosterSelf      RosterChange = "self"    // this daemon, which is skipped
	RosterRefused   RosterChange = "refused" // blocked, or in conflict with another peer or entry
)

// UntrustParams are the params of untrust.
type UntrustParams struct {
	Peer string `json:"peer"`
}

// The parts of an untrust that are written to disk.
const (
	PartTrust         = "trust"         // the block itself: until it is written, a restart forgets it
	PartChannels      = "channels"      // messages and records that wait for the peer
	PartInbox         = "inbox"         // messages of the peer's
	PartKept          = "kept"          // what is kept for the peer
	PartDelegations   = "delegations"   // the ends of those with the peer
	PartWake          = "wake"          // what may wake sessions
	PartFiles         = "files"         // files of the peer's
	PartConversations = "conversations" // that conversations of headless runs with the peer are over
)

// Untrusted is the result of untrust. The peer is cut off even if Unwritten names parts.
type Untrusted struct {
	ID        identity.ID `json:"id"`
	Name      string      `json:"name"`
	Unwritten []string    `json:"unwritten,omitzero"` // parts that are not on disk yet; the daemon keeps trying
	Reason    string      `json:"reason,omitzero"`    // why the last of them is not
	Already   bool        `json:"already,omitzero"`   // it was blocked before this call
}

// NamedPeer is the result of join and trust: the peer that is trusted now.
type NamedPeer struct {
	ID      identity.ID `json:"id"`
	Name    string      `json:"name"`
	Warning string      `json:"warning,omitzero"` // of trust: settings that name the peer by its name meant another key before; of join: a relay that was kept cannot be used yet; of both: what the peer calls itself is kept from claims
	Kept    []string    `json:"kept,omitzero"`    // of join: names of the relays that it has kept, or whose new token
}

// PendingPeer is a stranger that called and proved its key.
type PendingPeer struct {
	ID           identity.ID     `json:"id"`
	Claim        string          `json:"claim"` // what it calls itself: no proof
	Addr         string          `json:"addr"`  // from which it called
	Since        time.Time       `json:"since"`
	NameConflict bool            `json:"name_conflict,omitzero"` // the claim is a trusted peer's name
	PQ           identity.PQHash `json:"pq,omitzero"`            // hash of its post-quantum key
}

// Pending is the result of pending, which has no params.
type Pending struct {
	Pending []PendingPeer `json:"pending"`
}
