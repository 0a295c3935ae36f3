package openintent

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// RequestClass says what is special about a request on its way to another host.
type RequestClass int

const (
	PlainRequest       RequestClass = iota
	AskRequest                      // its answer comes after ForwardedRequest.Wait at most
	MessageListRequest              // as above; messages that wait here are listed too
	MessageRequest                  // asks for one message, which may wait here
	OwnRequest                      // its answer has an intent or a channel, which the host must have made
	OwnListRequest                  // its answer is a list of such channels
)

// ForwardedRequest is a request of an agent here that goes to another host.
type ForwardedRequest struct {
	Host   string // ten hex digits of the daemon's id
	Class  RequestClass
	Caller Caller
	Body   []byte // of the HTTP request too

	// Wait is the time that the host may wait before it answers: the timeout of an ask, or
	// the wait of a list of messages.
	Wait time.Duration

	// Hold charges the host for bytes of its answer that are kept here, until the request
	// is over. Its error is an [*object.Error], which is the answer to the caller.
	Hold func(host string, bytes int) error

	// MessageID is the id of the message that the request sends, "" if it sends none. The
	// host takes the id from the header X-Message-ID, and sends a message with it once,
	// however often the request comes. So if the host is out of reach, the request may be
	// answered with Pending and repeated later.
	MessageID string
	Pending   jsontext.Value // the answer meanwhile: the message
}
