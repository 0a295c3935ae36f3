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
func (m *memory[K, V]) keysOf(match func(K) bool) (keys []K) {
	for _, k := range m.order {
		if match(k) {
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

// messageKey names a message. Its id alone does not, as its sender has chosen it, and another peer
// can choose the same.
type messageKey struct {
	from identity.ID
	id   wire.MessageID
}

func keyOf(e *wire.Envelope) messageKey { return messageKey{e.From, e.ID} }

// seenMessages knows which messages of the inbox were shown to their end and are still there: the
// model knows of them, and is not told again that they have come.
type seenMessages struct {
	mu   sync.Mutex
	keys memory[messageKey, struct{}]
}

// add notes that messages were shown. If they are all that there are, it forgets the others.
func (m *seenMessages) add(keys []messageKey, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all {
		m.keys = memory[messageKey, struct{}]{}
	}
	for _, key := range keys {
		m.keys.keep(key, struct{}{})
	}
}

// keysOf returns which messages that were shown have that id, those of a peer alone unless from is
// zero.
func (m *seenMessages) keysOf(id wire.MessageID, from identity.ID) []messageKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys.keysOf(func(key messageKey) bool { return key.id == id && (from.IsZero() || key.from == from) })
}

// remove forgets messages that wait no more.
func (m *seenMessages) remove(keys ...messageKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		m.keys.forget(key)
	}
}

func (m *seenMessages) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys.order)
}

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
