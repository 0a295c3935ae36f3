package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent"
)

const (
	headerKey = "Idempotency-Key"
	headerID  = "X-Message-ID" // the id that a home gives a message while its host is out of reach
)

// readMessage reads the body of a send. It returns the id of the intent that the body names,
// if the path has no channel's id but a name.
func readMessage(r *request) (string, error) {
	intent, err := r.readMessage()
	if err != nil {
		return "", err
	}
	if _, isID := openintent.HostOf(r.arg(0)); isID {
		return "", nil
	}
	return intent, nil
}

// readMessage reads the body of a send or a reply, and returns the intent that it names.
func (r *request) readMessage() (intent string, err error) {
	var body openintent.SendMessage
	if err := r.decode(&body); err != nil {
		return "", err
	}
	var o *openintent.Outgoing
	if r.route.sends == sendsReply {
		o, err = r.PrepareReply(&body, r.arg(1))
	} else {
		o, err = r.PrepareMessage(&body)
	}
	if err != nil {
		return "", err
	}
	key, err := r.idempotencyKey()
	if err != nil {
		return "", err
	}
	r.input = &sending{o, body.IntentID}
	return body.IntentID, o.SetOnce(key, r.http.Header.Get(headerID), r.http.URL.Path, r.body)
}

// sending is the input of a handler that sends a message.
type sending struct {
	*openintent.Outgoing
	intent string // the intent that the body names
}

// idempotencyKey reads the key under which a send is made once.
func (r *request) idempotencyKey() (string, error) {
	key := r.http.Header.Get(headerKey)
	if len(key) > openintent.MaxName {
		return "", openintent.Refuse("bad_key", "%s: at most %d bytes", headerKey, openintent.MaxName)
	}
	return key, nil
}

func sendMessage(r *request) (any, error) {
	s := r.input.(*sending)
	return showSent(r)(r.e.Send(r.Call, s.Outgoing, r.arg(0), s.intent))
}

func sendByName(r *request) (any, error) {
	if _, err := r.readMessage(); err != nil {
		return nil, err
	}
	return showSent(r)(r.e.SendByName(r.Call, r.input.(*sending).Outgoing, r.arg(0), r.arg(1)))
}

func replyToRequest(r *request) (any, error) {
	if _, err := r.readMessage(); err != nil {
		return nil, err
	}
	return showSent(r)(r.e.Reply(r.Call, r.input.(*sending).Outgoing, r.arg(0)))
}

// showSent answers a send: what was said to an earlier one is said again.
func showSent(r *request) func(openintent.Sent, error) (any, error) {
	return func(out openintent.Sent, err error) (any, error) {
		if err == nil && out.Repeated {
			r.w.Header().Set("Idempotency-Replayed", "true")
		}
		return out.Message, err
	}
}

func askForResponses(r *request, body *openintent.AskMessage) (any, error) {
	r.body = nil // the message has it
	out, err := r.e.Ask(r.Call, r.arg(0), body, r.http.Header.Get(headerKey))
	if err != nil {
		return nil, err
	}
	if out.Short != nil {
		r.status = statuses[out.Short.Code]
	}
	return out.JSON, nil
}

func listMessages(r *request) (any, error) {
	q := r.query()
	which := &openintent.MessageFilter{Since: q.Get("since"), To: q.Get("to"), Status: q.Get("status"), Limit: q.number("limit", openintent.MaxList), Plain: r.http.URL.RawQuery == ""}
	if types := q.Get("types"); types != "" {
		which.Types = strings.Split(types, ",")
	}
	var err error
	if which.Wait, err = q.wait(); err != nil {
		which.Wait = -1 // which is refused, unless something else is before it
	}
	return r.e.ListMessages(r.Call, r.arg(0), which)
}

func getMessage(r *request) (any, error) { return r.e.GetMessage(r.Call, r.arg(0), r.arg(1)) }

func setMessageStatus(r *request, body *openintent.StatusChange) (any, error) {
	return r.e.SetMessageStatus(r.Call, r.arg(0), r.arg(1), body)
}

// listUnsent lists what of the caller's messages has not come to its host.
func listUnsent(r *request) (any, error) {
	p := r.query().page(100)
	err := p.Check()
	if err != nil {
		return nil, err
	}
	var after int64
	if text := r.query().Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return nil, openintent.Invalid("after", "the seq of a message of the list is needed")
		}
	}
	list := []jsontext.Value{}
	if r.e.Config().Unsent != nil && r.Caller.Home == "" {
		list, err = r.e.Config().Unsent(r.Context(), r.Caller, p.Limit, after)
	}
	return encodeList(r, openintent.MaxListBytes, list, err)
}

// wait reads how long a list may wait for a message.
func (q query) wait() (time.Duration, error) {
	text := q.Get("wait")
	if text == "" {
		return 0, nil
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0 && s <= openintent.MaxWait.Seconds()) {
		return 0, openintent.Invalid("wait", "0 to %d seconds", int(openintent.MaxWait.Seconds()))
	}
	return time.Duration(s * float64(time.Second)), nil
}
