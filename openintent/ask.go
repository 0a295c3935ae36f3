package openintent

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ask is a request whose sender waits for the responses.
type ask struct {
	request   *message
	responses []*message // those that were published, as many as a list holds
	bytes     int        // of them
	bell      bell
}

type askMessage struct {
	Sender   string         `json:"sender"`
	To       *string        `json:"to"`
	Payload  jsontext.Value `json:"payload"`
	Metadata jsontext.Value `json:"metadata"`
	Timeout  float64        `json:"timeout"`       // seconds
	Min      int            `json:"min_responses"` // answer with so many
	All      bool           `json:"all"`           // answer with what everybody has said until the timeout
}

// Answers is what an ask for several responses gets.
type Answers struct {
	Request   jsontext.Value   `json:"request"`
	Responses []jsontext.Value `json:"responses"`
}

const (
	askTimeout    = 30 * time.Second
	maxAskTimeout = time.Hour
)

// wait returns how long the sender waits.
func (m *askMessage) wait() (time.Duration, error) {
	switch {
	case m.Timeout == 0:
		return askTimeout, nil
	case !(m.Timeout >= 0.001 && m.Timeout <= maxAskTimeout.Seconds()):
		return 0, invalid("timeout", "0.001 to %d seconds", int(maxAskTimeout.Seconds()))
	}
	return time.Duration(m.Timeout * float64(time.Second)), nil
}

// ask sends a request and answers when its responses are there: one round trip.
func (e *Engine) ask(c *call) (int, any, error) {
	var body askMessage
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	ch, _, err := e.lookFor(c, c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	timeout, err := body.wait()
	if err != nil {
		return 0, nil, err
	}
	if body.Min < 0 || body.Min > maxEntries {
		return 0, nil, invalid("min_responses", "1 to %d", maxEntries)
	}
	message := sendMessage{Kind: kindRequest, To: body.To, Payload: body.Payload, Metadata: body.Metadata, ExpiresAt: now().add(timeout)}
	d, err := message.draft(e)
	if err != nil {
		return 0, nil, err
	}
	who, err := c.as("sender", body.Sender)
	if err != nil {
		return 0, nil, err
	}
	a := &ask{}
	d.ask, d.sender = a, who.Agent
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	if c.Header.Get(headerKey) != "" {
		return 0, nil, refuse(http.StatusBadRequest, "bad_key", headerKey+": an ask cannot be repeated: send a request and list its responses")
	}
	if _, err := e.send(c, &outgoing{draft: *d, who: who}, ch.durable(e), e.existing(ch)); err != nil {
		return 0, nil, err
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(ch.asks, a.request.id)
	}()
	for {
		e.mu.RLock()
		rung := a.bell.wait()
		done, err := a.outcome(e, &body)
		e.mu.RUnlock()
		if done || err != nil {
			return e.answers(a, who, &body, err)
		}
		select {
		case <-rung:
		case <-timer.C:
			return e.answers(a, who, &body, a.late())
		case <-e.done:
			return e.answers(a, who, &body, refuse(http.StatusServiceUnavailable, "stopping", "the intent's host stops: list the responses when it is back"))
		case <-c.Context().Done():
			return 0, nil, c.Context().Err()
		}
	}
}

// outcome reports whether what was asked for is there, or can never be.
func (a *ask) outcome(e *Engine, body *askMessage) (bool, error) {
	if len(a.responses) >= max(1, body.Min) {
		if !body.All || a.full() {
			return true, nil
		}
		if everybody := a.asked(); everybody != nil && !slices.ContainsFunc(everybody, func(agent string) bool {
			return !slices.ContainsFunc(a.responses, func(m *message) bool { return m.sender == agent })
		}) {
			return true, nil
		}
	}
	at := now()
	m := a.request
	switch ch := e.channels[m.ch.id]; {
	case ch != nil && ch != m.ch:
		return false, refuse(http.StatusServiceUnavailable, "reloaded", "the daemon had to read its state again: list the responses")
	case ch == nil || !ch.isOpen(at):
		return false, conflict(codeClosed, "the channel was closed before the response came")
	case m.expired(at) && m.deadline < m.expires:
		return false, conflict("request_expired", "the recipient has left before it answered")
	}
	return false, nil
}

// full reports whether no more responses are taken: who was asked may give many.
func (a *ask) full() bool { return len(a.responses) >= maxList || a.bytes >= maxListBytes }

// asked are those of whom a response is expected; nil where nobody can say.
func (a *ask) asked() []string {
	if a.request.direct() {
		return []string{a.request.to}
	}
	return a.request.recipients
}

func (a *ask) late() error {
	return refuse(http.StatusGatewayTimeout, "ask_timeout", "no sufficient response came in time: the request has expired")
}

// answers is the answer to an ask that is over, for the reason err where it is
// not satisfied.
func (e *Engine) answers(a *ask, who Caller, body *askMessage, err error) (int, any, error) {
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	several := Answers{Request: a.request.append(nil, who.Agent, at, false), Responses: []jsontext.Value{}}
	for _, m := range a.responses {
		several.Responses = append(several.Responses, m.append(nil, who.Agent, at, false))
	}
	enough := len(several.Responses) >= max(1, body.Min)
	r, _ := err.(*Error)
	switch {
	case err != nil && !(enough && body.All):
		if r != nil && len(several.Responses) > 0 {
			r.with("responses", several.Responses)
		}
		return 0, nil, err
	case !body.All && body.Min == 0:
		return http.StatusOK, several.Responses[0], nil
	}
	return http.StatusOK, several, nil
}
