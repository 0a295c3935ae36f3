package openintent

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Parcel is what goes with a request to another host.
type Parcel struct {
	Host   string // ten hex digits of the daemon's id
	Caller Caller
	Body   []byte // of the request, whose Body it is too

	// Wait is how long the caller wants the host to wait: the timeout of an ask, and
	// what a list of messages says.
	Wait time.Duration

	// Hold charges the host for bytes of its answer that are kept here, until the
	// request is over. Its error is an [*Error], which the caller is to be answered.
	Hold func(host string, bytes int) error

	// MessageID is the id of the message that the request sends, empty if it
	// sends none. The host takes it over from the header X-Message-ID, and sends
	// a message with it once, however often the request comes. So a send whose
	// host is out of reach may be answered with Pending and made later.
	MessageID string
	Pending   jsontext.Value // the message as it is answered meanwhile
}

// elsewhere passes the request on if id was made by another host. Then the error
// is errAnswered.
func (c *call) elsewhere(id string) error {
	host, ok := HostOf(id)
	if !ok || host == c.e.host || c.e.cfg.Forward == nil || c.who.Home != "" {
		return nil // what another daemon asks goes no further
	}
	c.e.follow(host) // its agent may be told of something from now on
	p := Parcel{Host: host, Caller: c.who, Body: c.body, Hold: c.holdAnswer}
	var err error
	switch {
	case slices.Contains(sends, c.route.path) && c.Method == "POST":
		err = c.pend(&p)
	case c.route.path == asks:
		var body askMessage
		if err = c.decode(&body); err == nil {
			p.Wait, err = body.wait()
		}
	default:
		p.Wait, err = c.query().wait()
	}
	if err != nil {
		return err
	}
	if c.body != nil {
		c.Body = io.NopCloser(bytes.NewReader(c.body))
	}
	c.e.cfg.Forward(p, &c.w, c.Request)
	return errAnswered
}

const asks = "channels/{channel}/ask"

// sends are the paths to which messages are posted.
var sends = []string{"channels/{channel}/messages", "intents/{intent}/channels/{name}/messages", "channels/{channel}/messages/{message}/reply"}

// pend makes the message that a send is answered with while its host is out of
// reach. Whatever can be refused without the host is.
func (c *call) pend(p *Parcel) error {
	d, err := c.outgoing()
	if err != nil {
		return err
	}
	who := d.who
	if who.Operator {
		return errNoOperator
	}
	at := now()
	p.MessageID, p.Caller = c.e.messageID(at, 0), who
	var channel any
	if c.route.path != sends[1] {
		channel = c.arg(0)
	}
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	message := []any{"id", p.MessageID, "channel_id", channel, "sender", who.Agent, "to", orNull(d.to), "message_type", d.kind,
		"correlation_id", orNull(d.correlation), "payload", d.payload, "metadata", d.metadata, "created_at", at, "expires_at", d.expires,
		"status", "pending", "read_at", nil}
	if channel == nil {
		message = append(message, "intent_id", c.arg(0), "channel_name", c.arg(1))
	}
	p.Pending = members(message...)
	return nil
}

// listUnsent lists what of the caller's messages has not come to its host.
func (e *Engine) listUnsent(c *call) (int, any, error) {
	limit, _, err := c.query().page(100)
	if err != nil {
		return 0, nil, err
	}
	var after int64
	if text := c.query().Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return 0, nil, invalid("after", "the seq of a message of the list is needed")
		}
	}
	list := []jsontext.Value{}
	if e.cfg.Unsent != nil && c.who.Home == "" {
		if list, err = e.cfg.Unsent(c.Context(), c.who, limit, after); err != nil {
			return 0, nil, err
		}
	}
	return array(c, maxListBytes, list, func(v jsontext.Value) any { return v })
}
