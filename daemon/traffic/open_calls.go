package traffic

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
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
	request   kinds.Checked // without an envelope: a mark in the list, and no call
	follows   Cause
	agent     atomic.Pointer[string]

	previous, next *Call // guarded by OpenCalls.mu
}

// NewOpenCalls returns that there are none.
func NewOpenCalls() *OpenCalls {
	o := new(OpenCalls)
	o.ends.previous, o.ends.next = &o.ends, &o.ends
	return o
}

// Cause is what led to a message that was sent from here: the message that its caller has named as its
// parent, zero if it named none.
type Cause struct {
	Parent  wire.MessageID
	Guessed bool // the caller has guessed
}

// Begin makes a call known until End is called.
func (o *OpenCalls) Begin(direction client.MessageDirection, request kinds.Checked, follows Cause) *Call {
	c, ok := o.unused.Get().(*Call)
	if !ok {
		c = new(Call)
	}
	c.Began, c.direction, c.request, c.follows = time.Now(), direction, request, follows
	o.mu.Lock()
	defer o.mu.Unlock()
	c.insertBehind(o.ends.previous)
	return c
}

// End makes a call unknown, and returns the agent that was chosen for it, "" if none was.
func (o *OpenCalls) End(c *Call) (agent string) {
	o.mu.Lock()
	c.remove()
	o.mu.Unlock()
	agent = c.ChosenAgent()
	c.previous, c.next, c.request = nil, nil, kinds.Checked{}
	c.agent.Store(nil)
	o.unused.Put(c)
	return agent
}

func (c *Call) insertBehind(other *Call) {
	c.previous, c.next = other, other.next
	c.previous.next, c.next.previous = c, c
}

func (c *Call) remove() { c.previous.next, c.next.previous = c.next, c.previous }

// SetAgent says which agent was chosen for a call. The text must not change.
func (c *Call) SetAgent(name *string) { c.agent.Store(name) }

// ChosenAgent returns the agent that SetAgent named, "" if none was chosen.
func (c *Call) ChosenAgent() string {
	if name := c.agent.Load(); name != nil {
		return *name
	}
	return ""
}

// describe returns the call as readers get it, without its text.
func (c *Call) describe() client.TrafficEntry {
	env := c.request.Envelope
	e := client.TrafficEntry{
		At: c.Began.UTC(), Direction: c.direction, Peer: env.From, Agent: env.Agent, FromAgent: env.FromAgent, Kind: c.request.Spec.Name,
		ID: env.ID, Thread: env.Thread, Hops: env.Hops, Parent: c.follows.Parent, Guessed: c.follows.Guessed, Chain: env.Chain().TraceID().String(),
		Topic: c.request.Topic, Bytes: len(env.Payload), TookUS: measureTook(c.Began),
	}
	if c.direction == client.Out {
		e.Peer = env.To
	}
	if agent := c.ChosenAgent(); agent != "" {
		e.Agent = agent
	}
	if env.Ref != nil {
		e.Ref = *env.Ref
	}
	return e
}

// List returns the open calls that a filter selects, the oldest first, at most so many, without names
// and payloads, and how many there are besides. If there are more than so many, peers have turns: so none
// hides those of another. What it returns is copied: the memory of a request is used anew when the call
// ends.
func (o *OpenCalls) List(f *Filter, most int) (all []client.TrafficEntry, more int) {
	counts := make(map[identity.ID]int)
	o.walk(f, func(e *client.TrafficEntry, _ []byte) {
		counts[e.Peer]++
		more++
	})
	left := shareOut(counts, most)
	var payloads [][]byte
	o.walk(f, func(e *client.TrafficEntry, payload []byte) {
		if left[e.Peer] > 0 {
			left[e.Peer]--
			all, payloads = append(all, *e), append(payloads, bytes.Clone(payload[:min(len(payload), maxHead)]))
		}
	})
	for i := range all {
		all[i].Text = beginText(all[i].Kind, payloads[i])
	}
	return all, max(more-len(all), 0)
}

// walkedCalls is how many calls are looked at before the lock is free for those that begin and end.
const walkedCalls = 64

// walk calls visit with each call that a filter selects and that is open since the walk began, the
// oldest first. The entry and the payload are good until visit returns.
func (o *OpenCalls) walk(f *Filter, visit func(e *client.TrafficEntry, payload []byte)) {
	now, mark, e := time.Now(), new(Call), new(client.TrafficEntry)
	o.mu.Lock()
	defer o.mu.Unlock()
	mark.insertBehind(&o.ends)
	defer mark.remove()
	for seen := 1; ; seen++ {
		c := mark.next
		if c == &o.ends || c.Began.After(now) {
			return
		}
		mark.remove()
		mark.insertBehind(c)
		if c.request.Envelope != nil {
			if *e = c.describe(); f.Selects(e) {
				visit(e, c.request.Payload)
			}
		}
		if seen%walkedCalls == 0 {
			o.mu.Unlock()
			o.mu.Lock()
		}
	}
}
