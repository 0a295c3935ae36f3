package api

import (
	"bytes"
	"io"

	"github.com/acpd/acpd/openintent"
)

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
	host, ok := openintent.HostOf(id)
	if !ok || host == r.e.Host() || r.api.cfg.Forward == nil || r.Caller.Home != "" {
		return nil // what another daemon asks goes no further
	}
	r.e.Follow(host) // its agent may be told of something from now on
	p := openintent.Parcel{Host: host, Caller: r.Caller, Body: r.body, Hold: r.HoldAnswer}
	var err error
	switch r.route.sends {
	case sendsToID, sendsToName, sendsReply:
		err = r.pend(&p)
	case sendsAsk:
		var body openintent.AskMessage
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
	r.api.cfg.Forward(p, &r.w, r.http)
	return errAnswered
}

// pend makes the message that a send is answered with while its host is out of reach.
// Whatever can be refused without the host is.
func (r *request) pend(p *openintent.Parcel) error {
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
