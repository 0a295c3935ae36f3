// Package kept keeps messages of the agents here that certainly did not arrive, because the peer or its agent was
// away, and sends each when it can be. It keeps only what its caller has asked it to keep, and each message for a time.
//
// A message is on disk before its caller learns that it is kept. Before a query or notification is sent again, that is
// on disk too, and a message of which a byte may have left is never sent again: nothing arrives twice. Every message
// comes to one end, of which its sender is told.
//
// It leaves the giving of delegations, and what becomes of one that its peer has, to package tasks.
package kept

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of what is kept. All agents together may have half of each.
const (
	maxMessages = 1000
	maxBytes    = 64 << 20
	maxOfPeer   = 200
	maxPeerSize = 16 << 20
)

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	agents.Deps
	Agents *agents.Service
	DB     *store.DB

	// MayCall returns an error if the settings do not let whoever sent a message call a peer.
	MayCall func(who registry.Credential, to identity.Peer) error
	// Give gives a delegation to its peer, as tasks.Service.GiveKept does.
	Give func(ctx context.Context, request kinds.Checked, as registry.Credential) (*kinds.Ack, error)
	// Hurry makes all pauses a hundredth, for tests.
	Hurry bool
	// Publish sends an event to those that have subscribed to it.
	Publish func(typ client.EventType, peer identity.ID, name string, at time.Time, details any)
}

// Service keeps messages. Its methods may be called from any goroutine.
type Service struct {
	Deps
	wake     pace.Signal // something is due earlier than before
	endsWait pace.Signal // a message has ended
	changed  pace.Bell   // rings when a message has changed

	mu        sync.Mutex // guards what follows and the fields of messages named below
	messages  map[wire.MessageID]*message
	lastRow   int64
	telling   map[string]bool         // agents to which ends are being reported; true if there are more since
	schedules map[recipient]*schedule // of those for whom messages are kept
}

// message is a message that is kept, or was. Its envelope is on disk only.
type message struct {
	row     int64
	id      wire.MessageID
	peer    identity.ID
	name    string // of the peer when the message was kept
	kind    string
	agent   string // of the peer, or "" for any
	by      registry.Credential
	text    string // its beginning
	size    int
	content inbox.Digest
	since   time.Time
	until   time.Time      // of the wall clock
	endID   wire.MessageID // of the message that reports its end

	// Guarded by Service.mu.
	state     client.TaskState
	tries     uint64
	lastError string
	outcome   string
	ended     time.Time               // zero while it is kept
	told      bool                    // its end is reported to the agent that sent it
	stop      context.CancelCauseFunc // ends what has claimed the message; nil if nothing has
	unwritten []byte                  // what reports its end, while that is not on disk; nil otherwise
}

func (m *message) recipient() recipient { return recipient{m.peer, m.agent} }

func (m *message) isDelegation() bool { return m.kind == kinds.KindDelegate }
func (m *message) isQuery() bool      { return m.kind == kinds.KindQuery }

// queue returns the kind and the sender of a message: such messages for one recipient stay in their order.
func (m *message) queue() string { return m.kind + " " + m.by.Name }

// Open reads what is kept. A query or notification that was being sent when the last run of the daemon ended may have
// arrived; a delegation that was is in the table of delegations.
func Open(ctx context.Context, d Deps) (*Service, error) {
	s := &Service{Deps: d, wake: pace.NewSignal(), endsWait: pace.NewSignal(), messages: make(map[wire.MessageID]*message), schedules: make(map[recipient]*schedule), telling: make(map[string]bool)}
	all, err := store.ReadValue(ctx, d.DB, readMessages)
	if err != nil {
		return nil, ownwords.Errorf("open kept messages: %w", err)
	}
	for _, m := range all {
		s.messages[m.id], s.lastRow = m, m.row
		if m.ended.IsZero() {
			s.scheduleFor(m.recipient(), 0)
			d.Registry.ProtectName(m.by.Name, m.by.KeyHash, time.Now())
		}
	}
	return s, nil
}

// MayKeep reports whether a message that failed with an error certainly did not arrive, and may arrive later.
func MayKeep(e *kinds.Error) bool {
	mends := e.Retryable || e.Code == kinds.IdentityConflict // another machine may have its address until then
	return mends && (e.Delivered() == kinds.DeliveredNo || e.From == "" && e.Code == kinds.Overloaded && e.Delivered() == "")
}

// SendOrKeep calls send, which sends a message. If the message did not arrive, it is kept for ms milliseconds, and the error
// is kept; 0 keeps nothing. A message that is kept already, as the call repeats it under its id, is not sent, and neither
// is one that goes behind others of its kind and sender that are kept for the same recipient.
func (s *Service) SendOrKeep(ctx context.Context, env *wire.Envelope, by registry.Credential, ms uint64, send func() error) error {
	if ms > uint64(client.MaxKeep.Milliseconds()) {
		return kinds.Errorf(kinds.Invalid, "keep_ms: expected at most %d, which is %s", client.MaxKeep.Milliseconds(), kinds.FormatDuration(client.MaxKeep))
	}
	goesBehind, err := s.checkKept(env, by, ms)
	if err != nil {
		return err
	}
	if goesBehind {
		err = errGoesBehind
	} else {
		if ms > 0 {
			s.Node.Prove(ctx, env.To) // a machine that has just been closed is away, and nobody has noticed
		}
		err = send()
	}
	if err == nil || ms == 0 || !MayKeep(kinds.AsError(err)) {
		return err
	}
	return s.keep(ctx, env, by, ms, kinds.AsError(err))
}

// errGoesBehind is why a message is kept at once.
var errGoesBehind = kinds.Errorf(kinds.Overloaded, "older messages for the same agent wait").WithDelivered(kinds.DeliveredNo)

// checkKept returns an error if a message is not to be sent, because it is kept or another has its id. goesBehind is true if
// it is to be kept, and its sender's others of its kind are kept for its recipient.
func (s *Service) checkKept(env *wire.Envelope, by registry.Credential, ms uint64) (goesBehind bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := recipient{env.To, env.Agent}
	switch m := s.messages[env.ID]; {
	case m == nil || !m.ended.IsZero() && ms == 0:
	case m.content != digest(env) || m.recipient() != to:
		return false, inbox.NewReusedIDError(env)
	case !m.ended.IsZero():
		return false, kinds.Errorf(kinds.Invalid, "id: %s was kept, and has ended (%s): leave out keep to send it again under this id, or choose another id", m.id, m.state)
	default:
		return false, m.newError()
	}
	if ms == 0 {
		return false, nil // most calls: nothing is searched for them
	}
	for _, m := range s.messages {
		if m.ended.IsZero() && m.recipient() == to && m.kind == env.Kind && m.by.Name == by.Name {
			return true, nil
		}
	}
	return false, nil
}

// keep keeps a message that did not arrive, and returns the error for its caller: kept, or another if it is not kept.
func (s *Service) keep(ctx context.Context, env *wire.Envelope, by registry.Credential, ms uint64, why *kinds.Error) error {
	to, trusted := s.Trust.FindPeer(env.To)
	if !trusted || env.Kind == kinds.KindDelegate && s.Delegations.Find(client.Given, env.To, env.ID) != nil { // an earlier attempt may have arrived
		return why
	}
	same := *env
	if env.Kind == kinds.KindQuery {
		same.Payload = kinds.SetDeadline(env.Payload, kinds.MaxQueryDeadline)
	}
	var text bytes.Buffer
	err := same.Append(&text)
	if err == nil {
		err = s.Space.CheckRoom(env.To)
	}
	now := time.Now().Round(0) // of the wall clock, by which it expires
	m := &message{
		id: env.ID, peer: to.ID, name: to.Name, kind: env.Kind, agent: env.Agent, by: by, text: client.BeginPeerText(env.Kind, env.Payload),
		size: text.Len(), content: digest(env), since: now, until: now.Add(time.Duration(ms) * time.Millisecond), endID: wire.NewMessageID(),
		state: client.TaskKept, tries: 1, lastError: describe(why), stop: func(error) {}, // nobody sends it before it is on disk
	}
	pause := s.hasten(firstPause)
	if why == errGoesBehind {
		m.tries, pause = 0, 0 // it waits for the others, not for the peer
	}
	if err == nil {
		err = s.enter(m)
	}
	if err == nil {
		s.mu.Lock()
		row := *m // a try for its recipient may be noted meanwhile
		s.mu.Unlock()
		if err = s.write(ctx, true, func(tx *store.Tx) error { return insertMessage(tx, &row, text.Bytes()) }); err != nil {
			s.mu.Lock()
			delete(s.messages, m.id)
			s.mu.Unlock()
		}
		s.release(m)
	}
	if err != nil {
		return kinds.Errorf(kinds.Overloaded, "it did not arrive (%s), and is not kept: %v", describe(why), err).WithDelivered(kinds.DeliveredNo)
	}
	s.publish(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleFor(m.recipient(), pause).soon(pause)
	s.wake.Set()
	s.endsWait.Set() // its time may be over first
	return m.newError()
}

// publish tells subscribers that a message is kept, or has ended.
func (s *Service) publish(m *message) {
	t := s.show(m)
	s.Publish(client.EventKept, m.peer, m.name, time.Now(), client.KeptEvent{ID: m.id, Kind: m.kind, State: t.State})
}

// digest returns the digest of a message that a repeat has too, whatever deadline its query names.
func digest(env *wire.Envelope) inbox.Digest {
	if env.Kind != kinds.KindQuery {
		return inbox.HashMessage(env)
	}
	same := *env
	same.Payload = kinds.SetDeadline(env.Payload, kinds.MaxQueryDeadline)
	return inbox.HashMessage(&same)
}

// describe returns an error in words of this daemon, and without addresses, as agents read it too.
func describe(e *kinds.Error) string {
	words := e.OwnWords()
	switch {
	case e.From == "":
	case e.Code == kinds.NoAgent:
		words = "no agent there takes it now; acpctl agents lists those that are there"
	case e.Code == kinds.Overloaded:
		words = "the peer takes no more now"
	case e.Code == kinds.Timeout:
		words = "nobody there has looked at it yet"
	}
	return client.ClipText(local.MaskAddrs(words), client.MaxBeginning)
}

// enter enters a message, unless there is no room.
func (s *Service) enter(m *message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messages[m.id] != nil {
		return kinds.Errorf(kinds.Invalid, "id: %s is kept already", m.id)
	}
	if full := s.findFull(m); full != nil {
		return kinds.Errorf(kinds.Overloaded, "%d messages or %d MiB are kept %s, the most there may be: withdraw some with acpctl cancel, or wait", full.count, full.size>>20, full.whose)
	}
	s.lastRow++
	m.row = s.lastRow
	s.messages[m.id] = m
	return nil
}

// bound is how much may be kept of one sort.
type bound struct {
	whose string
	count int
	size  int
	takes func(*message) bool // whether a message takes of it
}

// findFull returns the bound that a further message would exceed, or nil. The caller holds mu.
func (s *Service) findFull(m *message) *bound {
	isOfAgent := func(of *message) bool { return of.by != (registry.Credential{}) }
	for _, b := range []bound{
		{whose: "here", count: maxMessages, size: maxBytes, takes: func(*message) bool { return true }},
		{whose: "for this peer", count: maxOfPeer, size: maxPeerSize, takes: func(of *message) bool { return of.peer == m.peer }},
		{whose: "of agents", count: maxMessages / 2, size: maxBytes / 2, takes: isOfAgent},
		{whose: "of agents for this peer", count: maxOfPeer / 2, size: maxPeerSize / 2, takes: func(of *message) bool { return of.peer == m.peer && isOfAgent(of) }},
	} {
		if !b.takes(m) {
			continue
		}
		count, size := 1, m.size
		for _, of := range s.messages {
			if of.ended.IsZero() && b.takes(of) {
				count, size = count+1, size+of.size
			}
		}
		if count > b.count || size > b.size {
			return &b
		}
	}
	return nil
}

// newError returns the error of a call whose message is kept. The caller holds Service.mu.
func (m *message) newError() *kinds.Error {
	e := kinds.Errorf(kinds.Kept, "%s: kept until %s, because it did not arrive (%s): acpctl wait %s tells how it ends, and acpctl cancel withdraws it",
		identity.CleanClaim(m.name), m.until.UTC().Format(time.RFC3339), m.lastError, m.id)
	e.Details = kinds.EncodePayload(struct {
		Delivered kinds.Delivered `json:"delivered"`
		Kept      *client.Kept    `json:"kept"`
	}{kinds.DeliveredNo, m.kept()}).Object()
	return e
}

func (m *message) kept() *client.Kept {
	return &client.Kept{ID: m.id, Until: client.Time{Time: m.until.Truncate(time.Millisecond)}, Tries: m.tries, LastError: m.lastError}
}

// isSeenBy reports whether a caller may see a message: nil is the owner.
func (m *message) isSeenBy(who *registry.Credential) bool {
	return who == nil || m.by.KeyHash == who.KeyHash || m.by.Name != "" && m.by.Name == who.Name
}

// find returns a message that a caller may see, or nil. It returns nil for a delegation that its peer has accepted.
func (s *Service) find(who *registry.Credential, id wire.MessageID) *message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.messages[id]; m != nil && m.isSeenBy(who) && !s.isGiven(m) {
		return m
	}
	return nil
}

// isGiven reports whether a message is in the table of delegations, which has the say then, unless nothing more is known
// there. The caller holds mu.
func (s *Service) isGiven(m *message) bool {
	if !m.isDelegation() {
		return false
	}
	t := s.Delegations.Find(client.Given, m.peer, m.id)
	return t != nil && m.state != s.Delegations.Status(t).State
}

// Wait waits until a message has ended, and returns it then, or nil if it is not here: it never was, or its peer has
// accepted it as a delegation.
func (s *Service) Wait(ctx context.Context, who *registry.Credential, id wire.MessageID) (*client.Task, error) {
	for {
		changed := s.changed.NextRing()
		m := s.find(who, id)
		if m == nil {
			return nil, nil
		}
		if t := s.show(m); t.Over {
			return s.describe(ctx, m)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, kinds.NewErrorFromCause(context.Cause(ctx))
		}
	}
}

// Describe returns a message with the payload of its end, or nil if it is not here.
func (s *Service) Describe(ctx context.Context, who *registry.Credential, id wire.MessageID) (*client.Task, error) {
	if m := s.find(who, id); m != nil {
		return s.describe(ctx, m)
	}
	return nil, nil
}

func (s *Service) describe(ctx context.Context, m *message) (*client.Task, error) {
	t := s.show(m)
	if !t.Over {
		return t, nil
	}
	env, err := s.readEnvelope(ctx, m)
	if err == nil && env != nil {
		t.Result = env.Payload
	}
	return t, err
}

// List returns the messages that a caller may see, the oldest first, also those that are in the table of delegations now.
func (s *Service) List(who *registry.Credential) []client.Task {
	s.mu.Lock()
	var all []*message
	for _, m := range s.messages {
		if m.isSeenBy(who) {
			all = append(all, m)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *message) int { return cmp.Compare(a.row, b.row) })
	tasks := make([]client.Task, len(all))
	for i, m := range all {
		tasks[i] = *s.show(m)
	}
	return tasks
}

// show returns a message as the local API shows it, without payloads.
func (s *Service) show(m *message) *client.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &client.Task{
		ID: m.id, Kind: m.kind, Peer: s.Trust.NameOf(m.peer), Direction: client.Given, ToAgent: m.agent, Task: m.text, State: m.state,
		Over: !m.ended.IsZero(), Began: client.Time{Time: m.since.Truncate(time.Millisecond)}, Outcome: m.outcome,
	}
	if !t.Over {
		t.Kept = m.kept()
	}
	return t
}

// ListFamilies returns the metric of what is kept.
func (s *Service) ListFamilies() []metrics.Family {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.messages {
		if m.ended.IsZero() {
			n++
		}
	}
	return []metrics.Family{{Name: "acpd_kept", Type: metrics.Gauge, Help: "Messages that are kept for peers or agents that are away.", Write: metrics.One(n)}}
}
