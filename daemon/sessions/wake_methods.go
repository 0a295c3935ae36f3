package sessions

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The sources of a rule, as wake.list names them.
const (
	fromWakeFile = "wake.yaml"
	fromSettings = "config.yaml"
)

// serveWakeAllow lets messages of a peer wake sessions. It changes nothing about kinds that it
// does not name.
func (s *Service) serveWakeAllow(_ context.Context, _ *local.Conn, p *client.WakeAllowParams) (any, error) {
	who, err := s.resolveWaker("wake.allow", p.Peer)
	if err != nil {
		return nil, err
	}
	if err := checkWakeKinds("wake.allow", p.Kinds); err != nil {
		return nil, err
	}
	named := p.Kinds
	if len(named) == 0 {
		named = kinds.ListNames(kinds.Wakes)
	}
	given := make([]waking.Permission, 0, len(named))
	for _, kind := range named {
		given = append(given, waking.Permission{Peer: who.ID, Agent: p.Agent, Kind: kind, Ask: p.Ask, Unattended: p.Unattended, Since: time.Now()})
	}
	if err := s.Waker.Rules.Allow(given...); err != nil {
		return nil, explainWakeError("wake.allow", err)
	}
	if s.forgetIfUntrusted(who.ID) { // meanwhile
		return nil, explainWakeError("wake.allow", errors.Join(kinds.Errorf(kinds.UnknownPeer, "wake.allow: %s is not trusted any more", who.Name), s.narrowWakeRules(false, s.Waker.Rules.Save)))
	}
	s.Log.Info("may wake", "peer", who.ID.Label(), "name", who.Name, "kinds", named, "agent", p.Agent, "ask", p.Ask, "unattended", p.Unattended)
	all := s.listWakeRules()
	all.Rules = slices.DeleteFunc(all.Rules, func(r client.WakeRule) bool { return r.Peer != who.ID })
	return all, nil
}

// resolveWaker returns the trusted peer that a person names: one, and never all of them.
func (s *Service) resolveWaker(op, ref string) (identity.Peer, error) {
	if ref == "*" {
		return identity.Peer{}, kinds.Errorf(kinds.Invalid, "%s: peer: no rule lets every peer wake a session: name each peer", op)
	}
	p, err := s.ResolvePeer(op+": peer", ref)
	if err != nil {
		return p, err
	}
	if p.Certificate != nil {
		return p, kinds.Errorf(kinds.Invalid, "%s: peer: %s has no more than a certificate, and a rule outlasts that: name it under agents in config.yaml, with wake", op, p.Name)
	}
	return p, nil
}

func checkWakeKinds(op string, named []string) error {
	for _, kind := range named {
		if all := kinds.ListNames(kinds.Wakes); !slices.Contains(all, kind) {
			remedy := identity.FormatSuggestion(kind, all, "expected some of "+strings.Join(all, ", "))
			return kinds.Errorf(kinds.Invalid, "%s: kinds: %.64q: %s", op, kind, remedy)
		}
	}
	return nil
}

// narrowWakeRules makes a change of the rules. If the disk is full it is made on the reserve,
// unless it widens what may wake.
func (s *Service) narrowWakeRules(widens bool, change func() error) error {
	if widens {
		return change()
	}
	return s.Disk.RunWithReserve(change)
}

// explainWakeError returns an error of the rules as one of the local API.
func explainWakeError(op string, err error) error {
	if coded, ok := errors.AsType[*kinds.Error](err); ok {
		return coded
	}
	code, remedy := kinds.Internal, ""
	switch {
	case disk.IsFullError(err):
		code, remedy = kinds.Overloaded, ": free some space on the disk of the state directory, then try again"
	case errors.Is(err, waking.ErrRulesFull):
		code = kinds.Overloaded
	}
	return kinds.Errorf(code, "%s: %v%s", op, err, remedy)
}

func (s *Service) serveWakeList(context.Context, *local.Conn, *local.NoParams) (any, error) {
	return s.listWakeRules(), nil
}

// serveWakeTest wakes a session with a line of the owner's own, if the owner lets anything wake it. The line
// is not a message: it is in no inbox, and no peer is charged for it.
func (s *Service) serveWakeTest(ctx context.Context, _ *local.Conn, p *client.WakeTestParams) (any, error) {
	a := s.Agents.FindByName(p.Agent)
	switch {
	case a == nil:
		return nil, kinds.Errorf(kinds.NoAgent, "wake.test: agent: no agent %.64q is attached: %s", p.Agent, s.suggestSession(p.Agent))
	case !a.IsSession():
		return nil, kinds.Errorf(kinds.Invalid, "wake.test: agent: %s answers by itself, and nothing wakes it: ask it instead", p.Agent)
	case !s.Waker.MayAnyWake(p.Agent):
		return nil, kinds.Errorf(kinds.NotAuthorized, "wake.test: nothing may wake %s yet: let a peer wake it, acpctl wake allow", p.Agent)
	}
	if until := s.Waker.Rules.MutedUntil(p.Agent, time.Now()); !until.IsZero() {
		return nil, kinds.Errorf(kinds.Invalid, "wake.test: %s is muted until %s: acpctl agents mute %[1]s 0s ends that", p.Agent, until.Format(time.RFC3339))
	}
	tested := &client.WakeTested{Agent: a.Name, Refused: a.Session.Unwakeable}
	if tested.Refused != "" {
		return tested, nil
	}
	in := &client.Inbound{Envelope: *wire.NewEnvelope(s.Self, s.Self, kinds.KindNotify, kinds.EncodePayload(&kinds.Notify{Topic: "acpd.test"})), Name: "your owner"}
	in.Wake = &client.WakeGrant{Unattended: p.Unattended, Test: true}
	var said client.WakeAnswer
	if err := a.Conn.CallFor(ctx, s.Self, registry.ConfirmTime, client.MethodWake, in, &said); err != nil {
		return nil, kinds.Errorf(kinds.Timeout, "wake.test: %s does not answer: start it again", p.Agent)
	}
	if tested.Posted = said.Posted; !tested.Posted {
		tested.Refused = cmp.Or(limitReason(said.Refused), "its acpctl is older than this daemon: start the session again")
	}
	return tested, nil
}

// listWakeRules returns all rules: those of the owner's calls in the order of peers, then those
// of the settings.
func (s *Service) listWakeRules() *client.WakeRules {
	all := &client.WakeRules{Rules: []client.WakeRule{}, Answers: []client.WakeAnswersRule{}}
	for _, p := range s.Waker.Rules.Permissions() {
		all.Rules = append(all.Rules, client.WakeRule{
			Peer: p.Peer, Name: s.PeerName(p.Peer), Kind: p.Kind, Agent: p.Agent, Ask: p.Ask, Unattended: p.Unattended, Since: client.Time{Time: p.Since}, Source: fromWakeFile,
		})
	}
	sort.SliceStable(all.Rules, func(i, j int) bool {
		a, b := &all.Rules[i], &all.Rules[j]
		return a.Name+"/"+a.Agent < b.Name+"/"+b.Agent
	})
	for _, a := range s.Waker.Rules.Answers() {
		all.Answers = append(all.Answers, client.WakeAnswersRule{Agent: a.Agent, Unattended: a.Unattended, Source: fromWakeFile})
	}
	named := s.Config().Agents.Named
	for _, agent := range slices.Sorted(maps.Keys(named)) {
		set := named[agent]
		for _, ref := range slices.Sorted(maps.Keys(set.Wake)) {
			who, ok := s.findConfiguredPeer(ref)
			if !ok {
				continue
			}
			for _, kind := range kinds.ListNames(kinds.Wakes) {
				if w := set.Wake[ref]; w.Kinds == nil || slices.Contains(w.Kinds, kind) {
					all.Rules = append(all.Rules, client.WakeRule{Peer: who.ID, Name: who.Name, Kind: kind, Agent: agent, Ask: w.Ask, Unattended: w.Unattended, Source: fromSettings})
				}
			}
		}
		if set.Answers == config.AnswersOn || set.Answers == config.AnswersUnattended {
			all.Answers = append(all.Answers, client.WakeAnswersRule{Agent: agent, Unattended: set.Answers == config.AnswersUnattended, Source: fromSettings})
		}
	}
	return all
}

// serveWakeRevoke removes permissions. It does not change those in config.yaml.
func (s *Service) serveWakeRevoke(_ context.Context, _ *local.Conn, p *client.WakeRevokeParams) (any, error) {
	who, err := s.resolveWaker("wake.revoke", p.Peer)
	if err != nil {
		return nil, err
	}
	if err := checkWakeKinds("wake.revoke", p.Kinds); err != nil {
		return nil, err
	}
	n := s.Waker.Rules.Revoke(func(r waking.Permission) bool {
		return r.Peer == who.ID && (p.Agent == "" || r.Agent == p.Agent) && (len(p.Kinds) == 0 || slices.Contains(p.Kinds, r.Kind))
	})
	err = s.narrowWakeRules(false, s.Waker.Rules.Save) // also what an earlier call has left unwritten
	switch {
	case err != nil:
		return nil, explainWakeError("wake.revoke", err)
	case n == 0:
		return nil, kinds.Errorf(kinds.NotFound, "wake.revoke: nothing of this kind was allowed to %s: acpctl wake list shows what is; what config.yaml says is changed there", who.Name)
	}
	s.Log.Info("may not wake any more", "peer", who.ID.Label(), "name", who.Name, "kinds", p.Kinds, "agent", p.Agent)
	return &client.Revoked{Revoked: n}, nil
}

func (s *Service) serveWakeAnswers(_ context.Context, _ *local.Conn, p *client.WakeAnswersParams) (any, error) {
	rule := waking.AnswersRule{Agent: p.Agent, Unattended: p.Unattended}
	set := func() error { return s.Waker.Rules.SetAnswers(rule, p.On) }
	err := s.narrowWakeRules(p.On, set)
	if err != nil {
		return nil, explainWakeError("wake.answers", err)
	}
	if _, on := s.Waker.FindAnswers(p.Agent); on && !p.On {
		return nil, kinds.Errorf(kinds.Invalid, "wake.answers: answers still wake %s, by config.yaml or the rule for every session: write answers: off for it into config.yaml (agents)", p.Agent)
	}
	s.Log.Info("answers wake what asked", "on", p.On, "agent", p.Agent, "unattended", p.Unattended)
	return s.listWakeRules(), nil
}

func (s *Service) serveApprovals(context.Context, *local.Conn, *local.NoParams) (any, error) {
	all := &client.Approvals{Approvals: []client.Approval{}}
	for _, a := range s.Waker.Approvals() {
		all.Approvals = append(all.Approvals, s.describeApproval(a))
	}
	all.Approvals = append(all.Approvals, s.Files.ListApprovals()...)
	return all, nil
}

func (s *Service) describeApproval(a waking.Approval) client.Approval {
	return client.Approval{ID: a.ID, Agent: a.Agent, Peer: a.Peer, Name: s.PeerName(a.Peer), Kind: a.Kind, Message: a.Message, Text: a.Text, Again: a.Again, Since: a.Since.UTC(), Approved: a.Approved, KeptBy: a.KeptBy, KeptUntil: client.Time{Time: a.KeptUntil}}
}

func (s *Service) serveApprove(ctx context.Context, _ *local.Conn, p *client.ApproveParams) (any, error) {
	answer := waking.Answer(p.Answer)
	if !slices.Contains([]waking.Answer{waking.Yes, waking.Always, waking.No}, answer) {
		return nil, kinds.Errorf(kinds.Invalid, "approvals.decide: answer: %.64q: expected yes, always or no", p.Answer)
	}
	if strings.HasPrefix(p.ID, FilePrefix) {
		decided, err := s.Files.Decide(ctx, p.ID, p.Answer)
		if err != nil {
			return nil, explainWakeError("approvals.decide", err)
		}
		s.Log.Info("approval", "answer", p.Answer, "peer", decided.Peer.Label(), "kind", decided.Kind, "id", decided.Message)
		return &decided, nil
	}
	decided, err := s.Waker.Decide(p.ID, answer)
	if err != nil {
		return nil, explainWakeError("approvals.decide", err)
	}
	s.forgetIfUntrusted(decided.Peer) // meanwhile; what is not written is soon
	s.Log.Info("approval", "answer", p.Answer, "agent", decided.Agent, "peer", decided.Peer.Label(), "kind", decided.Kind, "id", decided.Message)
	told := s.describeApproval(decided)
	return &told, nil
}

// serveAgents lists the attached agents, and who woke those that are sessions.
func (s *Service) serveAgents(context.Context, *local.Conn, *local.NoParams) (any, error) {
	all := &client.Agents{Agents: []client.AgentState{}}
	for _, a := range s.Agents.ListAgents() {
		row := client.AgentState{Agent: a}
		if a.Session != nil {
			w := s.Waker.Describe(a.Name)
			row.Woken = &client.Woken{Hour: w.Hour, Day: w.Day, By: []client.WokenBy{}, Waiting: w.Waiting, Approvals: w.Approvals, MutedUntil: client.Time{Time: w.MutedUntil}, Refused: w.Refused}
			for _, by := range w.By {
				row.Woken.By = append(row.Woken.By, client.WokenBy{Peer: by.Peer, Name: s.PeerName(by.Peer), Hour: by.Hour, Day: by.Day, UsedUpUntil: client.Time{Time: by.UsedUpUntil}})
			}
		}
		all.Agents = append(all.Agents, row)
	}
	return all, nil
}

func (s *Service) serveMuteAgent(_ context.Context, _ *local.Conn, p *client.MuteAgentParams) (any, error) {
	if p.Secs > uint64(client.MaxMute/time.Second) {
		return nil, kinds.Errorf(kinds.Invalid, "agents.mute: secs: expected at most %d, which is 30 days", client.MaxMute/time.Second)
	}
	now := time.Now()
	switch a := s.Agents.FindByName(p.Name); {
	case a != nil && !a.IsSession():
		return nil, kinds.Errorf(kinds.Invalid, "agents.mute: name: %s answers by itself, and nothing wakes it: end it instead", p.Name)
	case a == nil && (p.Secs > 0 || s.Waker.Rules.MutedUntil(p.Name, now).IsZero()):
		return nil, kinds.Errorf(kinds.NoAgent, "agents.mute: name: no agent %.64q is attached: %s", p.Name, s.suggestSession(p.Name))
	}
	mute := func() error { return s.Waker.Rules.Mute(p.Name, now.Add(time.Duration(p.Secs)*time.Second)) }
	if err := s.narrowWakeRules(p.Secs == 0, mute); err != nil {
		return nil, explainWakeError("agents.mute", err)
	}
	s.Log.Info("muted", "agent", p.Name, "secs", p.Secs)
	return &client.Muted{Name: p.Name, Until: client.Time{Time: s.Waker.Rules.MutedUntil(p.Name, now)}}, nil
}

// suggestSession returns what to do where no agent of a name is attached, and a session is meant.
func (s *Service) suggestSession(name string) string {
	var names []string
	for _, a := range s.Agents.ListAgents() {
		if a.Session != nil {
			names = append(names, a.Name)
		}
	}
	if len(names) == 0 {
		return kinds.RemedyNoSession
	}
	return identity.FormatSuggestion(name, names, "acpctl agents lists those that are")
}

// serveUnposted gives a turn back that a session's program did not begin.
func (s *Service) serveUnposted(ctx context.Context, c *local.Conn, p *client.UnpostedParams) (any, error) {
	name := c.Credential().Name
	if name == "" {
		return nil, kinds.Errorf(kinds.NotAuthorized, "unposted: only a session is woken: attach first, or speak as a session that is attached")
	}
	s.Waker.Finish(ctx, waking.Message{Agent: name, Peer: identity.Peer{ID: p.Peer}, ID: p.ID}, waking.Outcome{Refused: limitReason(p.Refused), NeedsPerson: p.NeedsPerson})
	return local.NoParams{}, nil
}

// serveSession tells a session what waits for it.
func (s *Service) serveSession(ctx context.Context, c *local.Conn, _ *local.NoParams) (any, error) {
	name := c.Credential().Name
	if name == "" {
		return nil, kinds.Errorf(kinds.NotAuthorized, "session: only an agent has one: attach first, or speak as an agent that is attached")
	}
	unread, shown, err := s.Inbox.CountMessages(ctx, name, client.MaxUnread)
	if err != nil {
		return nil, err
	}
	return &client.SessionState{Unread: unread, Shown: shown, Notices: s.Waker.Notices(name)}, nil
}
