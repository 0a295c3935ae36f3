package mcp

import (
	"slices"
	"sync"
	"time"

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

func (m *memory[K, V]) forget(k K) {
	if _, ok := m.values[k]; ok {
		delete(m.values, k)
		m.order = slices.DeleteFunc(m.order, func(o K) bool { return o == k })
	}
}

// parentFor is how long a message that was shown to the session is the parent of its calls.
const parentFor = 10 * time.Minute

// parentMemory knows the newest inbound message that was shown to the session.
type parentMemory struct {
	mu    sync.Mutex
	id    wire.MessageID
	shown time.Time
}

// note notes that an inbound message was shown just now.
func (p *parentMemory) note(id wire.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.shown = id, time.Now()
}

// newest returns the newest message that was shown in the last ten minutes, zero if there is none.
func (p *parentMemory) newest() wire.MessageID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.shown) > parentFor {
		return wire.MessageID{}
	}
	return p.id
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
