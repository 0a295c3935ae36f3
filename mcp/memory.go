package mcp

import (
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// memory keeps the values that were kept last, so many at most.
type memory[K comparable, V any] struct {
	most   int
	values map[K]V
	order  []K // the oldest first
}

func (m *memory[K, V]) keep(k K, v V) {
	m.forget(k)
	if m.values == nil {
		m.values = make(map[K]V)
	}
	if len(m.order) >= m.most {
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

// parentFor is how long a message that was shown to the session is the parent of its calls.
const parentFor = 10 * time.Minute

// parentMemory knows which inbound messages were shown to the session.
type parentMemory struct {
	mu    sync.Mutex
	shown memory[messageKey, showing]
	n     int // messages that were ever shown
}

// showing says which of the messages was shown first, and when it was shown last.
type showing struct {
	number int
	last   time.Time
}

// note notes that an inbound message is shown now. One that is shown again does not become newer
// than those that came after it.
func (p *parentMemory) note(key messageKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.most = maxSenders
	s, again := p.shown.get(key)
	if !again {
		p.n++
		s.number = p.n
	}
	s.last = time.Now()
	p.shown.keep(key, s)
}

// newest returns the newest message of a peer's that was shown in the last ten minutes, of any peer's
// if of is zero. It returns zero if there is none.
func (p *parentMemory) newest(of identity.ID) (key messageKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := 0
	for _, shown := range p.shown.order {
		if of != (identity.ID{}) && shown.from != of {
			continue
		}
		if s, _ := p.shown.get(shown); s.number > newest && time.Since(s.last) <= parentFor {
			key, newest = shown, s.number
		}
	}
	return key
}

// seenMessages knows which messages of the inbox were shown to their end and are still there: the
// model knows of them, and is not told again that they have come.
type seenMessages struct {
	mu  sync.Mutex
	ids map[wire.MessageID]struct{}
}

// add notes that messages were shown. If they are all that there are, it forgets the others.
func (m *seenMessages) add(ids []wire.MessageID, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil || all || len(m.ids) > maxSenders {
		m.ids = make(map[wire.MessageID]struct{})
	}
	for _, id := range ids {
		m.ids[id] = struct{}{}
	}
}

// remove forgets messages that wait no more.
func (m *seenMessages) remove(ids ...wire.MessageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.ids, id)
	}
}

func (m *seenMessages) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids)
}

// noticeQueue holds lines for the model that go with the next result.
type noticeQueue struct {
	mu    sync.Mutex
	lines []string
}

const maxNotices = 16

func (q *noticeQueue) add(line string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) >= maxNotices {
		q.lines = q.lines[1:]
	}
	q.lines = append(q.lines, line)
}

func (q *noticeQueue) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines
	q.lines = nil
	return lines
}
