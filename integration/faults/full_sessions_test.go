//go:build faults

package faults

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// fullSession is a session of a machine whose disk can be filled.
type fullSession struct {
	*full
	guest *client.Client
	told  chan *client.Inbound // queries, and wakes
	say   chan any             // the answers to queries
}

// attachSession attaches a session that posts what it may be woken for.
func (f *full) attachSession() *fullSession {
	s := &fullSession{full: f, guest: &client.Client{Socket: filepath.Join(f.Home, "agent", "acp.sock")}, told: make(chan *client.Inbound, 64), say: make(chan any)}
	ctx, cancel := context.WithCancel(context.Background())
	attached, ended := make(chan struct{}, 8), make(chan error, 1)
	go func() {
		ended <- s.guest.Attach(ctx, client.AttachParams{Name: "claude", MaxConcurrent: 16, Session: &client.SessionInfo{Harness: "claude"}}, client.Handler{
			OnAttached: func() { attached <- struct{}{} },
			Query: func(ctx context.Context, in *client.Inbound) (any, error) {
				s.told <- in
				select {
				case answer := <-s.say:
					return answer, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
			Wake: func(_ context.Context, in *client.Inbound) (*client.WakeAnswer, error) {
				s.told <- in
				return &client.WakeAnswer{Posted: in.Wake != nil}, nil
			},
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			f.t.Error(err)
		}
		s.guest.Close()
	})
	await.Receive(f.t, "the session is attached", attached)
	return s
}

// notify has the peer tell the session something.
func (s *fullSession) notify() (wire.MessageID, error) {
	id := wire.NewMessageID()
	_, err := s.laptop.Client.Notify(await.NewContext(s.t), client.NotifyParams{Head: client.Head{ID: id}, To: client.To("desk/claude"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})})
	return id, err
}

// query has the peer ask the session, and returns where the answer comes.
func (s *fullSession) query() (wire.MessageID, <-chan error) {
	id, answered := wire.NewMessageID(), make(chan error, 1)
	go func() {
		_, err := s.laptop.Client.Query(await.NewContext(s.t), client.QueryParams{Head: client.Head{ID: id}, To: "desk/claude", Payload: kinds.EncodePayload(&kinds.Query{Question: "?", DeadlineMS: 300_000})})
		answered <- err
	}()
	return id, answered
}

// next returns what the session is told next, with a grant or without one.
func (s *fullSession) next(grant bool) *client.Inbound {
	s.t.Helper()
	in := await.Receive(s.t, "what the session is told", s.told)
	if (in.Wake != nil) != grant {
		s.t.Errorf("%s %s came with the grant %+v, want one: %v", in.Kind, in.ID, in.Wake, grant)
	}
	return in
}

func (s *fullSession) approvals() []client.Approval {
	s.t.Helper()
	all, err := s.Client.Approvals(await.NewContext(s.t))
	s.need(err)
	return all
}

// refused fills the disk and does what it must refuse, with a remedy.
func (s *fullSession) refused(what string, do func(context.Context) error) {
	s.t.Helper()
	err := error(nil)
	for range 4 { // what state.db has of the disk already may be free again
		s.exhaust()
		if err = do(await.NewContext(s.t)); err != nil {
			break
		}
	}
	if e := kinds.AsError(err); err == nil || e.Code != kinds.Overloaded || !strings.Contains(e.Message, "free some space") {
		s.t.Errorf("%s: %v", what, err)
	}
}

// works fills the disk and does what must work all the same.
func (s *fullSession) works(what string, do func(context.Context) error) {
	s.t.Helper()
	s.exhaust()
	if err := do(await.NewContext(s.t)); err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

func (s *fullSession) mayWake(agent string, kind string, ask bool) client.WakeAllowParams {
	return client.WakeAllowParams{Peer: "laptop", Agent: agent, Kinds: []string{kind}, Ask: ask}
}

func allow(m *fullSession, p client.WakeAllowParams) func(context.Context) error {
	return func(ctx context.Context) error { _, err := m.Client.AllowWake(ctx, p); return err }
}

// TestFullDiskForSessions: on a full disk nothing wakes a session that is not counted, no
// approval is lost or widened, what takes away counts and is on disk, and what was refused says
// what to do.
// holds: security.md#agents-on-this-machine
func TestFullDiskForSessions(t *testing.T) {
	t.Parallel()
	f := newFull(t)
	s := f.attachSession()
	ctx := func() context.Context { return await.NewContext(t) }
	s.need(allow(s, s.mayWake("claude", kinds.KindNotify, false))(ctx()))
	s.need(allow(s, s.mayWake("claude", kinds.KindQuery, true))(ctx()))

	woken, err := s.notify()
	s.need(err)
	s.next(true)
	_, err = s.guest.Inbox(ctx(), client.InboxParams{})
	s.need(err)

	working, answered := s.query()
	s.next(false)
	if all := s.approvals(); len(all) != 1 || all[0].Message != working {
		t.Fatalf("approvals: %+v", all)
	}
	reserve := client.ReserveParams{Profile: "claude", Peer: s.laptop.ID, Ref: working, MaxCost: 0.5, MaxTokens: 1000}
	reserved, err := s.guest.ReserveRun(ctx(), reserve)
	s.need(err)

	s.refused("a notice for the session", func(context.Context) error { _, err := s.notify(); return err })
	s.refused("what a woken turn sends", func(ctx context.Context) error {
		_, err := s.guest.Notify(ctx, client.NotifyParams{Head: client.Head{Parent: woken}, To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})})
		return err
	})
	s.refused("wake.allow", allow(s, s.mayWake("", kinds.KindResult, false)))
	s.refused("wake.answers on", func(ctx context.Context) error {
		_, err := s.Client.SetWakeAnswers(ctx, client.WakeAnswersParams{On: true})
		return err
	})
	s.refused("budget.reserve", func(ctx context.Context) error { _, err := s.guest.ReserveRun(ctx, reserve); return err })
	s.refused("always", func(ctx context.Context) error {
		_, err := s.Client.Approve(ctx, client.ApproveParams{ID: s.approvals()[0].ID, Answer: "always"})
		return err
	})
	if all := s.approvals(); len(all) != 1 {
		t.Fatalf("approvals: %+v", all)
	}
	s.works("budget.settle", func(ctx context.Context) error {
		return s.guest.SettleRun(ctx, client.SettleParams{ID: reserved.ID, Cost: 0.25, Tokens: 10})
	})
	s.works("ack", func(ctx context.Context) error {
		_, err := s.guest.Ack(ctx, client.AckParams{IDs: []wire.MessageID{woken}})
		return err
	})
	s.works("yes", func(ctx context.Context) error {
		_, err := s.Client.Approve(ctx, client.ApproveParams{ID: s.approvals()[0].ID, Answer: "yes"})
		return err
	})
	await.Until(t, "the turn cannot be written", func() bool {
		return strings.Contains(s.Acpd.Stderr.String(), "a session is not woken yet")
	})
	if len(s.told) > 0 {
		t.Errorf("the session was woken by a turn that is not counted: %+v", <-s.told)
	}
	s.free()
	if in := s.next(true); in.ID != working {
		t.Errorf("woken for %s, want %s", in.ID, working)
	}
	s.say <- &kinds.Response{Summary: "done"}
	s.need(await.Receive(t, "the answer", answered))

	s.works("wake.answers off", func(ctx context.Context) error {
		_, err := s.Client.SetWakeAnswers(ctx, client.WakeAnswersParams{})
		return err
	})
	s.works("mute", func(ctx context.Context) error {
		_, err := s.Client.MuteAgent(ctx, client.MuteAgentParams{Name: "claude", Secs: 3600})
		return err
	})
	s.refused("unmute", func(ctx context.Context) error {
		_, err := s.Client.MuteAgent(ctx, client.MuteAgentParams{Name: "claude"})
		return err
	})
	s.works("wake.revoke", func(ctx context.Context) error {
		_, err := s.Client.RevokeWake(ctx, client.WakeRevokeParams{Peer: "laptop", Agent: "claude"})
		return err
	})
	s.fill()
	s.KillDaemon()
	s.StartDaemon()
	agents, rules := client.AgentState{}, (*client.WakeRules)(nil)
	await.Until(t, "the session is attached again", func() bool {
		all, err := s.Client.Agents(ctx())
		s.need(err)
		for _, a := range all {
			if a.Name == "claude" {
				agents = a
				return true
			}
		}
		return false
	})
	rules, err = s.Client.WakeRules(ctx())
	s.need(err)
	if w := agents.Woken; w.MutedUntil.IsZero() || w.Day != 2 {
		t.Errorf("after the crash: %+v", w)
	}
	if len(rules.Answers) != 0 || len(rules.Rules) != 1 || rules.Rules[0].Agent != "" {
		t.Errorf("after the crash: %+v", rules)
	}
	spent, err := s.Client.Spent(ctx(), client.SpentParams{})
	s.need(err)
	if len(spent.Rows) != 1 || spent.Rows[0].Runs != 1 || spent.Rows[0].Cost != 0.25 || spent.Rows[0].Tokens != 10 {
		t.Errorf("after the crash: %+v", spent.Rows)
	}
	s.works("untrust", func(ctx context.Context) error {
		u, err := s.Client.Untrust(ctx, "laptop")
		if err == nil && len(u.Unwritten) > 0 {
			err = errors.New(u.Reason)
		}
		return err
	})
	s.KillDaemon()
	s.StartDaemon()
	if rules, err = s.Client.WakeRules(ctx()); err != nil || len(rules.Rules) != 0 {
		t.Errorf("after untrust: %+v, %v", rules, err)
	}
}
