// Package sessions lets messages of peers reach the sessions of agent programs: it chooses the session for a
// message, wakes it if its owner allows that, asks the owner if that is what he wants, and passes his answer on.
//
// Package waking decides what wakes a session, and how often; this package calls the session and reports the
// outcome. Before a session is notified of a message, the message is in the inbox, or somebody waits for its
// answer. An error for a peer reveals no more about the sessions here than that peer may discover.
package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/daemon/watch"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Deps is what a [Service] needs from the rest of the daemon.
type Deps struct {
	Self        identity.ID // this daemon
	Dir         string      // the state directory, for the rules
	DB          *store.DB
	Trust       *identity.TrustStore
	Agents      *registry.Registry
	Inbox       *inbox.Inbox
	Delegations *delegation.Table
	Known       *known.Messages
	Watch       *watch.Service
	Disk        *disk.Reserve
	Calls       *sync.WaitGroup // the daemon waits for what runs in it
	Log         *slog.Logger

	Config             func() *config.Config
	PeerName           func(identity.ID) string
	ResolvePeer        func(before, ref string) (identity.Peer, error)
	MayDiscover        func(identity.Peer) bool
	DescribeDelegation func(ctx context.Context, t *delegation.Delegation, payloads bool) *client.Task
}

// Service wakes sessions. Its methods may be called from any goroutine.
type Service struct {
	Deps
	Waker *waking.Waker
	Files FileApprovals // must be set before the first use

	// WasKeptFor reports whether an agent has sent a message that was kept; it must be set before the first use.
	WasKeptFor func(agent string, id wire.MessageID) bool

	wakes     *metrics.Counts // messages for which a session was asked to begin a turn, by outcome
	notifier  *ownerNotifier
	restoring sync.Mutex // held while what is in the inbox may wake a session that is attached now: one that comes and goes has it listed once, and of two sessions one asks about a message
}

// FileApprovals has the files that wait for the owner's approval. The ids of these approvals begin with FilePrefix.
type FileApprovals interface {
	ListApprovals() []client.Approval
	IsAsking(id string) bool
	Decide(ctx context.Context, id, answer string) (client.Approval, error)
}

// FilePrefix begins the ids of approvals of files.
const FilePrefix = "f"

// The values of the label of wakes.
const (
	wakePosted  = "posted"
	wakeRefused = "refused"
	wakeFailed  = "failed"
)

// Open opens the rules and the stored turns. It removes what lets peers wake sessions that are not trusted:
// what an untrust has not written, and what is left of peers that were removed in another way. It returns
// these peers as untrusted.
func Open(ctx context.Context, d Deps) (s *Service, untrusted []identity.ID, err error) {
	rules, warning, err := waking.OpenRules(d.Dir)
	if err != nil {
		return nil, nil, err
	}
	if warning != nil {
		d.Log.Warn("wake rules", "warning", warning)
	}
	s = &Service{Deps: d, wakes: metrics.NewCounts(metrics.ClosedLabel{Name: "outcome", Values: []string{wakePosted, wakeRefused, wakeFailed}})}
	s.Waker, err = waking.OpenWaker(ctx, waking.Config{
		Rules: rules, DB: d.DB, Agents: func() *config.Agents { return &d.Config().Agents },
		Wakers: s.listConfiguredWakers, Name: d.PeerName, Tell: s.publishNotice, Save: d.Disk.RunWithReserve, Log: d.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	s.notifier = newOwnerNotifier(func() []string { argv, _ := s.findOwnerCommand(); return argv }, func(id string) bool { return s.Waker.IsAsking(id) || s.Files.IsAsking(id) }, d.Log)
	d.Inbox.Removed = func(k inbox.MessageKey) { s.Waker.ForgetMessage(k.Peer, k.ID) }
	for _, id := range s.Waker.ListKnownPeers() {
		if s.forgetIfUntrusted(id) {
			untrusted = append(untrusted, id)
		}
	}
	return s, untrusted, nil
}

// Run wakes sessions for what waits, and notifies the owner, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Waker.Run(ctx) })
	g.Go(func() error { return s.notifier.run(ctx) })
	return g.Wait()
}

// Methods returns the methods of sessions, and those by which the owner says what wakes them.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodSession:     local.ForAgents(s.serveSession),
		client.MethodUnposted:    local.ForAgents(s.serveUnposted),
		client.MethodWakeAllow:   local.ForOwner(s.serveWakeAllow),
		client.MethodWakeList:    local.ForOwner(s.serveWakeList),
		client.MethodWakeRevoke:  local.ForOwner(s.serveWakeRevoke),
		client.MethodWakeAnswers: local.ForOwner(s.serveWakeAnswers),
		client.MethodWakeTest:    local.ForOwner(s.serveWakeTest),
		client.MethodWakeNotify:  local.ForOwner(s.serveOwnerNotify),
		client.MethodApprovals:   local.ForOwner(s.serveApprovals),
		client.MethodApprove:     local.ForOwner(s.serveApprove),
		client.MethodAgents:      local.ForOwner(s.serveAgents),
		client.MethodMuteAgent:   local.ForOwner(s.serveMuteAgent),
	}
}

// forgetIfUntrusted forgets what lets a peer wake sessions if it is not trusted, and reports whether that is so.
func (s *Service) forgetIfUntrusted(id identity.ID) bool {
	if _, ok := s.Trust.FindPeer(id); ok {
		return false
	}
	s.Waker.ForgetPeer(id)
	return true
}

// listConfiguredWakers returns the trusted peers that config.yaml lets wake an agent; agent "" means any
// agent.
func (s *Service) listConfiguredWakers(agent string) (all []identity.ID) {
	for name, set := range s.Config().Agents.Named {
		if agent != "" && name != agent {
			continue
		}
		for ref := range set.Wake {
			if p, ok := s.findConfiguredPeer(ref); ok {
				all = append(all, p.ID)
			}
		}
	}
	return all
}

// findConfiguredPeer returns the trusted peer that a setting names by its name or id.
func (s *Service) findConfiguredPeer(ref string) (identity.Peer, bool) {
	if id, err := identity.ParseID(ref); err == nil {
		return s.Trust.FindPeer(id)
	}
	p, err := s.Trust.Resolve(ref)
	return p, err == nil && p.Name == ref
}

// AskOwner notifies the owner that something of a peer waits for an approval, at most as often as the Waker does.
func (s *Service) AskOwner(peer identity.ID, kind, id string) {
	s.Waker.TellApproval(waking.Notice{Approval: true, Peer: peer, Kind: kind, Reason: id})
}

// publishNotice notifies subscribers that a bound was reached, or that a message waits for an approval.
func (s *Service) publishNotice(n waking.Notice) {
	typ, details := client.EventBudget, map[string]string{"agent": n.Agent, "kind": n.Kind, "reason": n.Reason}
	if !n.Until.IsZero() {
		details["until"] = n.Until.UTC().Format(time.RFC3339)
	}
	e := ownerEvent{event: eventFailed, peer: n.Peer, name: s.PeerName(n.Peer), agent: n.Agent, kind: n.Kind}
	if n.Approval {
		typ, details = client.EventApproval, map[string]string{"agent": n.Agent, "kind": n.Kind, "id": n.Reason}
		e.event, e.number = eventAsks, n.Reason
	} else if n.NeedsPerson {
		details["needs"] = "person"
	}
	if n.Approval || n.NeedsPerson {
		s.notifier.tell(e)
	}
	s.Watch.Publish(typ, n.Peer, e.name, time.Now(), details)
}

// DescribeProblems returns what the owner should know about attached sessions, and about settings for agents.
func (s *Service) DescribeProblems() (all []string) {
	var attached []string
	for _, a := range s.Agents.ListAgents() {
		attached = append(attached, a.Name)
		if a.Session != nil {
			all = append(all, s.Waker.Notices(a.Name)...)
			if why := a.Session.Unwakeable; why != "" && s.Waker.MayAnyWake(a.Name) {
				all = append(all, a.Name+" cannot be woken: "+why)
			}
		}
	}
	agents := &s.Config().Agents
	for _, name := range slices.Sorted(maps.Keys(agents.Named)) {
		if near := agents.FindMisnamed(name, attached); near != "" {
			all = append(all, fmt.Sprintf("agents in config.yaml names %s: no such agent is attached, so nothing follows from it; did you mean %s?", name, near))
		}
	}
	return all
}

// countWake counts the outcome of a call by which a session may begin a turn.
func (s *Service) countWake(o waking.Outcome, err error) {
	switch {
	case o.Posted:
		s.wakes.Add(1, wakePosted)
	case err == nil:
		s.wakes.Add(1, wakeRefused)
	default:
		s.wakes.Add(1, wakeFailed)
	}
}

// ListFamilies returns the metrics of what is counted here.
func (s *Service) ListFamilies() []metrics.Family {
	return []metrics.Family{
		{Name: "acpd_wakes_total", Type: metrics.Counter, Help: "Messages for which a session was asked to begin a turn, by outcome.", Write: s.wakes.Write},
	}
}
