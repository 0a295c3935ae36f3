package openintent

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// ask is a request whose sender waits for the responses.
type ask struct {
	request   *message
	responses []*message      // those that were published, as many as a list holds
	bytes     int             // of them
	from      map[string]bool // who has responded
	home      string          // of who waits; "" is here
	over      error           // why no more are taken
	bell      bell
}

// AskMessage is a request whose sender waits for the responses, as it is asked for.
type AskMessage struct {
	Sender   string         `json:"sender"`
	To       *string        `json:"to"`
	Home     string         `json:"home,omitzero"` // where the agent that To names is at home
	Payload  jsontext.Value `json:"payload"`
	Metadata jsontext.Value `json:"metadata"`
	Timeout  float64        `json:"timeout"`       // seconds
	Min      int            `json:"min_responses"` // answer with so many
	All      bool           `json:"all"`           // answer with what everybody has said until the timeout
}

// Asked is the outcome of an ask, as JSON.
type Asked struct {
	JSON
	Short *Error // why these are not all the responses that were asked for; nil: they are
}

const (
	askTimeout    = 30 * time.Second
	maxAskTimeout = time.Hour
)

// Wait returns how long the sender waits.
func (m *AskMessage) Wait() (time.Duration, error) {
	switch {
	case m.Timeout == 0:
		return askTimeout, nil
	case !(m.Timeout >= 0.001 && m.Timeout <= maxAskTimeout.Seconds()):
		return 0, Invalid("timeout", "0.001 to %d seconds", int(maxAskTimeout.Seconds()))
	}
	return time.Duration(m.Timeout * float64(time.Second)), nil
}

// Ask sends a request and returns when its responses are there: one round trip. It takes the
// payload out of body. key is the Idempotency-Key of the request; an ask with one is refused.
func (e *Engine) Ask(c *Call, channelID string, body *AskMessage, key string) (*Asked, error) {
	ch, _, err := e.lookFor(c, channelID)
	if err != nil {
		return nil, err
	}
	timeout, err := body.Wait()
	if err != nil {
		return nil, err
	}
	if body.Min < 0 || body.Min > maxEntries {
		return nil, Invalid("min_responses", "1 to %d", maxEntries)
	}
	message := SendMessage{Kind: kindRequest, To: body.To, Home: body.Home, Payload: body.Payload, Metadata: body.Metadata, ExpiresAt: now().Add(timeout)}
	d, err := message.draft(e)
	if err != nil {
		return nil, err
	}
	who, err := c.as("sender", body.Sender)
	if err != nil {
		return nil, err
	}
	a := &ask{home: who.Home, from: make(map[string]bool)}
	d.ask, d.sender = a, who.name
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	if key != "" {
		return nil, Refuse("bad_key", headerKey+": an ask cannot be repeated: send a request and list its responses")
	}
	if _, err := e.send(c, &Outgoing{draft: *d, who: who}, ch.durable(e), e.existing(ch)); err != nil {
		return nil, err
	}
	body.Payload, body.Metadata, d = nil, nil, nil // the message has them
	// over ends the asking, before its answer: what came is then the call's.
	over := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if ch.asks[a.request.id] == a {
			delete(ch.asks, a.request.id)
			c.held += a.charged()
		}
	}
	defer over()
	for {
		var rung <-chan struct{}
		var done bool
		var err error
		e.rlocked(func() {
			rung = a.bell.wait()
			done, err = a.outcome(e, body)
		})
		if done || err != nil {
			over()
			return e.asked(a, who, body, err)
		}
		select {
		case <-rung:
		case <-timer.C:
			over()
			return e.asked(a, who, body, a.late())
		case <-e.done:
			over()
			return e.asked(a, who, body, Refuse("stopping", "the intent's host stops: list the responses when it is back"))
		case <-c.Context().Done():
			return nil, c.Context().Err()
		}
	}
}

// outcome reports whether what was asked for is there, or can never be.
func (a *ask) outcome(e *Engine, body *AskMessage) (bool, error) {
	if len(a.responses) >= max(1, body.Min) {
		if !body.All || a.full() {
			return true, nil
		}
		if everybody := a.asked(); everybody != nil && !slices.ContainsFunc(everybody, func(agent string) bool { return !a.from[agent] }) {
			return true, nil
		}
	}
	if a.over != nil {
		return false, a.over
	}
	at := now()
	m := a.request
	switch ch := e.channels[m.ch.id]; {
	case ch == nil || !ch.isOpen(at):
		return false, Refuse(codeClosed, "the channel was closed before the response came")
	case m.expired(at) && m.deadline < m.expires:
		return false, Refuse("request_expired", "the recipient has left before it answered")
	}
	return false, nil
}

// full reports whether no more responses are taken: who was asked may give many.
func (a *ask) full() bool {
	return len(a.responses) >= MaxList || a.bytes >= MaxListBytes || a.over != nil
}

// hear takes a response that was published, if its asker's daemon has room for it.
// The text is the message's own.
func (a *ask) hear(e *Engine, m *message) {
	if a.full() {
		return
	}
	if a.home != "" {
		if err := e.unread.Take(peerOf(a.home), int64(len(m.head))); err != nil {
			a.over = exceeded(err, codeOverloaded, "responses have come that there is no room for: list them")
			a.bell.ring()
			return
		}
	}
	a.responses = append(a.responses, m)
	a.bytes += len(m.head)
	a.from[m.sender] = true
	a.bell.ring()
}

// charged is what the asker's daemon is charged for the responses.
func (a *ask) charged() int {
	if a.home == "" {
		return 0
	}
	return a.bytes
}

// asked are those of whom a response is expected; nil where nobody can say.
func (a *ask) asked() []string {
	if a.request.direct() {
		return []string{a.request.to}
	}
	return a.request.recipients
}

func (a *ask) late() error {
	return Refuse("ask_timeout", "no sufficient response came in time: the request has expired; see whether whom it is for runs, then ask again, with more time if need be")
}

// asked returns the outcome of an ask that is over, for the reason err if it is not satisfied.
func (e *Engine) asked(a *ask, who Caller, body *AskMessage, err error) (*Asked, error) {
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	r, refused := err.(*Error)
	switch enough := len(a.responses) >= max(1, body.Min); {
	case err != nil && (!refused || len(a.responses) == 0):
		return nil, err
	case err != nil && !(enough && body.All): // what there is, with the reason why it is not all
		text := Members("detail", r.Message, "message", r.Message, "error", r.Code)
		return &Asked{a.list(JSON{text[:len(text)-1], []byte(`,"responses":[`)}, who, at), r}, nil
	case !body.All && body.Min == 0:
		return &Asked{a.responses[0].parts(nil, true, who.name, at), nil}, nil
	}
	p := a.request.parts(JSON{[]byte(`{"request":`)}, true, who.name, at)
	return &Asked{a.list(append(p, []byte(`,"responses":[`)), who, at), nil}, nil
}

// list appends the responses and the ends of their array and of an object.
func (a *ask) list(p JSON, who Caller, at chain.Time) JSON {
	for i, m := range a.responses {
		p = m.parts(p, i == 0, who.name, at)
	}
	return append(p, []byte("]}"))
}
