package openintent

import (
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
