package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestStrangerWaitsForTrustOnBothSides(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	asker, owner := desk.dial(), laptop.dial()
	asker.refused(kinds.UnknownPeer, "query", client.QueryParams{To: "laptop", Payload: query("?")})
	asker.must("trust", client.TrustParams{Peer: laptop.ID().String(), Name: "laptop", Addrs: []string{laptop.node.Addr().String()}}, nil)
	asker.refused(kinds.NotTrusted, "query", client.QueryParams{To: "laptop", Payload: query("?")})
	var waiting client.Pending
	await.Until(t, "pending", func() bool {
		owner.must("pending", nil, &waiting)
		return len(waiting.Pending) == 1
	})
	if w := waiting.Pending[0]; w.ID != desk.ID() || w.Claim != "desk" || w.PQ.IsZero() || w.Addr != desk.node.Addr().String() {
		t.Errorf("%+v", w)
	}
	var named client.NamedPeer
	owner.must("trust", client.TrustParams{Peer: desk.ID().String()}, &named)
	if named.Name != "desk" || named.ID != desk.ID() {
		t.Errorf("%+v", named)
	}
	asker.must("ping", client.PingParams{To: "laptop"}, nil) // at once
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":""}`))
	asker.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
	if p, _ := laptop.trust.FindPeer(desk.ID()); p.PQ.IsZero() {
		t.Error("the post-quantum key is not pinned")
	}

	var peers client.Peers
	asker.must("peers", nil, &peers)
	if len(peers.Peers) != 1 || peers.Peers[0].State != client.PeerConnected || peers.Peers[0].Name != "laptop" || peers.Peers[0].Claim != "laptop" {
		t.Errorf("%+v", peers)
	}
}

// The pin of a first meeting is on disk soon after, and at the latest when the
// daemon has ended.
func TestPinsReachTheDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	pinned := func(r *running, of *running) bool {
		text, err := os.ReadFile(filepath.Join(r.dir, "trust.yaml"))
		return err == nil && strings.Contains(string(text), identity.HashPQ(of.key.PublicPQ()).String())
	}
	await.Until(t, "pinned", func() bool { p, _ := desk.trust.FindPeer(laptop.ID()); return !p.PQ.IsZero() })
	desk.stop()
	if !pinned(desk, laptop) {
		t.Error("the daemon ended and left the pin out")
	}
	await.Until(t, "on disk", func() bool { return pinned(laptop, desk) })
}

// holds: security.md#against-trusted-peers
func TestUntrustCutsTheLiveConnection(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, cancels := make(chan struct{}, 1), make(chan *client.Inbound, 1)
	laptop.agent(client.AttachParams{Name: "reviewer", Topics: []string{"none"}}, func(ctx context.Context, r *jsonrpc.Request) {
		switch r.Method {
		case "query":
			began <- struct{}{}
			<-ctx.Done()
			return
		case "cancel":
			cancels <- bind(t, r)
		}
		r.Respond(wire200)
	})
	asker, owner := desk.dial(), laptop.dial()
	asker.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "held"})}, nil)
	given := delegateTo(asker, "laptop", task1(""))
	failed := make(chan error, 1)
	go func() {
		failed <- desk.dial().call("query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
	}()
	await.Receive(t, "query", began)

	begun := time.Now()
	owner.must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	err := await.Receive(t, "the end of the query", failed)
	if took := time.Since(begun); took > 15*time.Second { // a second, and what a slow machine adds; its deadline is 30 s
		t.Errorf("the connection lived for %v", took)
	}
	if !errors.Is(err, &kinds.Error{Code: kinds.NotTrusted}) {
		t.Error(err)
	}
	if in := await.Receive(t, "cancel", cancels); *in.Ref != given.ID {
		t.Errorf("%+v", in)
	}
	asker.refused(kinds.NotTrusted, "ping", client.PingParams{To: "laptop"})
	var in client.Inbox
	owner.must("inbox", client.InboxParams{}, &in)
	if len(in.Messages) != 0 {
		t.Errorf("%+v", in)
	}
	if s := owner.state(given.ID); s.State != client.TaskCancelled {
		t.Errorf("%+v", s)
	}
	var waiting client.Pending
	owner.must("pending", nil, &waiting)
	if len(waiting.Pending) != 0 {
		t.Errorf("a blocked key is pending: %+v", waiting)
	}
	var peers client.Peers
	owner.must("peers", nil, &peers)
	if len(peers.Peers) != 1 || peers.Peers[0].State != client.PeerBlocked {
		t.Errorf("%+v", peers)
	}
}

// What an untrust has left on the disk goes at the next start.
// holds: security.md#against-trusted-peers
func TestStartFinishesAnUntrust(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	desk.dial().must("notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "held"})}, nil)
	laptop.stop()
	trust, _, err := identity.OpenTrustStore(laptop.dir)
	if err == nil {
		err = errors.Join(trust.Untrust(desk.ID()), trust.Save())
	}
	if err != nil {
		t.Fatal(err)
	}
	laptop = start(t, laptop.dir, "laptop")
	owner := laptop.dial()
	await.Until(t, "an empty inbox", func() bool {
		var in client.Inbox
		owner.must("inbox", client.InboxParams{}, &in)
		return len(in.Messages) == 0
	})
}

// A refusal that is older than the trust under which a delegation is on its way does
// not end it.
func TestRefusalLeavesWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	came, ack := make(chan *client.Inbound, 1), make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		came <- bind(t, r)
		<-ack
		r.Respond(wire.Payload(accepted))
	})
	asker := desk.dial()
	given := make(chan *client.DelegateAnswer, 1)
	go func() { given <- delegateTo(asker, "laptop", task1("")) }()
	id := await.Receive(t, "delegate", came).ID
	desk.tasks.EndRefusedBy(laptop.ID(), time.Now())
	close(ack)
	await.Receive(t, "the ack", given)
	if s := desk.dial().state(id); s.State != client.TaskAccepted {
		t.Errorf("%+v", s)
	}
}

// Who is trusted no more hears of it, and nobody waits for what will not come: the
// delegations end on both sides, whatever their direction.
func TestBeingUntrustedEndsDelegations(t *testing.T) {
	t.Parallel()
	for name, offline := range map[string]bool{"connected": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			cancels := make(chan *client.Inbound, 1)
			laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
			desk.agent(client.AttachParams{Name: "planner"}, func(_ context.Context, r *jsonrpc.Request) {
				if r.Method == "cancel" {
					cancels <- bind(t, r)
				}
				r.Respond(wire200)
			})
			asker := desk.dial()
			given, taken := delegateTo(asker, "laptop", task1("")), delegateTo(laptop.dial(), "desk", task1(""))
			waits := make(chan *client.Task, 1)
			go func() {
				got := new(client.Task)
				if err := desk.dial().call("wait", client.WaitParams{ID: given.ID}, got); err != nil {
					t.Error(err)
				}
				waits <- got
			}()
			if offline { // the refusal comes with the next dial
				if err := laptop.trust.Untrust(desk.ID()); err != nil {
					t.Fatal(err)
				}
				for _, c := range []*running{desk, laptop} {
					c.node.Disconnect(map[*running]*running{desk: laptop, laptop: desk}[c].ID())
				}
				desk.node.Connect(laptop.ID())
			} else {
				laptop.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil)
			}
			got := await.Receive(t, "the end of the wait", waits)
			if e := parse[kinds.Error](t, got.Result); got.State != client.TaskFailed || e.Code != kinds.NotTrusted {
				t.Errorf("given: %+v: %+v", got, e)
			}
			if in := await.Receive(t, "cancel", cancels); *in.Ref != taken.ID {
				t.Errorf("%+v", in)
			}
			if s := asker.state(taken.ID); s.State != client.TaskCancelled {
				t.Errorf("taken: %+v", s)
			}
			asker.refused(kinds.NotTrusted, "delegate", client.DelegateParams{To: "laptop", Payload: task1("")})
			var all client.Tasks
			if asker.must("tasks", nil, &all); len(all.Tasks) != 2 {
				t.Errorf("%+v", all.Tasks)
			}
		})
	}
}

var wire200 = payload(accepted)

type payload = wire.Payload

func TestInviteAndJoin(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	var inv client.Invitation
	desk.dial().must("invite", nil, &inv)
	if left := time.Until(inv.Expires); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("expires in %v", left)
	}
	if e := desk.dial().refused(kinds.Invalid, "invite", client.InviteParams{ExpiresSecs: 25 * 3600}); !strings.Contains(e.Message, "24 hours") {
		t.Errorf("%v", e)
	}
	desk.dial().must("invite", client.InviteParams{ExpiresSecs: 24 * 3600}, nil)
	joiner := laptop.dial()
	var named client.NamedPeer
	joiner.must("join", client.JoinParams{URI: inv.URI}, &named)
	if named.ID != desk.ID() || named.Name != "desk" {
		t.Errorf("%+v", named)
	}
	joiner.must("ping", client.PingParams{To: "desk"}, nil)
	third := start(t, stateDir(t), "third")
	third.dial().refused(kinds.NotAuthorized, "join", client.JoinParams{URI: inv.URI})
	third.dial().refused(kinds.Invalid, "join", client.JoinParams{URI: "acp://nonsense"})
}

// TestReservedClaims: a daemon that calls itself user or claude is called so nowhere, unless
// the owner says so.
// holds: security.md#reserved-names
func TestReservedClaims(t *testing.T) {
	t.Parallel()
	user, claude, desk := start(t, stateDir(t), "user"), start(t, stateDir(t), "claude"), start(t, stateDir(t), "desk")
	var inv client.Invitation
	user.dial().must("invite", nil, &inv)
	var named client.NamedPeer
	claude.dial().must("join", client.JoinParams{URI: inv.URI}, &named)
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
		var all client.Invitations
		owner.must("invitations", nil, &all)
		return all.Invitations
	}
	used, spare, other := open(client.InviteParams{}), open(client.InviteParams{Name: "tablet"}), open(client.InviteParams{ExpiresSecs: 3600})
	joiner.must("join", client.JoinParams{URI: used.URI}, nil)
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
	if e := joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: spare.URI}); !strings.Contains(e.Message, "untrusted") {
		t.Errorf("by another invitation: %v", e)
	}
	owner.must("trust", client.TrustParams{Peer: laptop.ID().String()}, nil)
	joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: used.URI})

	var revoked client.Revoked
	if owner.must("revoke", client.RevokeParams{ID: spare.ID}, &revoked); revoked.Revoked != 1 || len(list()) != 1 {
		t.Errorf("%+v", revoked)
	}
	joiner.refused(kinds.NotAuthorized, "join", client.JoinParams{URI: spare.URI})
	if e := owner.refused(kinds.NotFound, "revoke", client.RevokeParams{ID: spare.ID}); !strings.Contains(e.Message, spare.ID) {
		t.Errorf("%v", e)
	}
	for _, p := range []client.RevokeParams{{}, {ID: other.ID, All: true}} {
		owner.refused(kinds.Invalid, "revoke", p)
	}
	if owner.must("revoke", client.RevokeParams{All: true}, &revoked); revoked.Revoked != 1 || len(list()) != 0 {
		t.Errorf("%+v", revoked)
	}
	third := start(t, stateDir(t), "third")
	if e := third.dial().refused(kinds.NotAuthorized, "join", client.JoinParams{URI: other.URI}); !strings.Contains(e.Message, "it has expired, was used or revoked, or the daemon there was started anew") {
		t.Errorf("%v", e)
	}
	if owner.must("revoke", client.RevokeParams{All: true}, &revoked); revoked.Revoked != 0 {
		t.Errorf("%+v", revoked)
	}
}

// TestUntrustIsFinalForWhatIsOnItsWay: a message that an agent lets wait while its
// sender is untrusted does not come into the inbox afterwards.
func TestUntrustIsFinalForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, refuse := make(chan struct{}), make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		close(began)
		<-refuse
		r.RespondError(kinds.Errorf(kinds.Internal, "not taken"))
	})
	asker, owner := desk.dial(), laptop.dial()
	sent := make(chan error, 1)
	go func() {
		sent <- asker.call("notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})}, nil)
	}()
	await.Receive(t, "notify", began)
	owner.must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	if err := await.Receive(t, "the end of the notify", sent); !errors.Is(err, &kinds.Error{Code: kinds.NotTrusted}) {
		t.Error(err)
	}
	close(refuse)
	laptop.stop() // waits for what is running
	again := start(t, laptop.dir, "laptop")
	var in client.Inbox
	again.dial().must("inbox", client.InboxParams{}, &in)
	if len(in.Messages) != 0 {
		t.Errorf("of a blocked peer: %+v", in.Messages)
	}
}

// TestBlockedPeerIsNamed: what it left is listed under the name that it had, unless
// that is another's now, and who types it hears what lifts the block.
func TestBlockedPeerIsNamed(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	l := desk.dial()
	old, other := identity.ID{7}, identity.ID{8}
	l.must("trust", client.TrustParams{Peer: old.String(), Name: "planner"}, nil)
	l.must("untrust", client.UntrustParams{Peer: "planner"}, nil)
	if got := desk.trust.NameOf(old); got != "planner" {
		t.Errorf("a blocked peer is called %q", got)
	}
	for _, ref := range []string{"planner", old.String()[:8]} {
		for _, e := range []*kinds.Error{
			l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: ref}),
			l.refused(kinds.UnknownPeer, "trust", client.TrustParams{Peer: ref}),
			l.refused(kinds.UnknownPeer, "traffic", client.TrafficParams{Peers: []string{ref}}),
			l.refused(kinds.UnknownPeer, "subscribe", client.SubscribeParams{Peers: []string{ref}}),
			l.refused(kinds.UnknownPeer, "inbox", client.InboxParams{Peers: []string{ref}}),
		} {
			if !strings.HasSuffix(e.Message, "acpctl trust "+old.String()) {
				t.Error(e)
			}
		}
		var again client.Untrusted
		if l.must("untrust", client.UntrustParams{Peer: ref}, &again); again.ID != old || again.Name != "planner" || !again.Already {
			t.Errorf("untrust %s once more: %+v", ref, again)
		}
	}
	l.must("trust", client.TrustParams{Peer: other.String(), Name: "planner"}, nil)
	if got := desk.trust.NameOf(old); got != old.String() {
		t.Errorf("a blocked peer is called %q, which is another's name", got)
	}
	l.refused(kinds.Invalid, "ping", client.PingParams{To: "planner/"})
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
	var inv client.Invitation
	desk.dial().must("invite", nil, &inv)
	laptop.dial().must("join", client.JoinParams{URI: inv.URI}, nil)
	desk.dial().must("ping", client.PingParams{To: "laptop"}, nil)
	for _, want := range []client.EventType{client.EventTrust, client.EventUp} {
		if got := await.Receive(t, string(want), told); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

// TestTrustRefusals: what cannot be trusted or blocked is the caller's mistake.
func TestTrustRefusals(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	l, own := desk.dial(), desk.ID().String()
	l.refused(kinds.Invalid, "trust", client.TrustParams{Peer: own})
	l.refused(kinds.Invalid, "untrust", client.UntrustParams{Peer: own})
	l.refused(kinds.Invalid, "trust", client.TrustParams{Peer: identity.ID{7}.String(), Addrs: make([]string, 9)})
	l.refused(kinds.Invalid, "trust", client.TrustParams{Peer: identity.ID{7}.String(), Addrs: []string{"planner.example"}})
	if len(desk.trust.Peers())+len(desk.trust.Blocks()) > 0 {
		t.Error("something is trusted or blocked")
	}
}

// TestTrustKeepsSince: a new name is no new trust.
func TestTrustKeepsSince(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	id, then := identity.ID{7}, time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	if _, err := desk.trust.Trust(identity.Peer{ID: id, Name: "planner", Since: then}); err != nil {
		t.Fatal(err)
	}
	desk.dial().must("trust", client.TrustParams{Peer: id.String(), Name: "reviewer"}, nil)
	if p, _ := desk.trust.FindPeer(id); p.Name != "reviewer" || !p.Since.Equal(then) {
		t.Errorf("%+v", p)
	}
}

// Who is trusted again by its id alone is called where it last was: nothing has to be
// heard of it first.
func TestTrustedAgainIsConnectedAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner := desk.dial()
	owner.must("trust", client.TrustParams{Peer: "laptop", Addrs: []string{}}, nil) // it is known by where it worked
	caller := laptop.dial()
	refuses := func() bool {
		var all client.Peers
		caller.must("peers", nil, &all)
		i := slices.IndexFunc(all.Peers, func(p client.Peer) bool { return p.ID == desk.ID() })
		return i >= 0 && all.Peers[i].Refuses
	}
	for range 2 {
		owner.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
		await.Until(t, "it is cut off", func() bool { _, up := laptop.node.Peer(desk.ID()); return !up })
		await.Until(t, "it is told of as refusing", refuses)
		owner.must("trust", client.TrustParams{Peer: laptop.ID().String(), Name: "laptop"}, nil)
		await.Until(t, "it is back", func() bool { _, up := laptop.node.Peer(desk.ID()); return up && !refuses() })
	}
}
