package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// requestTable holds the queries and delegations that wait for the session's answer. The daemon
// bounds how many there are, by max_concurrent. In addition there can be one question for each delegation
// that was given.
type requestTable struct {
	mu    sync.Mutex
	open  map[messageKey]*openRequest
	added chan struct{}              // closed when one was added; then there is a new one
	ended memory[messageKey, string] // why requests have ended
	over  bool                       // the session ends: no more are taken

	secret string // of this session, part of the ids of its replies
}

// openRequest is a query or delegation that the session has not answered yet.
type openRequest struct {
	*client.Inbound
	arrived  time.Time
	deadline atomic.Int64  // Unix time in ns, of the call that waits longest; 0: none
	ended    chan struct{} // closed when neither it nor a repeat of it is open any more
	unwanted atomic.Bool   // it has ended, and its sender does not want an answer any more
	answer   outcome       // of a query that was answered; set before ended is closed
	posted   atomic.Bool   // the session was woken for it, or is to be
	sights   atomic.Int32  // how often the model may have seen it: see claim
	waiting  int           // calls that wait for the answer: it and its repeats; guarded by requestTable.mu
	final    *report       // of a delegation: its result, while that is sent; guarded by requestTable.mu

	// Of a delegation: the ids of partial results that may have to be sent again, by the ids that newReplyID gives
	// them. Guarded by requestTable.mu.
	partials memory[wire.MessageID, wire.MessageID]

	unread context.Context // ends when it was shown to its end, or is not open any more
	read   context.CancelFunc
}

// outcome is the answer to a query.
type outcome struct {
	payload wire.Payload
	err     error
}

func (t *requestTable) init() {
	t.open = make(map[messageKey]*openRequest)
	t.added = make(chan struct{})
	t.secret = rand.Text()
}

// add adds a request. One that comes again while it is open is the same request. The error is no_agent
// if the session ends, and invalid if another request has the id: it would get the answer of that one.
func (t *requestTable) add(in *client.Inbound) (*openRequest, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, errSessionEnds
	}
	key := keyOf(&in.Envelope)
	if first := t.open[key]; first != nil {
		if !first.isRepeatedBy(in) {
			return nil, kinds.Errorf(kinds.Invalid, "id: %s is another %s that is open: use a new id", in.ID, first.Kind)
		}
		first.waiting++
		first.extend(in)
		return first, nil
	}
	r := &openRequest{Inbound: in, arrived: time.Now(), ended: make(chan struct{}), waiting: 1}
	r.unread, r.read = context.WithCancel(context.Background())
	r.extend(in)
	t.open[key] = r
	t.ended.forget(key)
	close(t.added)
	t.added = make(chan struct{})
	return r, nil
}

// isRepeatedBy reports whether a request of the same id is the same one. A repeated query may have
// another deadline; the daemon has compared what delegations say.
func (r *openRequest) isRepeatedBy(in *client.Inbound) bool {
	return r.Kind == in.Kind && (r.Kind != kinds.KindQuery || readQuestion(&r.Envelope) == readQuestion(&in.Envelope))
}

// question is what a query asks.
type question struct {
	text       string
	delegation wire.MessageID // that it is about; zero: none
}

func readQuestion(e *wire.Envelope) (asked question) {
	if q, err := kinds.ParsePayload[kinds.Query](e.Payload); err == nil { // the daemon has checked that
		asked.text = q.Question
	}
	if e.Ref != nil {
		asked.delegation = *e.Ref
	}
	return asked
}

// await returns an open request, which may still be on its way, or nil if it does not arrive within limit.
func (t *requestTable) await(ctx context.Context, key messageKey, limit time.Duration) *openRequest {
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		t.dropExpired()
		t.mu.Lock()
		r, added := t.open[key], t.added
		t.mu.Unlock()
		if r != nil {
			return r
		}
		select {
		case <-added:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// extend moves the deadline to that of a call, if it is later. The caller holds requestTable.mu, or
// has not shared r.
func (r *openRequest) extend(in *client.Inbound) {
	if in.DeadlineMS > 0 {
		end := time.Now().Add(time.Duration(in.DeadlineMS) * time.Millisecond).UnixNano()
		r.deadline.Store(max(r.deadline.Load(), end))
	}
}

// close makes add refuse more.
func (t *requestTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// remove ends a request, if it is still open, and keeps why. It reports whether it was open.
func (t *requestTable) remove(r *openRequest, why string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(r, why)
}

// give ends a query with its answer, which every call that waits for it gets. It reports whether the
// query was open.
func (t *requestTable) give(r *openRequest, answer outcome) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[keyOf(&r.Envelope)] == r {
		r.answer = answer
	}
	return t.end(r, "it was answered")
}

// unseen is openRequest.sights of a query whose sender was told that nobody saw it.
const unseen = math.MinInt32 / 2

// claim notes that the model may see the request from now on. It returns false if the sender was told that nobody saw
// it: then it is not shown.
func (r *openRequest) claim() bool { return r.sights.Add(1) > 0 }

// endUnseen ends a query that the model cannot have seen, unless a repeat of it waits, and reports whether it did.
func (t *requestTable) endUnseen(r *openRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.waiting > 1 || t.open[keyOf(&r.Envelope)] != r || !r.sights.CompareAndSwap(0, unseen) {
		return false
	}
	r.answer = outcome{err: errUnseen}
	r.unwanted.Store(true)
	return t.end(r, "its deadline has passed")
}

// leave ends the waiting of one call for the answer to a query. With the last one the query ends.
func (t *requestTable) leave(r *openRequest, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.waiting--; r.waiting == 0 && t.end(r, why) {
		r.unwanted.Store(true)
	}
}

// end is remove for a caller that holds mu.
func (t *requestTable) end(r *openRequest, why string) bool {
	key := keyOf(&r.Envelope)
	if t.open[key] != r {
		return false
	}
	delete(t.open, key)
	close(r.ended)
	r.read()
	t.ended.keep(key, why)
	return true
}

// find returns an open request, or nil if there never was one. It returns an error with the reason if the
// request is not open any more.
func (t *requestTable) find(key messageKey) (*openRequest, error) {
	t.dropExpired()
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.open[key]; r != nil {
		return r, nil
	}
	if why, ok := t.ended.get(key); ok {
		return nil, kinds.Errorf(kinds.NotFound, "%s is not open any more: %s", key.id, why)
	}
	return nil, nil
}

// keysOf returns which requests, open or ended not long ago, have that id.
func (t *requestTable) keysOf(id wire.MessageID) (keys []messageKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.open {
		if key.id == id {
			keys = append(keys, key)
		}
	}
	return append(keys, t.ended.keysOf(func(key messageKey, _ string) bool { return key.id == id })...)
}

// list returns the open requests, the oldest first.
func (t *requestTable) list() []*openRequest {
	t.dropExpired()
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*openRequest
	for _, r := range t.open {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *openRequest) int { return a.arrived.Compare(b.arrived) })
	return all
}

// count returns the number of open requests, and the number of those that were not shown.
func (t *requestTable) count() (open, unseen int) {
	t.dropExpired()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.open {
		if r.unread.Err() == nil {
			unseen++
		}
	}
	return len(t.open), unseen
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// isUnwanted reports whether the sender of a request does not want an answer any more: it has given up,
// the deadline has passed, or the daemon has ended the request because the sender is not trusted.
func (t *requestTable) isUnwanted(r *openRequest) bool {
	t.dropExpired()
	return r.unwanted.Load()
}

// dropExpired removes delegations whose deadline has passed: for them no call ends.
func (t *requestTable) dropExpired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.open {
		if r.Kind == kinds.KindDelegate && r.deadline.Load() != 0 && r.remaining() <= time.Nanosecond {
			r.unwanted.Store(t.end(r, "its deadline has passed"))
		}
	}
}

// unseenBefore bounds how long before the deadline of a query its sender is told that the model has not seen it: the
// daemon's own clock for the query began earlier.
const unseenBefore = time.Second

// errUnseen is the answer to a query that the model was neither shown nor woken for. Only a session's daemon believes
// that it was not delivered.
var errUnseen = kinds.Errorf(kinds.Timeout, "the deadline passed before the session had a turn: allow more time").WithDelivered(kinds.DeliveredNo)

// takeQuery keeps a query until acp_reply answers it, its deadline passes or its sender gives up. A question about
// a delegation is shown by acp_task too, so nobody is told that it was not seen.
func (s *Server) takeQuery(ctx context.Context, in *client.Inbound) (any, error) {
	r, err := s.requests.add(in)
	if err != nil {
		return nil, err
	}
	var ending <-chan time.Time
	if limit := time.Duration(in.DeadlineMS) * time.Millisecond; limit > 0 && in.Ref == nil && s.seen.get(keyOf(&in.Envelope)) == (sight{}) {
		ending = time.After(limit - min(limit/10, unseenBefore))
	}
	select {
	case <-r.ended:
	case <-ending:
		s.requests.endUnseen(r)
	case <-ctx.Done():
	case <-s.life.Done():
	}
	select {
	case <-r.ended:
		return r.answer.payload, r.answer.err
	case <-ctx.Done():
		why := "its sender gave up, or the daemon went away"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			why = "its deadline has passed"
		}
		s.requests.leave(r, why)
		return nil, ctx.Err()
	case <-s.life.Done():
		s.requests.leave(r, "the session has ended")
		return nil, errSessionEnds
	}
}

const sessionEnds = "the session has ended: try again when there is one"

// errSessionEnds is the answer to open queries, and to requests that arrive while the session ends. Most
// of them are answered by the daemon instead, because the connection ends before.
var errSessionEnds = kinds.Errorf(kinds.NoAgent, sessionEnds)

// errWorkEnds is sent to senders of open delegations when the session ends: it may have begun the work.
var errWorkEnds = kinds.Errorf(kinds.NoAgent, sessionEnds).WithDelivered(kinds.DeliveredUnknown)

// takeDelegation takes a delegation for the session. It stays open until acp_reply ends it.
func (s *Server) takeDelegation(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	_, err := s.requests.add(in)
	return nil, err
}

// takeCancel ends an open delegation that its sender has cancelled. The next result of a tool call
// reports this to the model.
func (s *Server) takeCancel(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	if in.Ref == nil {
		return &kinds.Ack{Code: kinds.NotFound, Message: "the cancellation names no delegation"}, nil
	}
	r, _ := s.requests.find(messageKey{in.From, *in.Ref})
	if r == nil || r.Kind != kinds.KindDelegate || !s.requests.remove(r, "its sender has cancelled it") {
		return &kinds.Ack{Code: kinds.NotFound, Message: "the session does not work on it"}, nil
	}
	r.unwanted.Store(true)
	s.notices.add(in.From, in.Name+" has cancelled the delegation "+r.ID.String()+": stop the work on it")
	return nil, nil
}

// endOpenDelegations tells the senders of open delegations that the session ends, and those whose
// result is there the result. It takes the time for a farewell at most.
func (s *Server) endOpenDelegations() {
	s.requests.close()
	ctx, cancel := context.WithTimeout(context.Background(), s.timing.farewell)
	defer cancel()
	var sending sync.WaitGroup
	for _, r := range s.requests.list() {
		if r.Kind == kinds.KindDelegate && s.requests.remove(r, "the session has ended") {
			sending.Go(func() {
				if final := s.requests.findFinal(r); final != nil {
					s.sendPatiently(ctx, final, pace.NewSignal())
				} else {
					s.Daemon.SendError(ctx, client.ResultParams{Ref: r.ID, Payload: kinds.EncodePayload(errWorkEnds)})
				}
			})
		}
	}
	sending.Wait()
}

// remaining returns how long a request can still be answered, or 0 if it has no deadline.
func (r *openRequest) remaining() time.Duration {
	end := r.deadline.Load()
	if end == 0 {
		return 0
	}
	return max(cmp.Or(time.Until(time.Unix(0, end)), time.Nanosecond), time.Nanosecond)
}
