package daemon

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
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
		var all client.Invitations
		owner.must("invitations", nil, &all)
		return all.Invitations
	}
	if e := owner.refused(kinds.Invalid, "invite", client.InviteParams{Uses: 65}); !strings.Contains(e.Message, "at most 64") {
		t.Errorf("%v", e)
	}
	events := desk.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventTrust}}})
	var inv client.Invitation
	owner.must("invite", client.InviteParams{Uses: 3, Name: "build"}, &inv)
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

// When all places of an invitation are taken, whoever comes next is told so.
func TestInvitationIsForNoMore(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	var inv client.Invitation
	desk.dial().must("invite", client.InviteParams{Uses: 2}, &inv)
	for _, name := range []string{"laptop", "tablet"} {
		start(t, stateDir(t), name).dial().must("join", client.JoinParams{URI: inv.URI}, nil)
	}
	e := start(t, stateDir(t), "third").dial().refused(kinds.NotAuthorized, "join", client.JoinParams{URI: inv.URI})
	if !strings.Contains(e.Message, "others have used up the invitation") || desk.trust.Len() != 2 {
		t.Errorf("%v; trusted: %+v", e, desk.trust.Peers())
	}
}
