package openintent

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// openAsk is a request whose sender waits for the responses.
type openAsk struct {
	request   *message
	responses []*message      // those that were published, as many as a list holds
	bytes     int             // of them
	from      map[string]bool // the agents that have responded
	home      string          // of the asker; "" is here
	over      error           // why no more are taken
	bell      bell
}

// AskMessage asks to send a request and to wait for the responses.
type AskMessage struct {
	Sender   string         `json:"sender"`
	To       *string        `json:"to"`
	Home     string         `json:"home,omitzero"` // of the agent that To names
	Payload  jsontext.Value `json:"payload"`
	Metadata jsontext.Value `json:"metadata"`
	Timeout  float64        `json:"timeout"`       // seconds
	Min      int            `json:"min_responses"` // answer with so many
	All      bool           `json:"all"`           // answer once all have responded, or at the timeout with what there is
}

// AskResult tells the outcome of an ask, as JSON.
type AskResult struct {
	JSON
	Short *Error // why responses are missing; may be nil
}

const (
	askTimeout    = 30 * time.Second
	maxAskTimeout = time.Hour
)

// ParseTimeout returns how long the sender waits.
func (m *AskMessage) ParseTimeout() (time.Duration, error) {
	switch {
	case m.Timeout == 0:
		return askTimeout, nil
	case !(m.Timeout >= 0.001 && m.Timeout <= maxAskTimeout.Seconds()):
		return 0, NewFieldError("timeout", "0.001 to %d seconds", int(maxAskTimeout.Seconds()))
	}
	return time.Duration(m.Timeout * float64(time.Second)), nil
}

// Ask sends a request and returns when its responses are there, in one round trip. It takes the
// payload out of body. An ask with a key, which is an Idempotency-Key, is refused.
func (e *Engine) Ask(c *Call, channelID string, body *AskMessage, key string) (*AskResult, error) {
	ch, _, err := e.findChannel(c, channelID)
	if err != nil {
		return nil, err
	}
	timeout, err := body.ParseTimeout()
	if err != nil {
		return nil, err
	}
	if body.Min < 0 || body.Min > maxEntries {
		return nil, NewFieldError("min_responses", "1 to %d", maxEntries)
	}
	o, err := c.PrepareMessage(&SendMessage{Sender: body.Sender, Kind: kindRequest, To: body.To, Home: body.Home,
		Payload: body.Payload, Metadata: body.Metadata, ExpiresAt: now().Add(timeout)})
	if err != nil {
		return nil, err
	}
	who := o.who
	a := &openAsk{home: who.Home, from: make(map[string]bool)}
	o.ask = a
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	if key != "" {
		return nil, NewError("bad_key", headerKey+": an ask cannot be repeated: send a request and list its responses")
	}
	if _, err := e.storeOutgoingMessage(c, o, ch.needsDurableWrites(e), func(t *tx) (*channelRecord, error) { return t.refindChannel(channelID) }); err != nil {
		return nil, err
	}
	body.Payload, body.Metadata, o = nil, nil, nil // the message has them
	// end ends the asking before the answer. From then on the call is charged for the responses.
	end := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if ch.asks[a.request.id] == a {
			delete(ch.asks, a.request.id)
			if a.home != "" {
				c.held += a.bytes
			}
		}
	}
	defer end()
	for {
		var rung <-chan struct{}
		var done bool
		var err error
		e.withReadLock(func() {
			rung = a.bell.nextRing()
			done, err = a.checkOutcome(e, body)
		})
		if !done && err == nil {
			select {
			case <-rung:
				continue
			case <-timer.C:
				err = NewError("ask_timeout", "no sufficient response came in time: the request has expired; see whether whom it is for runs, then ask again, with more time if need be")
			case <-e.done:
				err = NewError("stopping", "the intent's host stops: list the responses when it is back")
			case <-c.Context().Done():
				return nil, c.Context().Err()
			}
		}
		end()
		e.mu.RLock()
		defer e.mu.RUnlock()
		return a.result(who, body, err)
	}
}

// checkOutcome reports whether all responses that were asked for are there. It returns an error
// if they will never be.
func (a *openAsk) checkOutcome(e *Engine, body *AskMessage) (bool, error) {
	if len(a.responses) >= max(1, body.Min) {
		if !body.All || a.isFull() {
			return true, nil
		}
		if everybody := a.expectedRespondents(); everybody != nil && !slices.ContainsFunc(everybody, func(agent string) bool { return !a.from[agent] }) {
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
		return false, NewError(codeClosed, "the channel was closed before the response came")
	case m.isExpired(at) && m.deadline < m.expires:
		return false, NewError("request_expired", "the recipient has left before it answered")
	}
	return false, nil
}

// isFull reports whether no more responses are taken. One agent may give many.
func (a *openAsk) isFull() bool {
	return len(a.responses) >= MaxList || a.bytes >= MaxListBytes || a.over != nil
}

// addResponse adds a response that was published, if the asker's daemon has room for it. It
// shares the text of the message.
func (a *openAsk) addResponse(e *Engine, m *message) {
	if a.isFull() {
		return
	}
	if a.home != "" {
		if err := e.unread.Reserve(peerAccountKey(a.home), int64(len(m.head))); err != nil {
			a.over = convertBudgetError(err, codeOverloaded, "responses have come that there is no room for: list them")
			a.bell.ring()
			return
		}
	}
	a.responses = append(a.responses, m)
	a.bytes += len(m.head)
	a.from[m.sender] = true
	a.bell.ring()
}

// expectedRespondents returns the agents that are expected to respond; nil if that is unknown.
func (a *openAsk) expectedRespondents() []string {
	if a.request.isDirect() {
		return []string{a.request.to}
	}
	return a.request.recipients
}

// result returns the outcome of an ask that has ended. err says why responses are missing. The world
// is read-locked.
func (a *openAsk) result(who Caller, body *AskMessage, err error) (*AskResult, error) {
	at := now()
	r, refused := err.(*Error)
	switch enough := len(a.responses) >= max(1, body.Min); {
	case err != nil && (!refused || len(a.responses) == 0):
		return nil, err
	case err != nil && !(enough && body.All): // the responses that there are, and why some are missing
		text := EncodeJSONObject("detail", r.Message, "message", r.Message, "error", r.Code)
		return &AskResult{a.appendResponses(JSON{text[:len(text)-1], []byte(`,"responses":[`)}, who, at), r}, nil
	case !body.All && body.Min == 0:
		return &AskResult{a.responses[0].appendJSONParts(nil, true, who.name, at), nil}, nil
	}
	p := a.request.appendJSONParts(JSON{[]byte(`{"request":`)}, true, who.name, at)
	return &AskResult{a.appendResponses(append(p, []byte(`,"responses":[`)), who, at), nil}, nil
}

// appendResponses appends the responses, and closes their array and the object around it.
func (a *openAsk) appendResponses(p JSON, who Caller, at chain.Time) JSON {
	for i, m := range a.responses {
		p = m.appendJSONParts(p, i == 0, who.name, at)
	}
	return append(p, []byte("]}"))
}
