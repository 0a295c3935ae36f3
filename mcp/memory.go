package mcp

import (
	"slices"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// maxRemembered bounds each memory.
const maxRemembered = 256

// memory keeps the values that were kept last, maxRemembered at most.
type memory[K comparable, V any] struct {
	values map[K]V
	order  []K // the oldest first
}

func (m *memory[K, V]) keep(k K, v V) {
	m.forget(k)
	if m.values == nil {
		m.values = make(map[K]V)
	}
	if len(m.order) >= maxRemembered {
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
	m.values[k] = v
	m.order = append(m.order, k)
}

func (m *memory[K, V]) get(k K) (V, bool) {
	v, ok := m.values[k]
	return v, ok
}

// keysOf returns the keys that match, the oldest first.
func (m *memory[K, V]) keysOf(match func(K, V) bool) (keys []K) {
	for _, k := range m.order {
		if match(k, m.values[k]) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (m *memory[K, V]) forget(k K) {
	if _, ok := m.values[k]; ok {
		delete(m.values, k)
		m.order = slices.DeleteFunc(m.order, func(o K) bool { return o == k })
	}
}

// messageKey identifies a message. The id is not enough: its sender has chosen it, and another peer
// can choose the same.
type messageKey struct {
	from identity.ID
	id   wire.MessageID
}

func keyOf(e *wire.Envelope) messageKey { return messageKey{e.From, e.ID} }

// noticeQueue holds lines for the model that go with the next result.
type noticeQueue struct {
	mu    sync.Mutex
	lines []notice
}

// notice is a line about what a peer did, or about a message to it.
type notice struct {
	peer identity.ID
	text string
}

const maxNotices = 16

// add adds a line. If there are too many, the oldest one goes of the peer that has most.
func (q *noticeQueue) add(peer identity.ID, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, notice{peer, text})
	if len(q.lines) <= maxNotices {
		return
	}
	held := make(map[identity.ID]int)
	most := 0
	for _, n := range q.lines {
		held[n.peer]++
		most = max(most, held[n.peer])
	}
	oldest := slices.IndexFunc(q.lines, func(n notice) bool { return held[n.peer] == most })
	q.lines = slices.Delete(q.lines, oldest, oldest+1)
}

// take returns the lines, the oldest first, and forgets them.
func (q *noticeQueue) take() (texts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range q.lines {
		texts = append(texts, n.text)
	}
	q.lines = nil
	return texts
}
