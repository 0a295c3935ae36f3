package openintent

import (
	"bytes"
	"io"
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

// sendsWhat says which messages a route sends.
type sendsWhat int

const (
	sendsNone   sendsWhat = iota
	sendsToID             // one to the channel with an id
	sendsToName           // one to the intent's channel of a name
	sendsReply            // a response
	sendsAsk              // a request, for whose responses it waits
)

// elsewhere passes the request on if another host made id. Then the error is errAnswered.
func (r *request) elsewhere(id string) error {
	host, ok := HostOf(id)
	if !ok || host == r.e.host || r.e.cfg.Forward == nil || r.who.Home != "" {
		return nil // what another daemon asks goes no further
	}
	r.e.follow(host) // its agent may be told of something from now on
	p := Parcel{Host: host, Caller: r.who, Body: r.body, Hold: r.holdAnswer}
	var err error
	switch r.route.sends {
	case sendsToID, sendsToName, sendsReply:
		err = r.pend(&p)
	case sendsAsk:
		var body AskMessage
		if err = r.decode(&body); err == nil {
			p.Wait, err = body.Wait()
		}
	default:
		p.Wait, err = r.query().wait()
	}
	if err != nil {
		return err
	}
	if r.body != nil {
		r.http.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	r.e.cfg.Forward(p, &r.w, r.http)
	return errAnswered
}

// pend makes the message that a send is answered with while its host is out of reach.
// Whatever can be refused without the host is.
func (r *request) pend(p *Parcel) error {
	if _, err := r.readMessage(); err != nil {
		return err
	}
	channel, intent, name := r.arg(0), "", ""
	if r.route.sends == sendsToName {
		channel, intent, name = "", r.arg(0), r.arg(1)
	}
	pending, err := r.input.(*sending).Pending(r.e, channel, intent, name)
	if err != nil {
		return err
	}
	p.MessageID, p.Caller, p.Pending = pending.ID, pending.Sender, pending.Message
	return nil
}
