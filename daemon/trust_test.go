package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
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
	named := get[client.NamedPeer](owner, "trust", client.TrustParams{Peer: desk.ID().String()})
	if named.Name != "desk" || named.ID != desk.ID() {
		t.Errorf("%+v", named)
	}
	asker.must("ping", client.PingParams{To: "laptop"}, nil) // at once
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":""}`))
	asker.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
	if p, _ := laptop.trust.FindPeer(desk.ID()); p.PQ.IsZero() {
		t.Error("the post-quantum key is not pinned")
	}

	peers := get[client.Peers](asker, "peers", nil)
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
	failed := later(desk.dial(), "query", client.QueryParams{To: "laptop", Payload: query("?")})
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
	in := get[client.Inbox](owner, "inbox", client.InboxParams{})
	if len(in.Messages) != 0 {
		t.Errorf("%+v", in)
	}
	if s := owner.state(given.ID); s.State != client.TaskCancelled {
		t.Errorf("%+v", s)
	}
	waiting := get[client.Pending](owner, "pending", nil)
	if len(waiting.Pending) != 0 {
		t.Errorf("a blocked key is pending: %+v", waiting)
	}
	peers := get[client.Peers](owner, "peers", nil)
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
		in := get[client.Inbox](owner, "inbox", client.InboxParams{})
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
	sent := later(asker, "notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})})
	await.Receive(t, "notify", began)
	owner.must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	if err := await.Receive(t, "the end of the notify", sent); !errors.Is(err, &kinds.Error{Code: kinds.NotTrusted}) {
		t.Error(err)
	}
	close(refuse)
	laptop.stop() // waits for what is running
	again := start(t, laptop.dir, "laptop")
	in := get[client.Inbox](again.dial(), "inbox", client.InboxParams{})
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

// Who is trusted again by its id alone is called where it last was: nothing has to be
// heard of it first.
func TestTrustedAgainIsConnectedAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner := desk.dial()
	owner.must("trust", client.TrustParams{Peer: "laptop", Addrs: []string{}}, nil) // it is known by where it worked
	caller := laptop.dial()
	refuses := func() bool {
		all := get[client.Peers](caller, "peers", nil)
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

// To give a peer no address also forgets where it was, unless it is there.
func TestNoAddress(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner := desk.dial()
	none := client.TrustParams{Peer: "laptop", Addrs: []string{}}
	owner.must("trust", none, nil)
	if got := desk.addresses.TakeDialAddrs(laptop.ID()); len(got) == 0 {
		t.Error("where it is now is forgotten")
	}
	_, before := desk.addresses.FindLast(laptop.ID())
	laptop.stop()
	await.Until(t, "it is gone, which is recorded", func() bool {
		_, up := desk.node.Peer(laptop.ID())
		_, at := desk.addresses.FindLast(laptop.ID())
		return !up && at.After(before)
	})
	owner.must("trust", none, nil)
	_, at := desk.addresses.FindLast(laptop.ID())
	if got := desk.addresses.TakeDialAddrs(laptop.ID()); len(got) != 0 || at.IsZero() {
		t.Errorf("it is still dialled at %q, and was there at %v", got, at)
	}
	await.Until(t, "no address is dialled", func() bool { // one may be dialled at this moment
		e := owner.refused(kinds.Unreachable, "ping", client.PingParams{To: "laptop"})
		return strings.Contains(e.Message, "there is no address to try")
	})
	desk.stop()
	desk = start(t, desk.dir, "desk")
	if got := desk.addresses.TakeDialAddrs(laptop.ID()); len(got) != 0 {
		t.Errorf("after a start it is dialled at %q", got)
	}
}

// logFunc is a log whose lines a function gets.
type logFunc func(line []byte)

func (f logFunc) Write(line []byte) (int, error) {
	f(line)
	return len(line), nil
}

// TestUntrustWaitsForNoLog: a peer is cut off before untrust writes to the log, which may be
// slow.
func TestUntrustWaitsForNoLog(t *testing.T) {
	t.Parallel()
	worker := identity.ID{7}
	var desk atomic.Pointer[running]
	logged := make(chan bool, 1)
	d := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: logFunc(func(line []byte) {
		if !bytes.Contains(line, []byte("untrusted")) {
			return
		}
		logged <- true
		for _, u := range desk.Load().budget.ListUsage() {
			if u.Peer == worker {
				t.Errorf("logged while the peer's accounts are still there: %+v", u)
			}
		}
	})})
	desk.Store(d)
	if _, err := d.trust.Trust(identity.Peer{ID: worker, Name: "planner"}); err != nil {
		t.Fatal(err)
	}
	d.budget.OpenAccount(budget.ChannelRequests).CountRefusal(worker)
	d.dial().must("untrust", client.UntrustParams{Peer: "planner"}, nil)
	await.Receive(t, "the line of untrust", logged)
}

// A peer that finishes what is under way before it ends takes no new calls, and has been seen
// since the connection began.
func TestSeenWhileAPeerShutsDown(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, release := make(chan struct{}), make(chan struct{})
	desk.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		began <- struct{}{}
		<-release
		r.Respond(wire.Payload(`{"summary":"done"}`))
	})
	asker := laptop.dial()
	go asker.call("query", client.QueryParams{To: "desk", Payload: query("slow")}, nil)
	await.Receive(t, "the query", began)
	before := time.Now()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		laptop.stop()
	}()
	var row client.Peer
	await.Until(t, "the laptop leaves", func() bool {
		row = desk.row(laptop)
		return row.State != client.PeerConnected
	})
	if row.LastSeen.Before(before) {
		t.Errorf("seen last at %v, %v before it began to leave", row.LastSeen, before.Sub(row.LastSeen.Time))
	}
	close(release)
	await.Receive(t, "the end of the laptop", stopped)
}
