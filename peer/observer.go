package peer

import (
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Observer is notified of each message that passes between this node and a peer, in the goroutine of that
// message. It must not block. For each call of Began there is one of Ended, also if a handler panics.
type Observer interface {
	// Began is called before a message is sent, or passed to the handler that takes it. One that cannot be
	// sent, as its receiver is unreachable or not trusted, has begun too. One of a peer has been checked.
	Began(*Passing)

	// Ended is called when there is an outcome, before the caller of [Node.Exchange] or [Node.Send] has it,
	// or the peer.
	Ended(*Passing)
}

// Passing is a message on its way between this node and a peer.
type Passing struct {
	kinds.Checked
	Inbound bool          // the peer has sent it
	Sender  identity.Peer // if it is inbound
	Began   time.Time

	// The outcome.
	Reply   *wire.Envelope // to a request; nil: none came. It is an error envelope if an inbound one failed
	Outcome Outcome        // of a message; "" of a request
	Err     error          // why there is no other outcome

	// One observer may keep a list of what has not ended.
	Previous, Next *Passing

	agent atomic.Pointer[string]
}

// Peer returns the id of the other side.
func (p *Passing) Peer() identity.ID {
	if p.Inbound {
		return p.From
	}
	return p.To
}

// SetAgent names the agent that a handler has chosen for the message. The text must not change.
func (p *Passing) SetAgent(name *string) { p.agent.Store(name) }

// ChosenAgent returns the agent that SetAgent has named, or "".
func (p *Passing) ChosenAgent() string {
	if name := p.agent.Load(); name != nil {
		return *name
	}
	return ""
}

// errNoOutcome is the outcome of a message whose handler has panicked.
var errNoOutcome = kinds.Errorf(kinds.Internal, "the handler failed")

// noObserver takes notifications if there is no other observer.
type noObserver struct{}

func (noObserver) Began(*Passing) {}
func (noObserver) Ended(*Passing) {}

// begin tells the observer of a message. The caller tells it of the end.
func (n *Node) begin(p *Passing) *Passing {
	p.Began, p.Err = time.Now(), errNoOutcome
	n.cfg.Observer.Began(p)
	return p
}
