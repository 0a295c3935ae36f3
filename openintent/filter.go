package openintent

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxList      = 1000    // messages in one list
	maxListBytes = 8 << 20 // after which nothing more is put into a list
	maxGathered  = 2 << 20 // the same, of a list that goes to another daemon, which puts several together
	maxWait      = 60 * time.Second
)

// array is a list of what show makes of each, as much of it as room has bytes for.
func array[T any](room int, list []T, show func(T) any) jsontext.Value {
	b := []byte{'['}
	for _, v := range list {
		if len(b) > 1 {
			b = append(b, ',')
		}
		if b = append(b, text(show(v))...); len(b) >= room {
			break
		}
	}
	return append(b, ']')
}

// filter says which messages of a channel a list is about.
type filter struct {
	who    Caller
	since  int64 // those with a higher number
	after  stamp // and a later time
	newest bool  // of too many the last ones, otherwise the first ones
	to     string
	kinds  []string
	status string
	limit  int

	found []*message
	bytes int // of them
}

// add takes a message that was found, and reports whether the list is full.
func (f *filter) add(m *message) (full bool) {
	f.found = append(f.found, m)
	f.bytes += len(m.head)
	return len(f.found) >= f.limit || f.bytes >= maxListBytes
}

// matches reports whether the list holds m. The world is read-locked.
func (f *filter) matches(e *Engine, m *message, at stamp) bool {
	if m.number <= f.since || m.at <= f.after || !m.kept(at) || !e.sees(m, f.who, at) {
		return false
	}
	if f.to != "" && !e.receives(m, f.to, at) {
		return false
	}
	if f.kinds != nil && !slices.Contains(f.kinds, m.kind) {
		return false
	}
	status, _ := m.shown(f.who.Agent, at)
	if f.status == "" {
		return status != statusExpired
	}
	return status == f.status
}
