package traffic

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// OpenCalls knows the calls that have no outcome yet, whether anybody watches or not. The zero value is
// not ready.
type OpenCalls struct {
	mu     sync.Mutex
	ends   Call      // its next is the oldest call, its previous the newest
	unused sync.Pool // of *Call, since every query takes one
}

// Call is a call that is open. After OpenCalls.End nobody uses it.
type Call struct {
	Began     time.Time
	direction client.MessageDirection
	request   kinds.Checked
	agent     atomic.Pointer[string]

	previous, next *Call // guarded by OpenCalls.mu
}

// NewOpenCalls returns that there are none.
func NewOpenCalls() *OpenCalls {
	o := new(OpenCalls)
	o.ends.previous, o.ends.next = &o.ends, &o.ends
	return o
}

// Begin makes a call known until End is called.
func (o *OpenCalls) Begin(direction client.MessageDirection, request kinds.Checked) *Call {
	c, ok := o.unused.Get().(*Call)
	if !ok {
		c = new(Call)
	}
	c.Began, c.direction, c.request = time.Now(), direction, request
	o.mu.Lock()
	defer o.mu.Unlock()
	c.previous, c.next = o.ends.previous, &o.ends
	c.previous.next, c.next.previous = c, c
	return c
}

// End makes a call unknown, and returns the agent that was chosen for it, "" if none was.
func (o *OpenCalls) End(c *Call) (agent string) {
	o.mu.Lock()
	c.previous.next, c.next.previous = c.next, c.previous
	o.mu.Unlock()
	agent = c.chosenAgent()
	c.previous, c.next, c.request = nil, nil, kinds.Checked{}
	c.agent.Store(nil)
	o.unused.Put(c)
	return agent
}

// SetAgent says which agent was chosen for a call. The text must not change.
func (c *Call) SetAgent(name *string) { c.agent.Store(name) }

func (c *Call) chosenAgent() string {
	if name := c.agent.Load(); name != nil {
		return *name
	}
	return ""
}

// List returns the open calls that a filter selects, the oldest first, at most so many, without names
// and payloads. What it returns is copied: the memory of a request is used anew when the call ends.
func (o *OpenCalls) List(f *Filter, most int) []client.TrafficEntry {
	var found []*entry
	o.mu.Lock()
	for c := o.ends.next; c != &o.ends && len(found) < most; c = c.next {
		m := Message{Direction: c.direction, Request: c.request, Began: c.Began, Agent: c.chosenAgent()}
		if e := newHead(&m); f.Selects(&e) {
			kept := newEntry(&m, 0)
			kept.Hops = m.Request.Hops
			found = append(found, kept)
		}
	}
	o.mu.Unlock()
	all := make([]client.TrafficEntry, len(found))
	for i, e := range found {
		all[i] = e.describe("", false)
	}
	return all
}
