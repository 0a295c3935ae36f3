package client

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The methods that a daemon serves. A kind of message is a method of the same
// name; the daemon calls an attached agent by those names too.
const (
	MethodPing     = kinds.KindPing
	MethodDiscover = kinds.KindDiscover
	MethodQuery    = kinds.KindQuery
	MethodDelegate = kinds.KindDelegate
	MethodCancel   = kinds.KindCancel
	MethodNotify   = kinds.KindNotify
	MethodResult   = kinds.KindResult
	MethodError    = kinds.KindError

	MethodWhoami      = "whoami"
	MethodStatus      = "status"
	MethodBudget      = "budget"
	MethodPeers       = "peers"
	MethodTasks       = "tasks"
	MethodTask        = "task"
	MethodWait        = "wait"
	MethodInbox       = "inbox"
	MethodShown       = "shown"
	MethodAck         = "ack"
	MethodAnswer      = "answer"
	MethodInvite      = "invite"
	MethodInvitations = "invitations"
	MethodRevoke      = "revoke"
	MethodJoin        = "join"
	MethodTrust       = "trust"
	MethodTrustRoster = "trust.roster"
	MethodUntrust     = "untrust"
	MethodPending     = "pending"
	MethodProbe       = "probe"
	MethodPolicy      = "policy"
	MethodCertificate = "certificate"
	MethodAttach      = "attach"
	MethodSpeak       = "speak"
	MethodSubscribe   = "subscribe"
	MethodSession     = "session"
	MethodUnposted    = "unposted"
	MethodBackup      = "backup"
	MethodPipe        = "pipe"
)

// MethodWake is the method by which a daemon tells a session of a message in the inbox, or of
// a query or delegation that came without a grant and has one now. Params: Inbound; result:
// WakeAnswer.
const MethodWake = "wake"

// The notifications that a daemon sends to a subscriber.
const (
	NotificationMessage = "message" // params: Message
	NotificationEvent   = "event"   // params: Event
)

// MaxRecipients bounds the list of one notify.
const MaxRecipients = 64

// Head has the params that every kind takes.
type Head struct {
	ID     wire.MessageID `json:"id,omitzero"`     // zero: the daemon draws one; the same id again is a repeat
	Thread string         `json:"thread,omitzero"` // conversation; only without Parent
	Parent wire.MessageID `json:"parent,omitzero"` // the message that led to this one: one that the caller was handed, or a delegation that it gave

	// Guessed says that Parent is a guess: whoever calls was not told what led to the call. Nothing ends
	// with a parent that was guessed.
	Guessed bool `json:"guessed,omitzero"`
}

// PingParams are the params of ping.
type PingParams struct {
	Head
	To        string `json:"to"`
	TimeoutMS uint64 `json:"timeout_ms,omitzero"` // 0: 5 s
}

// DiscoverParams are the params of discover.
type DiscoverParams struct {
	Head
	To        string `json:"to"`
	TimeoutMS uint64 `json:"timeout_ms,omitzero"` // 0: 5 s
	Fresh     bool   `json:"fresh,omitzero"`      // ask again, even if an answer is cached
}

// QueryParams are the params of query; the payload has deadline_ms. With Ref it is a
// question back about a delegation that was taken, and goes to the agent that delegated.
type QueryParams struct {
	Head
	To      string         `json:"to,omitzero"`      // "" only with Ref: the daemon knows who delegated
	Ref     wire.MessageID `json:"ref,omitzero"`     // the delegation; zero: the query is about none
	Payload wire.Payload   `json:"payload"`          // kinds.Query
	KeepMS  uint64         `json:"keep_ms,omitzero"` // for how long the daemon keeps the query if it does not arrive, at most MaxKeep; 0: not at all
}

// DelegateParams are the params of delegate.
type DelegateParams struct {
	Head
	To      string       `json:"to"`
	Payload wire.Payload `json:"payload"`          // kinds.Delegate
	KeepMS  uint64       `json:"keep_ms,omitzero"` // as of a query
}

// AnswerParams are the params of answer, whose result is Answered.
type AnswerParams struct {
	Ref     wire.MessageID `json:"ref"`     // the question, or the delegation that it is about
	Payload wire.Payload   `json:"payload"` // kinds.Response
}

// Answered is the result of answer.
type Answered struct {
	ID         wire.MessageID `json:"id"`         // of the question
	Delegation wire.MessageID `json:"delegation"` // that it is about
}

// CancelParams are the params of cancel.
type CancelParams struct {
	Head
	To      string         `json:"to,omitzero"` // "": the daemon knows whom the delegation went to
	Ref     wire.MessageID `json:"ref"`         // the delegation
	Payload wire.Payload   `json:"payload"`     // kinds.Cancel

	// Abandon ends the delegation only here if the peer sends no ack within 5 s. The daemon repeats the
	// cancel until the peer answers.
	Abandon bool `json:"abandon,omitzero"`
}

// NotifyParams are the params of notify.
type NotifyParams struct {
	Head                 // ID only with a single recipient
	To      Recipients   `json:"to"`
	Payload wire.Payload `json:"payload"`          // kinds.Notify
	Wait    *bool        `json:"wait,omitzero"`    // nil: true; false: do not wait for the receipt
	KeepMS  uint64       `json:"keep_ms,omitzero"` // as of a query
}

// ResultParams are the params of result and of error; the peer follows from Ref.
type ResultParams struct {
	Head
	Ref     wire.MessageID `json:"ref"`     // the delegation
	Payload wire.Payload   `json:"payload"` // kinds.Result or kinds.Error
}

// Recipients is one peer, in JSON a string, or a list of 1 to [MaxRecipients] peers. A list
// is answered by a list, even a list of one. If there are no Names, the params had no "to".
type Recipients struct {
	Names []string
	List  bool
}

// To returns the Recipients of a message to one peer.
func To(peer string) Recipients { return Recipients{Names: []string{peer}} }

// ToAll returns the Recipients of a message to each of several peers.
func ToAll(peers ...string) Recipients { return Recipients{Names: peers, List: true} }

// MarshalJSONTo writes a string or a list.
func (r Recipients) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := r.checkCount(); err != nil {
		return err
	}
	if !r.List {
		return enc.WriteToken(jsontext.String(r.Names[0]))
	}
	return json.MarshalEncode(enc, r.Names)
}

// UnmarshalJSONFrom reads a string or a list.
func (r *Recipients) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*r = Recipients{}
	switch dec.PeekKind() {
	case '"':
		r.Names = make([]string, 1)
		return json.UnmarshalDecode(dec, &r.Names[0])
	case '[':
		r.List = true
		if err := json.UnmarshalDecode(dec, &r.Names); err != nil {
			return err
		}
		return r.checkCount()
	}
	if err := dec.SkipValue(); err != nil {
		return err
	}
	return ownwords.New("expected a peer, or a list of them")
}

func (r Recipients) checkCount() error {
	if n := len(r.Names); n == 0 || n > MaxRecipients || n > 1 && !r.List {
		return ownwords.Errorf("%d recipients: expected one, or a list of 1 to %d", n, MaxRecipients)
	}
	return nil
}

// Answer is the result of discover and query.
type Answer struct {
	ID        wire.MessageID `json:"id"`                  // of the message that was sent
	From      identity.ID    `json:"from"`                // the peer that answered
	FromAgent string         `json:"from_agent,omitzero"` // of a response: the agent that answered, as the peer claims; "": it names none
	Kind      string         `json:"kind"`                // pong, capabilities or response
	RTTUS     uint64         `json:"rtt_us"`
	Payload   wire.Payload   `json:"payload"` // kinds.Pong, kinds.Capabilities or kinds.Response
}

// PingAnswer is the result of ping.
type PingAnswer struct {
	Answer
	TS uint64 `json:"ts,omitzero"` // the peer's clock when it answered, in unix milliseconds: no proof; 0: the daemon does not say
}

// DelegateAnswer is the result of delegate.
type DelegateAnswer struct {
	ID        wire.MessageID `json:"id"`                  // names the delegation from now on
	From      identity.ID    `json:"from"`                // the peer that answered
	FromAgent string         `json:"from_agent,omitzero"` // the agent that took or refused it, as the peer claims; "": it names none
	Payload   wire.Payload   `json:"payload"`             // kinds.Ack
}

// CancelAnswer is the result of cancel.
type CancelAnswer struct {
	Ref     wire.MessageID `json:"ref"`              // the delegation
	Payload wire.Payload   `json:"payload,omitzero"` // kinds.Ack of the peer; empty: the delegation was abandoned

	Abandoned string `json:"abandoned,omitzero"` // why there is no ack of the peer; the delegation has ended only here; "" with an ack
}

// ReceiptState says how far a message came.
type ReceiptState string

// The states of a receipt.
const (
	Handed ReceiptState = "handed" // an attached agent's process confirmed it
	Held   ReceiptState = "held"   // it is stored in the other daemon's inbox, on disk
	Sent   ReceiptState = "sent"   // written to QUIC and nothing more: wait was false

	Replaced ReceiptState = "replaced" // of a partial result: it waited for its turn, and a newer one left instead
)

// Receipt is the result of notify, result and error. A notify to a list is
// answered by a list of them in its order, each with To, ID and either a state or
// an error.
type Receipt struct {
	To    string         `json:"to,omitzero"`
	ID    wire.MessageID `json:"id,omitzero"`
	State ReceiptState   `json:"state,omitzero"`
	Error *kinds.Error   `json:"error,omitzero"`
}

// Inbound is the params of every request that the daemon makes to an attached
// agent: the whole envelope and what the daemon knows of it. The agent answers
// query with the payload of a response, delegate and cancel with that of an ack,
// and notify, result and error with {}, by which it confirms that it has the message.
type Inbound struct {
	wire.Envelope
	Name       string `json:"name"`                 // the sender's petname here
	DeadlineMS uint64 `json:"deadline_ms,omitzero"` // what is left of it; 0: none
	Delegation *Task  `json:"delegation,omitzero"`  // with result, error and cancel, and with a query that is a question back: the delegation it belongs to

	// Wake is set only in the params of wake, and only for sessions: the session may be
	// woken for the message. If it is nil, the message waits for the next tool call of the session.
	Wake *WakeGrant `json:"wake,omitzero"`
}
