package traffic

import (
	"bytes"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

// OpenCalls knows the calls that have no outcome yet, whether anybody watches or not. The zero value is
// not ready.
type OpenCalls struct {
	mu   sync.Mutex   // guards the list
	ends peer.Passing // its Next is the oldest call, its Previous the newest. A Passing without an envelope is a mark in the list, and no call
}

// newOpenCalls returns an empty list of open calls.
func newOpenCalls() *OpenCalls {
	o := new(OpenCalls)
	o.ends.Previous, o.ends.Next = &o.ends, &o.ends
	return o
}

// add makes a call known until remove is called.
func (o *OpenCalls) add(c *peer.Passing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	insertBehind(c, o.ends.Previous)
}

func (o *OpenCalls) remove(c *peer.Passing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	unlink(c)
}

func insertBehind(c, other *peer.Passing) {
	c.Previous, c.Next = other, other.Next
	c.Previous.Next, c.Next.Previous = c, c
}

func unlink(c *peer.Passing) { c.Previous.Next, c.Next.Previous = c.Next, c.Previous }

// DirectionOf returns the direction of a message as the local API has it.
func DirectionOf(inbound bool) client.MessageDirection {
	if inbound {
		return client.In
	}
	return client.Out
}

// describeCall returns a call as readers get it, without its text.
func describeCall(c *peer.Passing) client.TrafficEntry {
	env := c.Envelope
	e := client.TrafficEntry{
		At: c.Began.UTC(), Direction: DirectionOf(c.Inbound), Peer: c.Peer(), Agent: env.Agent, FromAgent: env.FromAgent, Kind: c.Spec.Name,
		ID: env.ID, Thread: env.Thread, Hops: env.Hops, Parent: c.Parent, Guessed: c.Guessed, Chain: env.Chain().TraceID().String(),
		Topic: c.Topic, Bytes: len(env.Payload), TookUS: measureTook(c.Began),
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
// and payloads, and how many more there are. If not all fit, peers have turns, so that no peer hides the calls of
// another. It returns copies, because the memory of a request is used again when the call ends.
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
	now, mark, e := time.Now(), new(peer.Passing), new(client.TrafficEntry)
	o.mu.Lock()
	defer o.mu.Unlock()
	insertBehind(mark, &o.ends)
	defer unlink(mark)
	for seen := 1; ; seen++ {
		c := mark.Next
		if c == &o.ends || c.Began.After(now) {
			return
		}
		unlink(mark)
		insertBehind(mark, c)
		if c.Envelope != nil {
			if *e = describeCall(c); f.Selects(e) {
				visit(e, c.Payload)
			}
		}
		if seen%walkedCalls == 0 {
			o.mu.Unlock()
			o.mu.Lock()
		}
	}
}
