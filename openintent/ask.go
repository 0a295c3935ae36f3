package openintent

import (
	"slices"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// openAsk is a request whose sender waits for the responses.
type openAsk struct {
	request   *message
	responses []*message      // those that were published, as many as a list holds
	bytes     int             // of them
	from      map[string]bool // the agents that have responded
	home      string          // of the asker; "" is here
	over      error           // why no more are taken
	bell      pace.Bell
}

// AskResult tells the outcome of an ask, as JSON.
type AskResult struct {
	object.JSON
	Short *object.Error // why responses are missing; may be nil
}

// Ask sends a request and returns when its responses are there, in one round trip. It takes the
// payload out of body. An ask with a key, which is an Idempotency-Key, is refused.
func (e *Engine) Ask(c *Call, channelID string, body *object.AskMessage, key string) (*AskResult, error) {
	ch, _, err := e.findChannel(c, channelID)
	if err != nil {
		return nil, err
	}
	timeout, err := body.ParseTimeout()
	if err != nil {
		return nil, err
	}
	if body.Min < 0 || body.Min > object.MaxEntries {
		return nil, object.NewFieldError("min_responses", "1 to %d", object.MaxEntries)
	}
	o, err := c.PrepareMessage(&object.SendMessage{Sender: body.Sender, Kind: object.KindRequest, To: body.To, Home: body.Home,
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
		return nil, object.NewError("bad_key", headerKey+": an ask cannot be repeated: send a request and list its responses")
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
			rung = a.bell.NextRing()
			done, err = a.checkOutcome(e, body)
		})
		if !done && err == nil {
			select {
			case <-rung:
				continue
			case <-timer.C:
				err = object.NewError("ask_timeout", "nobody answered in time, or too few, and the request has expired: check that the agent it is for is running, then ask again")
			case <-e.done:
				err = object.NewError("stopping", "the intent's host stops: list the responses when it is back")
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
func (a *openAsk) checkOutcome(e *Engine, body *object.AskMessage) (bool, error) {
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
		return false, object.NewError(object.CodeClosed, "the channel was closed before the response came")
	case m.isExpired(at) && m.deadline < m.expires:
		return false, object.NewError("request_expired", "the recipient has left before it answered")
	}
	return false, nil
}

// isFull reports whether no more responses are taken. One agent may give many.
func (a *openAsk) isFull() bool {
	return len(a.responses) >= object.MaxList || a.bytes >= object.MaxListBytes || a.over != nil
}

// addResponse adds a response that was published, if the asker's daemon has room for it. It
// shares the text of the message.
func (a *openAsk) addResponse(e *Engine, m *message) {
	if a.isFull() {
		return
	}
	if a.home != "" {
		if err := e.unread.Reserve(peerAccountKey(a.home), int64(len(m.head))); err != nil {
			a.over = convertBudgetError(err, object.CodeOverloaded, "responses have come that there is no room for: list them")
			a.bell.Ring()
			return
		}
	}
	a.responses = append(a.responses, m)
	a.bytes += len(m.head)
	a.from[m.sender] = true
	a.bell.Ring()
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
func (a *openAsk) result(who Caller, body *object.AskMessage, err error) (*AskResult, error) {
	at := now()
	r, refused := err.(*object.Error)
	switch enough := len(a.responses) >= max(1, body.Min); {
	case err != nil && (!refused || len(a.responses) == 0):
		return nil, err
	case err != nil && !(enough && body.All): // the responses that there are, and why some are missing
		text := object.EncodeJSONObject("detail", r.Message, "message", r.Message, "error", r.Code)
		return &AskResult{a.appendResponses(object.JSON{text[:len(text)-1], []byte(`,"responses":[`)}, who, at), r}, nil
	case !body.All && body.Min == 0:
		return &AskResult{a.responses[0].appendJSONParts(nil, true, who.name, at), nil}, nil
	}
	p := a.request.appendJSONParts(object.JSON{[]byte(`{"request":`)}, true, who.name, at)
	return &AskResult{a.appendResponses(append(p, []byte(`,"responses":[`)), who, at), nil}, nil
}

// appendResponses appends the responses, and closes their array and the object around it.
func (a *openAsk) appendResponses(p object.JSON, who Caller, at chain.Time) object.JSON {
	for i, m := range a.responses {
		p = m.appendJSONParts(p, i == 0, who.name, at)
	}
	return append(p, []byte("]}"))
}
