package api

import (
	"bytes"
	"io"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

// forwardIfElsewhere passes the request on if another host has made id. Then it returns
// errAnswered, or why the request was not passed on.
func (r *request) forwardIfElsewhere(id string) error {
	host, ok := object.HostOfID(id)
	if !ok || host == r.e.Host() || r.forward == nil || r.Caller.Home != "" {
		return nil // what another daemon asks goes no further
	}
	if r.route.stream && r.e.Config().Follow != nil {
		r.e.FollowHostBriefly(r.Context(), host)
		return r.streamFromHost(host)
	}
	p := openintent.ForwardedRequest{Host: host, Class: r.route.class, Caller: r.Caller, Body: r.body, Hold: r.ChargeHostForAnswer}
	var err error
	switch in := r.input.(type) {
	case *messageToSend:
		err = in.FillPendingAnswer(&p, r.e, in.channel, in.intent, in.name)
	case *object.AskMessage:
		p.Wait, err = in.ParseTimeout()
	default:
		p.Wait, err = r.parseQuery().readWait()
	}
	if err != nil {
		return err
	}
	if r.body != nil {
		r.http.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	r.forward(p, &r.w, r.http)
	return errAnswered
}
