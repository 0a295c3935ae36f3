//go:build faults

package faults

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// limit is the deadline of calls, where they have one.
const limit = 10 * time.Second

// talk is a kind of call that an agent makes again and again.
type talk struct {
	pause time.Duration
	call  func(context.Context)
}

// talk has both sides' agents make calls of every kind until quiet is called, each
// with a deadline, and those that more are. One that ends later is an error at once.
func (c *check) talk(more ...talk) {
	ctx, end := context.WithCancel(c.t.Context())
	c.end = end
	for _, s := range c.sides() {
		more = append(append(more, c.talks(s)...), talk{time.Second, func(ctx context.Context) { s.read(ctx) }})
	}
	for _, talk := range more {
		c.talking.Go(func() {
			for ctx.Err() == nil {
				talk.call(context.WithoutCancel(ctx))
				select {
				case <-time.After(talk.pause):
				case <-ctx.Done():
				}
			}
		})
	}
}

// pause lies between two calls of an agent.
const pause = 100 * time.Millisecond

// talks are the kinds of calls that an agent makes.
func (c *check) talks(s *side) []talk {
	worker := s.other.Name + "/worker"
	return []talk{
		{pause / 2, func(ctx context.Context) { c.notify(ctx, s, s.other.Name, "build") }},
		{pause, func(ctx context.Context) { c.notify(ctx, s, worker, "direct") }},
		{pause, func(ctx context.Context) { c.ping(ctx, s) }},
		{pause, func(ctx context.Context) { c.discover(ctx, s) }},
		{pause, func(ctx context.Context) { c.query(ctx, s, worker) }},
		{pause, func(ctx context.Context) { c.delegate(ctx, s, worker, "short") }},
		{pause, func(ctx context.Context) { c.delegate(ctx, s, worker, "long") }},
	}
}

// notify tells the other side something and, where its daemon says that it is there,
// writes that down.
func (c *check) notify(ctx context.Context, s *side, to, topic string) {
	id, begun := wire.NewMessageID(), time.Now()
	within, cancel := context.WithTimeout(ctx, limit+slack)
	defer cancel()
	r, err := s.agent.Notify(within, client.NotifyParams{
		Head: client.Head{ID: id}, To: client.To(to), Payload: kinds.EncodePayload(&kinds.Notify{Topic: topic}),
	})
	if err != nil {
		c.failed(s, "notify", begun, within, err)
		return
	}
	c.count("notify", string(r.State))
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.State == client.Handed {
		s.handed[id] = true
	} else {
		s.held[id] = true
	}
}

func (c *check) ping(ctx context.Context, s *side) {
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, limit+slack)
	defer cancel()
	if a, err := s.agent.Ping(within, client.PingParams{To: s.other.Name, TimeoutMS: uint64(limit.Milliseconds())}); err != nil {
		c.failed(s, "ping", begun, within, err)
	} else {
		c.count("ping", a.Kind)
	}
}

func (c *check) discover(ctx context.Context, s *side) {
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, limit+slack)
	defer cancel()
	if a, err := s.agent.Discover(within, client.DiscoverParams{To: s.other.Name, TimeoutMS: uint64(limit.Milliseconds()), Fresh: true}); err != nil {
		c.failed(s, "discover", begun, within, err)
	} else {
		c.count("discover", a.Kind)
	}
}

// query asks, and looks whether the answer is to its question.
func (c *check) query(ctx context.Context, s *side, to string) {
	id, begun := wire.NewMessageID(), time.Now()
	within, cancel := context.WithTimeout(ctx, limit+slack)
	defer cancel()
	a, err := s.agent.Query(within, client.QueryParams{
		Head: client.Head{ID: id}, To: to, Payload: kinds.EncodePayload(&kinds.Query{Question: id.String(), DeadlineMS: uint64(limit.Milliseconds())}),
	})
	if err != nil {
		c.failed(s, "query", begun, within, err)
		return
	}
	c.count("query", a.Kind)
	if r, err := kinds.ParsePayload[kinds.Response](a.Payload); err != nil || r.Summary != id.String() {
		c.t.Errorf("query %s of %s has the answer %s, %v", id, s.Name, a.Payload, err)
	}
}

// delegate gives a task, cancels it if it is a long one, and waits for its end, which
// comes by its deadline.
func (c *check) delegate(ctx context.Context, s *side, to, length string) {
	id, begun := wire.NewMessageID(), time.Now()
	within, cancel := context.WithTimeout(ctx, limit+2*slack)
	defer cancel()
	text := length + " " + id.String()
	p := client.DelegateParams{
		Head: client.Head{ID: id}, To: to, Payload: kinds.EncodePayload(&kinds.Delegate{Task: text, DeadlineMS: uint64(limit.Milliseconds())}),
	}
	given, err := s.agent.Delegate(within, p)
	accepted := false
	if err != nil {
		c.failed(s, "delegate", begun, within, err)
	} else if ack, err := kinds.ParsePayload[kinds.Ack](given.Payload); err != nil {
		c.t.Error(err)
	} else if accepted = ack.Accepted; !accepted {
		c.count("delegate", string(ack.Code))
	} else {
		c.count("delegate", "accepted")
	}
	if accepted && length == "long" {
		if _, err := s.agent.Cancel(within, client.CancelParams{Ref: id}); err != nil {
			c.count("cancel", string(kinds.AsError(err).Code))
		} else {
			c.count("cancel", "ack")
		}
	}
	for {
		task, err := s.agent.Wait(within, client.WaitParams{ID: id})
		switch {
		case err == nil:
			c.count("task", string(task.State))
			s.other.mu.Lock()
			reported := s.other.reported[id]
			s.other.mu.Unlock()
			if reported && task.State != client.TaskCompleted {
				c.t.Errorf("%s reported the result of %s, which is %s: %s", s.other.Name, id, task.State, task.Outcome)
			}
			if r, err := kinds.ParsePayload[kinds.Result](task.Result); task.State == client.TaskCompleted && (err != nil || r.Outcome != text) {
				c.t.Errorf("the result of %s is %s, %v", id, task.Result, err)
			}
			return
		case within.Err() != nil:
			c.count("task", "nothing said")
			if !s.silentSince(begun) {
				c.t.Errorf("delegation %s of %s has not ended after %s: %v", id, s.Name, time.Since(begun), err)
			}
			return
		case kinds.AsError(err).Code == kinds.NotFound:
			c.count("task", "never begun")
			if accepted {
				c.t.Errorf("delegation %s of %s was accepted, and is gone", id, s.Name)
			}
			return
		}
		time.Sleep(50 * time.Millisecond) // its daemon is away
	}
}
