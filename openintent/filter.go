package openintent

import (
	"slices"
	"time"

	"github.com/acpd/acpd/openintent/chain"
)

const (
	MaxList      = 1000    // messages in one list
	MaxListBytes = 8 << 20 // after which nothing more is put into a list
	maxGathered  = 2 << 20 // the same, of a list that goes to another daemon, which puts several together
	MaxWait      = 60 * time.Second
)

// filter says which messages of a channel a list is about.
type filter struct {
	who    Caller
	since  int64      // those with a higher number
	after  chain.Time // and a later time
	newest bool       // of too many the last ones, otherwise the first ones
	to     string     // a name
	kinds  []string
	status string
	limit  int

	settled int64 // of the feed when the store is looked through: what comes later is in another list
	seen    int64 // the highest number that was looked at in the store
	found   []*message
	bytes   int // of them
}

// add takes a message that was found, and reports whether the list is full.
func (f *filter) add(m *message) (full bool) {
	f.found = append(f.found, m)
	f.bytes += len(m.head)
	return len(f.found) >= f.limit || f.bytes >= MaxListBytes
}

// addressee makes a name of whom the list is to name as recipient: the caller itself,
// where it says its own id.
func (f *filter) addressee(e *Engine, ch *channel) (err error) {
	switch {
	case f.to == "":
	case !validName(f.to):
		return Invalid("to", "the id of an agent is needed")
	case f.to == f.who.Agent:
		f.to = f.who.name
	default:
		e.mu.RLock()
		defer e.mu.RUnlock()
		f.to, err = e.recipient(ch, f.to, "")
	}
	return err
}

// matches reports whether the list holds m. The world is read-locked.
func (f *filter) matches(e *Engine, m *message, at chain.Time) bool {
	if m.number <= f.since || m.at <= f.after || !m.kept(at) || !m.sees(f.who) {
		return false
	}
	if f.to != "" && !m.receives(f.to) {
		return false
	}
	if f.kinds != nil && !slices.Contains(f.kinds, m.kind) {
		return false
	}
	status, _ := m.shown(f.who.name, at)
	if f.status == "" {
		return status != statusExpired
	}
	return status == f.status
}
