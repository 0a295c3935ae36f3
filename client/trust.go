package client

import (
	"context"
	"time"

	"github.com/acpd/acpd/kinds"
)

// Invite makes an invitation, which one stranger, or as many as the params say, can use until it
// expires; see [Client.Join].
func (c *Client) Invite(ctx context.Context, p InviteParams) (*Invitation, error) {
	return callBounded[Invitation](ctx, c, MethodInvite, &p)
}

// Invitations returns the open invitations, without their secrets.
func (c *Client) Invitations(ctx context.Context) ([]OpenInvitation, error) {
	r, err := callBounded[Invitations](ctx, c, MethodInvitations, nil)
	return r.Invitations, err
}

// Revoke ends open invitations. A peer that has joined by one of them stays trusted.
func (c *Client) Revoke(ctx context.Context, p RevokeParams) (*Revoked, error) {
	return callBounded[Revoked](ctx, c, MethodRevoke, &p)
}

// Join uses an invitation of another daemon. Afterwards that daemon and the caller's own trust
// each other. It waits 10 s at most.
func (c *Client) Join(ctx context.Context, uri string) (*NamedPeer, error) {
	return c.JoinWith(ctx, JoinParams{URI: uri})
}

// JoinWith does what Join does, also with an invitation that names relays.
func (c *Client) JoinWith(ctx context.Context, p JoinParams) (*NamedPeer, error) {
	patience := kinds.JoinDeadline
	if p.Relay == JoinKeepsRelay {
		patience += RelayPatience
	}
	return callForPeer[NamedPeer](ctx, c, patience, MethodJoin, &p, nil)
}

// Trust makes the daemon trust a peer from now on. For a peer that it trusts already, it
// changes the name and the addresses.
func (c *Client) Trust(ctx context.Context, p TrustParams) (*NamedPeer, error) {
	return callBounded[NamedPeer](ctx, c, MethodTrust, &p)
}

// TrustRoster says what a list of peers would change, and, if it is to be applied, makes the daemon
// trust all of them, or none. It removes nobody. It waits 30 s at most, while the daemon lives.
func (c *Client) TrustRoster(ctx context.Context, p RosterParams) (*Roster, error) {
	r := new(Roster)
	return r, c.callWhileDaemonAlive(ctx, rosterTime, MethodTrustRoster, &p, r)
}

// rosterTime bounds trust.roster: a busy machine begins to dial a thousand peers.
const rosterTime = 30 * time.Second

// Untrust ends trust in a peer, closes its connections and blocks its key. That holds
// when Untrust returns; the result names what is not on disk yet.
func (c *Client) Untrust(ctx context.Context, peer string) (*Untrusted, error) {
	return callBounded[Untrusted](ctx, c, MethodUntrust, &UntrustParams{Peer: peer})
}

// Pending returns the strangers that have called and wait for a decision: [Client.Trust] or
// [Client.Untrust].
func (c *Client) Pending(ctx context.Context) ([]PendingPeer, error) {
	r, err := callBounded[Pending](ctx, c, MethodPending, nil)
	return r.Pending, err
}
