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
	mu   sync.Mutex
	ends Call // its next is the oldest call, its previous the newest
}

// Call is a call that is open.
type Call struct {
	Began     time.Time
	direction client.MessageDirection
	request   kinds.Checked
	agent     atomic.Pointer[string]

	previous, next *Call // guarded by OpenCalls.mu; nil: the call has ended
}

// NewOpenCalls returns that there are none.
func NewOpenCalls() *OpenCalls {
	o := new(OpenCalls)
	o.ends.previous, o.ends.next = &o.ends, &o.ends
	return o
}

// Begin makes a call known until End is called.
func (o *OpenCalls) Begin(direction client.MessageDirection, request kinds.Checked) *Call {
	c := &Call{Began: time.Now(), direction: direction, request: request}
	o.mu.Lock()
	defer o.mu.Unlock()
	c.previous, c.next = o.ends.previous, &o.ends
	c.previous.next, c.next.previous = c, c
	return c
}

// End makes a call unknown. It may be called twice.
func (o *OpenCalls) End(c *Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.next != nil {
		c.previous.next, c.next.previous = c.next, c.previous
		c.previous, c.next = nil, nil
	}
}

// SetAgent says which agent was chosen for a call. The text must not change.
func (c *Call) SetAgent(name *string) { c.agent.Store(name) }

// Agent returns the agent that was chosen, "" if none was.
func (c *Call) Agent() string {
	if name := c.agent.Load(); name != nil {
		return *name
	}
	return ""
}

// List returns the open calls that a filter selects, the oldest first, at most so many, without names
// and payloads. Calls that begin and end wait for no more than one copy of one call.
func (o *OpenCalls) List(f *Filter, most int) []client.TrafficEntry {
	all := []client.TrafficEntry{}
	for _, c := range o.listCalls() {
		if len(all) == most {
			break
		}
		if e := o.copyCall(c, f); e != nil {
			all = append(all, e.describe("", false))
		}
	}
	return all
}

// listCalls returns the calls that are open now, the oldest first.
func (o *OpenCalls) listCalls() (calls []*Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := o.ends.next; c != &o.ends; c = c.next {
		calls = append(calls, c)
	}
	return calls
}

// copyCall returns what is told of a call; nil if it has ended, when the memory of its request is used
// anew, or the filter does not select it.
func (o *OpenCalls) copyCall(c *Call, f *Filter) *entry {
	m := &Message{Direction: c.direction, Request: c.request, Began: c.Began, Agent: c.Agent()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.next == nil {
		return nil
	}
	if head := describeRequest(m); !f.Selects(&head) {
		return nil
	}
	return newEntry(m, 0)
}
