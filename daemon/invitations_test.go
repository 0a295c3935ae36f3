package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// Several daemons join by one invitation, whose text is like any other. The owner hears of each,
// and sees who came and how many still can. Untrusting one ends it for those who did not come yet.
// holds: security.md#against-strangers
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
func TestInvitationForSeveral(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	owner := desk.dial()
	list := func() (rows []client.OpenInvitation) {
		all := get[client.Invitations](owner, "invitations", nil)
		return all.Invitations
	}
	owner.refused(kinds.Invalid, "invite", client.InviteParams{Uses: 65}, "at most 64")
	events := desk.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventTrust}}})
	inv := get[client.Invitation](owner, "invite", client.InviteParams{Uses: 3, Name: "build"})
	if _, err := identity.ParseInvitation(inv.URI); err != nil {
		t.Errorf("a daemon that knows of one use alone cannot read it: %v", err)
	}
	if all := list(); len(all) != 1 || all[0].Uses != 3 || all[0].Left != 3 || all[0].Joined != nil {
		t.Errorf("%+v", all)
	}
	var builds []*running
	for _, name := range []string{"build", "build-2"} {
		build := start(t, stateDir(t), "build")
		builds = append(builds, build)
		for range 2 { // its answer may have been lost
			build.dial().must("join", client.JoinParams{URI: inv.URI}, nil)
			if e := await.Receive(t, "event", events); e.Peer != build.ID() || e.Name != name {
				t.Errorf("%+v, want %s", e, name)
			}
		}
	}
	all := list()
	if len(all) != 1 || all[0].Left != 1 || len(all[0].Joined) != 2 || all[0].Joined[1].ID != builds[1].ID() || all[0].Joined[1].Name != "build-2" || all[0].UsedBy != nil {
		t.Errorf("%+v", all)
	}
	owner.must("untrust", client.UntrustParams{Peer: "build"}, nil)
	if all := list(); len(all) != 0 {
		t.Errorf("after untrust: %+v", all)
	}
	third := start(t, stateDir(t), "build")
	for _, late := range []*running{third, builds[0]} {
		late.dial().refused(kinds.NotAuthorized, "join", client.JoinParams{URI: inv.URI})
	}
	if p, ok := desk.trust.FindPeer(builds[1].ID()); !ok || p.Name != "build-2" || desk.trust.Len() != 1 {
		t.Errorf("trusted: %+v", desk.trust.Peers())
	}
}

// An invitation without a relay is in the form that acpd 0.1.0 reads; any other one is short.
func TestInvitationForAnOlderDaemon(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	for _, p := range []client.InviteParams{{}, {NoRelay: true}} {
		out := get[client.Invitation](desk.dial(), "invite", p)
		inv, err := identity.ParseInvitation(out.URI)
		want := inv.String()
		if p.NoRelay {
			want = inv.LongString()
		}
		if err != nil || out.URI != want || inv.PQ.IsZero() || len(inv.Addrs) == 0 {
			t.Errorf("%+v: %s, %v", p, out.URI, err)
		}
	}
}

// TestReservedClaims: a daemon that calls itself user or claude is called so nowhere, unless
// the owner says so.
// holds: security.md#reserved-names
func TestReservedClaims(t *testing.T) {
	t.Parallel()
	user, claude, desk := start(t, stateDir(t), "user"), start(t, stateDir(t), "claude"), start(t, stateDir(t), "desk")
	inv := get[client.Invitation](user.dial(), "invite", nil)
	named := get[client.NamedPeer](claude.dial(), "join", client.JoinParams{URI: inv.URI})
	if named.Name != "peer-"+user.ID().Label() {
		t.Errorf("the inviter is called %q", named.Name)
	}
	if p, _ := user.trust.FindPeer(claude.ID()); p.Name != "peer-"+claude.ID().Label() {
		t.Errorf("the joiner is called %q", p.Name)
	}
	desk.dial().must("invite", client.InviteParams{Name: "claude"}, &inv)
	claude.dial().must("join", client.JoinParams{URI: inv.URI}, nil)
	if p, _ := desk.trust.FindPeer(claude.ID()); p.Name != "claude" {
		t.Errorf("the joiner that the owner named is called %q", p.Name)
	}
	user.dial().must("trust", client.TrustParams{Peer: desk.ID().String(), Addrs: []string{desk.node.Addr().String()}}, nil)
	await.Until(t, "pending", func() bool { return len(desk.node.Pending()) == 1 })
	desk.dial().must("trust", client.TrustParams{Peer: "user"}, &named)
	if named.ID != user.ID() || named.Name != "peer-"+user.ID().Label() {
		t.Errorf("the stranger is called %q", named.Name)
	}
	desk.dial().must("trust", client.TrustParams{Peer: user.ID().String(), Name: "user"}, &named)
	if named.Name != "user" {
		t.Errorf("the owner's name for it became %q", named.Name)
	}
}

// Who was untrusted does not come back by the invitation that it has used, also when
// it is trusted again; those that are open can be seen and ended.
// holds: security.md#against-strangers
func TestInvitationsEnd(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	owner, joiner := desk.dial(), laptop.dial()
	open := func(p client.InviteParams) (inv client.Invitation) {
		owner.must("invite", p, &inv)
		return inv
	}
	list := func() (rows []client.OpenInvitation) {
		all := get[client.Invitations](owner, "invitations", nil)
		return all.Invitations
	}
	used, spare, other := open(client.InviteParams{}), open(client.InviteParams{Name: "tablet"}), open(client.InviteParams{ExpiresSecs: 3600})
	if left := time.Until(used.Expires); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("expires in %v", left)
	}
	owner.refused(kinds.Invalid, "invite", client.InviteParams{ExpiresSecs: 25 * 3600}, "24 hours")
	joiner.must("join", client.JoinParams{URI: used.URI}, nil)
	third := start(t, stateDir(t), "third").dial()
	third.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: used.URI}, "others have used up the invitation")
	third.refused(kinds.Invalid, "join", client.JoinParams{URI: "acp://nonsense"})
	all := list()
	if len(all) != 3 || all[0].ID != used.ID || !all[0].Expires.Equal(used.Expires) || all[0].UsedBy == nil || all[0].UsedBy.Name != "laptop" ||
		all[1].ID != spare.ID || all[1].Name != "tablet" || all[1].UsedBy != nil {
		t.Errorf("%+v", all)
	}

	owner.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	if all := list(); len(all) != 2 {
		t.Errorf("after untrust: %+v", all)
	}
	joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: used.URI})
	joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: spare.URI}, "untrusted")
	owner.must("trust", client.TrustParams{Peer: laptop.ID().String()}, nil)
	joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: used.URI})

	var revoked client.Revoked
	if owner.must("revoke", client.RevokeParams{ID: spare.ID}, &revoked); revoked.Revoked != 1 || len(list()) != 1 {
		t.Errorf("%+v", revoked)
	}
	joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: spare.URI})
	owner.refused(kinds.NotFound, "revoke", client.RevokeParams{ID: spare.ID}, spare.ID)
	for _, p := range []client.RevokeParams{{}, {ID: other.ID, All: true}} {
		owner.refused(kinds.Invalid, "revoke", p)
	}
	if owner.must("revoke", client.RevokeParams{All: true}, &revoked); revoked.Revoked != 1 || len(list()) != 0 {
		t.Errorf("%+v", revoked)
	}
	third.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: other.URI}, "it has expired, was used or revoked, or the daemon there was started anew")
	if owner.must("revoke", client.RevokeParams{All: true}, &revoked); revoked.Revoked != 0 {
		t.Errorf("%+v", revoked)
	}
}

// TestJoinIsTrustOnBothSides: the inviter does not call before the joiner has its
// trust on disk, and be refused.
func TestJoinIsTrustOnBothSides(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	told := make(chan client.EventType, 64)
	watch := desk.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		e := new(client.Event)
		if r.ReadParams(e) == nil {
			told <- e.Type
		}
	})
	watch.must("subscribe", client.SubscribeParams{Events: client.EventFilter{All: true}}, nil)
	inv := get[client.Invitation](desk.dial(), "invite", nil)
	laptop.dial().must("join", client.JoinParams{URI: inv.URI}, nil)
	desk.dial().must("ping", client.PingParams{To: "laptop"}, nil)
	for _, want := range []client.EventType{client.EventTrust, client.EventUp} {
		if got := await.Receive(t, string(want), told); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}
