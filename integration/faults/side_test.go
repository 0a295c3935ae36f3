//go:build faults

package faults

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// side is one of the two daemons, with an agent that answers what comes, and what the
// daemon and the agent have said.
type side struct {
	*machine
	other *side
	agent *client.Client // calls as the agent, and answers

	starts int // of the daemon

	mu       sync.Mutex
	held     map[wire.MessageID]bool              // what the other daemon said of messages from here: it holds them
	handed   map[wire.MessageID]bool              // or an agent there has them
	got      map[handing]int                      // what the agent here was handed, and how often
	found    map[wire.MessageID]map[uint64]string // what lay in the inbox here: the kind by sequence number
	working  map[wire.MessageID]context.CancelFunc
	reported map[wire.MessageID]bool // results from here of which the other daemon said that it has them
	standing bool                    // the daemon is stopped
	stood    time.Time               // when it last was
}

// handing is a message that an agent was handed.
type handing struct {
	kind string
	id   wire.MessageID
}

func newSide(t *testing.T, name string) *side {
	return &side{
		machine: newMachine(t, name), held: make(map[wire.MessageID]bool), handed: make(map[wire.MessageID]bool), got: make(map[handing]int),
		found: make(map[wire.MessageID]map[uint64]string), working: make(map[wire.MessageID]context.CancelFunc), reported: make(map[wire.MessageID]bool),
	}
}

// Start starts the daemon, and counts that.
func (s *side) Start() {
	s.T.Helper()
	s.mu.Lock()
	s.starts++
	s.mu.Unlock()
	s.Machine.StartDaemon()
}

// stop and resume are SIGSTOP and SIGCONT; who calls the daemon meanwhile hears no word.
func (s *side) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing = true
	s.Acpd.Signal(syscall.SIGSTOP)
}

func (s *side) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing, s.stood = false, time.Now()
	s.Acpd.Signal(syscall.SIGCONT)
}

// silentSince tells whether the daemon stood still after then.
func (s *side) silentSince(then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing || s.stood.After(then)
}

// attach attaches the agent, which stays until the test ends and comes back when its
// daemon does.
func (s *side) attach() {
	s.T.Helper()
	s.agent = s.Attach(client.AttachParams{Name: "worker", Topics: []string{"direct"}, MaxConcurrent: 64}, client.Handler{
		Query: s.answer, Delegate: s.take, Cancel: s.drop, Notify: s.noted, Result: s.noted, Error: s.noted,
	})
}

// noted counts what the agent is handed.
func (s *side) noted(_ context.Context, in *client.Inbound) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[handing{in.Kind, in.ID}]++
	return nil
}

func (s *side) answer(ctx context.Context, in *client.Inbound) (any, error) {
	s.noted(ctx, in)
	q, err := kinds.ParsePayload[kinds.Query](in.Payload)
	if err != nil {
		return nil, err
	}
	return &kinds.Response{Summary: q.Question}, nil
}

// take takes a task. It is reported at once, but one that begins with "long" only ends
// when it is cancelled, or at its deadline.
func (s *side) take(ctx context.Context, in *client.Inbound) (*kinds.Ack, error) {
	s.noted(ctx, in)
	task, err := kinds.ParsePayload[kinds.Delegate](in.Payload)
	if err != nil {
		return nil, err
	}
	work, done := context.WithTimeout(context.Background(), task.Deadline())
	if strings.HasPrefix(task.Task, "long") {
		s.mu.Lock()
		s.working[in.ID] = done
		s.mu.Unlock()
		return nil, nil
	}
	go func() {
		defer done()
		s.report(work, in.ID, task.Task)
	}()
	return nil, nil
}

// drop ends the work on a task.
func (s *side) drop(ctx context.Context, in *client.Inbound) (*kinds.Ack, error) {
	s.noted(ctx, in)
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := s.working[*in.Ref]; done != nil {
		done()
		delete(s.working, *in.Ref)
	}
	return nil, nil
}

// report reports a result until the other daemon has it, or it is too late.
func (s *side) report(ctx context.Context, task wire.MessageID, outcome string) {
	p := client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: task, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: outcome})}
	for ctx.Err() == nil {
		if _, err := s.agent.SendResult(ctx, p); err == nil {
			s.mu.Lock()
			s.reported[task] = true
			s.mu.Unlock()
			return
		} else if e := kinds.AsError(err); e.Code == kinds.NotFound {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// read reads the inbox. If it is long it is emptied.
func (s *side) read(ctx context.Context) error {
	for after := uint64(0); ; {
		page, err := s.Client.Inbox(ctx, client.InboxParams{After: after, Limit: 1000})
		if err != nil {
			return err
		}
		s.mu.Lock()
		for _, m := range page.Messages {
			if s.found[m.Envelope.ID] == nil {
				s.found[m.Envelope.ID] = make(map[uint64]string)
			}
			s.found[m.Envelope.ID][m.Seq] = m.Envelope.Kind
		}
		s.mu.Unlock()
		if after = page.Next; after == 0 {
			return nil
		}
		if _, err := s.Client.Ack(ctx, client.AckParams{UpTo: page.Messages[len(page.Messages)-1].Seq}); err != nil {
			return err
		}
	}
}
