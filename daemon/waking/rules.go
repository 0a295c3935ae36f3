package waking

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/kinds"
)

// Bounds of the rules.
const (
	maxPermissions = 4096
	maxNames       = 256 // agents whose answers wake them, and muted ones
)

// ErrRulesFull: there are as many rules as there can be.
var ErrRulesFull = ownwords.Errorf("at most %d permissions, %d agents whose answers wake them and %[2]d muted ones: revoke some first", maxPermissions, maxNames)

// Permission is the owner's permission for messages of one kind of one peer to wake a session.
type Permission struct {
	Peer       identity.ID `yaml:"peer"`
	Agent      string      `yaml:"agent,omitempty"` // the session, or "" for every session
	Kind       string      `yaml:"kind"`
	Ask        bool        `yaml:"ask,omitempty"`        // each message waits for an approval
	Unattended bool        `yaml:"unattended,omitempty"` // also if nobody is there to be asked for permissions
	Since      time.Time   `yaml:"since"`                // UTC, whole seconds
}

// AnswersRule is the owner's permission for answers to a session's requests to wake it.
type AnswersRule struct {
	Agent      string `yaml:"agent,omitempty"` // the session, or "" for every session
	Unattended bool   `yaml:"unattended,omitempty"`
}

// mute is the owner's order that nothing wakes a session until a time.
type mute struct {
	Agent string    `yaml:"agent"`
	Until time.Time `yaml:"until"` // UTC, whole seconds
}

// ruleKey names a permission: there is one with each key.
type ruleKey struct {
	peer  identity.ID
	agent string
	kind  string
}

// ruleRecord is the content of the rules' files. Sequence is the number of its last change. It
// shows which of two files is newer.
type ruleRecord struct {
	Version     int           `yaml:"version"`
	Sequence    uint64        `yaml:"sequence"`
	Permissions []Permission  `yaml:"permissions,omitempty"`
	Answers     []AnswersRule `yaml:"answers,omitempty"`
	Muted       []mute        `yaml:"muted,omitempty"`
	Notify      []string      `yaml:"notify,omitempty"` // the command that notifies the owner, or empty
}

// copyForChange returns a copy that the caller may change, with the next sequence number.
func (r ruleRecord) copyForChange() ruleRecord {
	r.Sequence++
	r.Permissions, r.Answers, r.Muted = slices.Clone(r.Permissions), slices.Clone(r.Answers), slices.Clone(r.Muted)
	return r
}

// ruleSnapshot is a valid record with an index. It is never changed, only replaced.
type ruleSnapshot struct {
	ruleRecord `yaml:",inline"`
	byKey      map[ruleKey]int // index in Permissions
}

// Numbers returns the number of the last change twice: no file that lacks it is believed.
func (s *ruleSnapshot) Numbers() (sequence, required uint64) { return s.Sequence, s.Sequence }

// newRuleSnapshot checks a record and indexes it.
func newRuleSnapshot(r ruleRecord) (*ruleSnapshot, error) {
	if len(r.Permissions) > maxPermissions || len(r.Answers) > maxNames || len(r.Muted) > maxNames {
		return nil, ErrRulesFull
	}
	s := &ruleSnapshot{r, make(map[ruleKey]int, len(r.Permissions))}
	for i, p := range r.Permissions {
		switch {
		case p.Peer.IsZero():
			return nil, identity.ErrNobody
		case !kinds.Has(p.Kind, kinds.Wakes):
			return nil, ownwords.Errorf("kind %.64q: nothing is woken for it", p.Kind)
		}
		if err := checkAgentName(p.Agent); err != nil {
			return nil, err
		}
		s.byKey[ruleKey{p.Peer, p.Agent, p.Kind}] = i
	}
	if len(s.byKey) < len(r.Permissions) {
		return nil, ownwords.New("a rule stands twice")
	}
	for _, a := range r.Answers {
		if err := checkAgentName(a.Agent); err != nil {
			return nil, err
		}
	}
	for _, m := range r.Muted {
		if err := identity.CheckAgentName(m.Agent); err != nil {
			return nil, ownwords.Errorf("muted: %w", err)
		}
	}
	if len(r.Notify) > 0 {
		if err := config.CheckCommand(r.Notify, config.OwnerNotifyExample); err != nil {
			return nil, ownwords.Errorf("notify: %w", err)
		}
	}
	return s, nil
}

// checkAgentName returns an error unless an agent can have the name, or it is "".
func checkAgentName(name string) error {
	if err := identity.CheckAgentName(name); err != nil && name != "" {
		return kinds.Errorf(kinds.Invalid, "agent: %v", err)
	}
	return nil
}

// Rules holds who may wake which session. It is safe for concurrent use. Reads take no lock and
// do no I/O.
//
// A change that allows more is written first and takes effect once it is durable. A change that allows
// less takes effect at once; [Rules.Save] writes it.
type Rules struct {
	unsaved pace.Signal // set when current and the files may differ
	current atomic.Pointer[ruleSnapshot]

	filesMu sync.Mutex                   // held while files are written
	files   *sealed.Files[*ruleSnapshot] // guarded by filesMu
}

// Permissions returns all permissions, in the order in which they were given.
func (r *Rules) Permissions() []Permission { return slices.Clone(r.current.Load().Permissions) }

// Answers returns the rules about answers.
func (r *Rules) Answers() []AnswersRule { return slices.Clone(r.current.Load().Answers) }

// Notify returns the command that notifies the owner of what waits for him, or nil.
func (r *Rules) Notify() []string { return r.current.Load().Notify }

// SetNotify sets that command, and blocks until that is durable. Its removal takes effect at once.
func (r *Rules) SetNotify(argv []string) error {
	set := func(next *ruleRecord) bool {
		next.Notify = slices.Clone(argv)
		return true
	}
	if len(argv) > 0 {
		return r.widen(func(next *ruleRecord) { set(next) })
	}
	r.narrow(set)
	return r.Save()
}

// findPermission returns the permission for a session; agent "" means the permission for every session.
func (r *Rules) findPermission(agent string, peer identity.ID, kind string) (Permission, bool) {
	s := r.current.Load()
	i, ok := s.byKey[ruleKey{peer, agent, kind}]
	if !ok {
		return Permission{}, false
	}
	return s.Permissions[i], true
}

// findAnswers returns the rule about answers to a session; agent "" means the rule for every session.
func (r *Rules) findAnswers(agent string) (AnswersRule, bool) {
	s := r.current.Load()
	i := slices.IndexFunc(s.Answers, func(a AnswersRule) bool { return a.Agent == agent })
	if i < 0 {
		return AnswersRule{}, false
	}
	return s.Answers[i], true
}

// MutedUntil returns when an agent's mute ends, or the zero time if the agent is not muted.
func (r *Rules) MutedUntil(agent string, now time.Time) time.Time {
	for _, m := range r.current.Load().Muted {
		if m.Agent == agent && now.Before(m.Until) {
			return m.Until
		}
	}
	return time.Time{}
}

// listPeers returns the peers that may wake an agent, each once; agent "" means any agent.
func (r *Rules) listPeers(agent string) map[identity.ID]bool {
	found := make(map[identity.ID]bool)
	for _, p := range r.current.Load().Permissions {
		if agent == "" || p.Agent == "" || p.Agent == agent {
			found[p.Peer] = true
		}
	}
	return found
}

// Allow gives permissions, instead of those with the same peer, agent and kind. One for every session
// replaces those for single sessions too. It blocks until that is durable.
func (r *Rules) Allow(given ...Permission) error {
	return r.widen(func(next *ruleRecord) {
		for _, p := range given {
			p.Since = p.Since.UTC().Truncate(time.Second)
			same := func(o Permission) bool {
				return o.Peer == p.Peer && o.Kind == p.Kind && (p.Agent == "" || o.Agent == p.Agent)
			}
			next.Permissions = append(slices.DeleteFunc(next.Permissions, same), p)
		}
	})
}

// Revoke removes the permissions that match, and returns how many there were. It takes effect at
// once. Revoke does no I/O: call [Rules.Save], or a restart finds them again.
func (r *Rules) Revoke(match func(Permission) bool) (n int) {
	r.narrow(func(next *ruleRecord) bool {
		before := len(next.Permissions)
		next.Permissions = slices.DeleteFunc(next.Permissions, match)
		n = before - len(next.Permissions)
		return n > 0
	})
	return n
}

// SetAnswers sets whether answers wake a session; rule.Agent "" means every session. It blocks until that
// is durable. Off takes effect at once.
func (r *Rules) SetAnswers(rule AnswersRule, on bool) error {
	same := func(o AnswersRule) bool { return o.Agent == rule.Agent }
	if on {
		return r.widen(func(next *ruleRecord) { next.Answers = append(slices.DeleteFunc(next.Answers, same), rule) })
	}
	r.narrow(func(next *ruleRecord) bool {
		next.Answers = slices.DeleteFunc(next.Answers, same)
		return true
	})
	return r.Save()
}

// Mute keeps an agent from being woken until a time. If that time has passed, Mute lets the agent be woken
// again. It blocks until that is durable. A mute takes effect at once.
func (r *Rules) Mute(agent string, until time.Time) error {
	now := time.Now()
	until = until.UTC().Truncate(time.Second)
	others := func(next *ruleRecord) {
		next.Muted = slices.DeleteFunc(next.Muted, func(m mute) bool { return m.Agent == agent || !now.Before(m.Until) })
	}
	if !now.Before(until) {
		return r.widen(others)
	}
	if err := r.narrow(func(next *ruleRecord) bool {
		others(next)
		next.Muted = append(next.Muted, mute{agent, until})
		return true
	}); err != nil {
		return err
	}
	return r.Save()
}

// widen writes a change and then applies it. change must be repeatable.
func (r *Rules) widen(change func(*ruleRecord)) error {
	r.filesMu.Lock()
	defer r.filesMu.Unlock()
	for {
		s := r.current.Load()
		next := s.copyForChange()
		change(&next)
		written, err := r.writeRecord(next)
		if err != nil {
			return ownwords.Errorf("nothing is changed: %w", err)
		}
		if r.current.CompareAndSwap(s, written) {
			return nil
		}
		r.unsaved.Set() // the files now have a change that was not applied
	}
}

// narrow applies a change at once, unless change returns false. If a change only removes rules, the
// record stays valid, so narrow returns nil.
func (r *Rules) narrow(change func(*ruleRecord) bool) error {
	for {
		s := r.current.Load()
		next := s.copyForChange()
		if !change(&next) {
			return nil
		}
		counts, err := newRuleSnapshot(next)
		if err != nil {
			return err
		}
		if r.current.CompareAndSwap(s, counts) {
			r.unsaved.Set()
			return nil
		}
	}
}

// Save writes to both files what they lack, and blocks until it is durable. If it fails, the
// next Save or change tries again.
func (r *Rules) Save() error {
	r.filesMu.Lock()
	defer r.filesMu.Unlock()
	for {
		s := r.current.Load()
		if s == r.files.Newest {
			return nil
		}
		written, err := r.writeRecord(s.ruleRecord)
		if err != nil {
			return ownwords.Errorf("it holds until acpd ends, and is not on disk: %w", err)
		}
		if r.current.CompareAndSwap(s, written) {
			return nil
		}
	}
}

// writeRecord makes next the content of the files and returns it as a snapshot. Its sequence
// number is above that of the files, which may hold a change that was abandoned. The caller
// holds filesMu.
func (r *Rules) writeRecord(next ruleRecord) (*ruleSnapshot, error) {
	next.Sequence = max(next.Sequence, r.files.Newest.Sequence+1)
	written, err := newRuleSnapshot(next)
	if err != nil {
		return nil, err
	}
	if err := r.files.Write(written); err != nil {
		r.unsaved.Set() // where a file has the change that was not made, Save takes it back
		return nil, err
	}
	return written, nil
}
