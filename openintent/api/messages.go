package api

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

const (
	headerKey = "Idempotency-Key"
	headerID  = "X-Message-ID" // the id that a home gives a message while its host is out of reach
)

// messageToSend is a message with its channel, as a route that sends it has read it.
type messageToSend struct {
	*openintent.Outgoing
	channel      string // the id of the channel,
	intent, name string // or the id of the intent and the name of its channel
	request      string // the id of the request to which it responds; "": to none
}

// decodeMessageForRouting reads a message to a channel, and returns the channel's id. If the path has
// no id, it has the name of a channel of the intent that the body names. Then the id is the
// intent's.
func decodeMessageForRouting(r *request) (string, error) {
	return r.decodeMessageToSend(&messageToSend{channel: r.args[0]})
}

// decodeNamedMessageForRouting reads a message to a channel by its name, and returns the id of its intent.
func decodeNamedMessageForRouting(r *request) (string, error) {
	return r.decodeMessageToSend(&messageToSend{intent: r.args[0], name: r.args[1]})
}

// decodeReplyForRouting reads a response to a request, and returns the id of their channel.
func decodeReplyForRouting(r *request) (string, error) {
	return r.decodeMessageToSend(&messageToSend{channel: r.args[0], request: r.args[1]})
}

// decodeMessageToSend reads the body, prepares the message for s and keeps s as the request's input. It
// returns the id that names the host.
func (r *request) decodeMessageToSend(s *messageToSend) (id string, err error) {
	var body object.SendMessage
	if err := r.decodeBody(&body); err != nil {
		return "", err
	}
	if s.request != "" {
		s.Outgoing, err = r.PrepareReply(&body, s.request)
	} else {
		s.intent = cmp.Or(s.intent, body.IntentID)
		s.Outgoing, err = r.PrepareMessage(&body)
	}
	if err != nil {
		return "", err
	}
	key := r.http.Header.Get(headerKey)
	if len(key) > object.MaxName {
		return "", object.NewError("bad_key", "%s: at most %d bytes", headerKey, object.MaxName)
	}
	r.input, id = s, s.channel
	if _, isID := object.HostOfID(id); !isID {
		id = s.intent
	}
	return id, s.SetIdempotencyKey(key, r.http.Header.Get(headerID), r.http.URL.Path, r.body)
}

// decodeAskForRouting reads a request that waits for its responses, and returns the id of its channel.
func decodeAskForRouting(r *request) (string, error) {
	body := new(object.AskMessage)
	r.input = body
	return r.args[0], r.decodeBody(body)
}

func sendMessage(r *request) (any, error) {
	s := r.input.(*messageToSend)
	return r.makeSendAnswer(r.e.Send(r.Call, s.Outgoing, s.channel, s.intent))
}

func sendToNamedChannel(r *request) (any, error) {
	s := r.input.(*messageToSend)
	return r.makeSendAnswer(r.e.SendByName(r.Call, s.Outgoing, s.intent, s.name))
}

func replyToRequest(r *request) (any, error) {
	s := r.input.(*messageToSend)
	return r.makeSendAnswer(r.e.Reply(r.Call, s.Outgoing, s.channel))
}

// makeSendAnswer returns the answer to a send. A repeat gets the first answer, and a header says so.
func (r *request) makeSendAnswer(out object.Sent, err error) (any, error) {
	if err == nil && out.Repeated {
		r.w.Header().Set("Idempotency-Replayed", "true")
	}
	return out.Message, err
}

func askForResponses(r *request, body *object.AskMessage) (any, error) {
	r.body = nil // body has it
	out, err := r.e.Ask(r.Call, r.args[0], body, r.http.Header.Get(headerKey))
	if err != nil {
		return nil, err
	}
	if out.Short != nil {
		r.status = statuses[out.Short.Code]
	}
	return out.JSON, nil
}

func listMessages(r *request) (any, error) {
	q := r.parseQuery()
	which := &object.MessageFilter{Since: q.Get("since"), To: q.Get("to"), Status: q.Get("status"), Limit: q.readNumber("limit", object.MaxList), Plain: r.http.URL.RawQuery == ""}
	if types := q.Get("types"); types != "" {
		which.Types = strings.Split(types, ",")
	}
	var err error
	if which.Wait, err = q.readWait(); err != nil {
		which.Wait = -1 // the engine refuses it, in the order of its checks
	}
	return r.e.ListMessages(r.Call, r.args[0], which)
}

func getMessage(r *request) (any, error) { return r.e.GetMessage(r.Call, r.args[0], r.args[1]) }

func setMessageStatus(r *request, body *object.StatusChange) (any, error) {
	return r.e.SetMessageStatus(r.Call, r.args[0], r.args[1], body)
}

func listUnsent(r *request) (any, error) {
	after, err := strconv.ParseInt(cmp.Or(r.parseQuery().Get("after"), "0"), 10, 64)
	if err != nil {
		after = -1 // the engine refuses it, in the order of its checks
	}
	list, err := r.e.ListUnsentMessages(r.Call, r.parseQuery().readPage(100), after)
	return encodeList(r, object.MaxListBytes, slices.Values(list), err)
}

// readWait reads the seconds for which a list may wait for a message.
func (q query) readWait() (time.Duration, error) {
	text := q.Get("wait")
	if text == "" {
		return 0, nil
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0 && s <= object.MaxWait.Seconds()) {
		return 0, object.NewFieldError("wait", "0 to %d seconds", int(object.MaxWait.Seconds()))
	}
	return time.Duration(s * float64(time.Second)), nil
}
