package relay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// maxWant and MaxAnswer are the most bytes of what a request for a name wants of the answer, and of that answer.
const (
	maxWant   = 64
	MaxAnswer = 4096
)

const (
	nameSubject      = subjectPrefix + "name."
	askHeaderLen     = headerLen + tokenLen/2
	maxAsks          = 64          // that wait for answers at a time, and requests that wait in nats.go
	maxAnswers       = 32          // to one ask, that wait to be looked at
	maxAnswersIn     = 256         // to one ask, in all
	askAgain         = time.Second // without an answer, since the answerer answers a few a second only
	answersPerSecond = 5
)

// Why an ask has no answer.
var (
	ErrNobody     = ownwords.New("nobody on the relay has that name")
	errDown       = ownwords.New("there is no connection to the relay")
	errAskRefused = refusal{ownwords.New("the relay permits no requests for names: have it permit publish to acp1.>")}
)

// SetName replaces the name under which others find this daemon. The empty string removes it.
// [Config.Answer] answers what they ask. SetName does not block. The error is about the form of the name,
// and has the code invalid.
func (l *Link) SetName(name string) error {
	if name != "" {
		if err := identity.CheckName(name); err != nil {
			return kinds.Errorf(kinds.Invalid, "relay: %s", err)
		}
	}
	l.name.Store(&name)
	l.nameChanged.Set()
	return nil
}

// Ask asks those who have a name on this relay, and hands what they answer to take, until take returns
// false. An answer proves nothing: whoever may publish on the relay may answer. take must not keep
// the answer, and is called 256 times at most.
//
// Ask blocks until take returns false, and then returns nil; or ctx ends, whose error it returns. It
// returns early with [ErrNobody] or [errDown], if nothing was answered before; with an error of the code
// overloaded, if 64 ask at a time; and with one that is [ErrRefused], if the server does not permit to ask.
func (l *Link) Ask(ctx context.Context, name string, want []byte, take func(answer []byte) bool) error {
	if err := identity.CheckName(name); err != nil {
		return kinds.Errorf(kinds.Invalid, "relay: %s", err)
	}
	if len(want) > maxWant {
		return kinds.Errorf(kinds.Invalid, "relay: %d bytes of what is wanted of a name: %d are the most", len(want), maxWant)
	}
	a := l.asks.begin(l.config.Self, name, want)
	if a == nil {
		return kinds.Errorf(kinds.Overloaded, "relay %s: %d names are being asked for: try again", l.config.Name, maxAsks)
	}
	defer l.asks.end(a)
	again := time.NewTicker(askAgain)
	defer again.Stop()
	l.publishAsk(a)
	for answered := false; ; {
		if s := l.session.Load(); !answered && (s == nil || s.forbidden.isDeaf()) {
			return errDown
		}
		select {
		case answer := <-a.answers:
			answered = true
			if !take(answer) {
				return nil
			}
		case err := <-a.failed:
			if !answered {
				return err
			}
		case <-again.C:
			if !answered {
				l.publishAsk(a)
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closed:
			return net.ErrClosed
		}
	}
}

// publishAsk queues the request. A full queue drops it, as it does packets.
func (l *Link) publishAsk(a *ask) {
	select {
	case l.asksOut <- a:
	default:
		l.counts.droppedOut.Add(1)
	}
}

// ask is a request for a name that waits for answers.
type ask struct {
	name    string
	token   string // of its reply subject
	payload []byte // a Request
	answers chan []byte
	failed  chan error   // has room for one
	came    atomic.Int32 // answers
}

// asks are those that wait.
type asks struct {
	mu      sync.Mutex
	byToken map[string]*ask
}

// begin returns a new ask; nil if there are too many.
func (all *asks) begin(self identity.ID, name string, want []byte) *ask {
	r := Request{Asker: self, Want: want}
	rand.Read(r.Token[:])
	a := &ask{
		name: name, token: hex.EncodeToString(r.Token[:]), payload: AppendRequest(nil, &r),
		answers: make(chan []byte, maxAnswers), failed: make(chan error, 1),
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.byToken) >= maxAsks {
		return nil
	}
	if all.byToken == nil {
		all.byToken = make(map[string]*ask)
	}
	all.byToken[a.token] = a
	return a
}

func (all *asks) end(a *ask) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byToken, a.token)
}

func (all *asks) find(token string) *ask {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.byToken[token]
}

// fail ends the asks for a name, unless they have an answer.
func (all *asks) fail(name string, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, a := range all.byToken {
		if a.name == name {
			a.fail(err)
		}
	}
}

func (a *ask) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// receiveAnswer takes a message to the reply subject of an ask: an answer, or that nobody is there. It
// keeps the message's bytes. It reports whether it has taken the message.
func (l *Link) receiveAnswer(a *ask, m *nats.Msg) bool {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") != statusNobody {
			return false
		}
		a.fail(ErrNobody)
		return true
	}
	if a.came.Add(1) > maxAnswersIn || len(m.Data) > MaxAnswer || m.Header != nil {
		return false
	}
	select {
	case a.answers <- m.Data:
		return true
	default:
		return false
	}
}

// subscribeName has the server hand this connection what others ask about the own name. Whether the
// server allows it is known after the next round trip.
func (s *session) subscribeName() error {
	name := *s.link.name.Load()
	if name == s.named {
		return nil
	}
	s.leaveName()
	if name == "" {
		return nil
	}
	sub, err := s.conn.Subscribe(nameSubject+name, func(m *nats.Msg) { s.link.receiveRequest(s, m) })
	if err != nil {
		return err
	}
	s.naming, s.named = sub, name
	return sub.SetPendingLimits(maxAsks, maxPendingBytes)
}

// leaveName ends the subscription of the own name.
func (s *session) leaveName() {
	if s.naming != nil {
		s.naming.Unsubscribe()
		s.naming, s.named = nil, ""
	}
}

// receiveRequest answers what somebody asks about the own name. The answer goes to the reply subject
// of the id in the payload, which the asker cannot choose otherwise: so nobody has this
// daemon write to a subject that is not one of acp1.
func (l *Link) receiveRequest(s *session, m *nats.Msg) {
	r, err := ParseRequest(m.Data)
	if err != nil || r.Asker == l.config.Self || m.Header != nil {
		l.counts.droppedIn.Add(1)
		return
	}
	answer := l.config.Answer(r.Asker, r.Want)
	if len(answer) == 0 || len(answer) > MaxAnswer {
		return
	}
	if !l.answerPace.mayGo(time.Now()) { // last: what gets no answer takes none from others
		l.counts.droppedIn.Add(1)
		return
	}
	s.conn.Publish(r.replySubject(), answer) // what is lost is asked for again
}

// Request is the payload of a message to the subject of a name.
type Request struct {
	Asker identity.ID        // as it claims to be
	Token [tokenLen / 2]byte // of the reply subject: acp1.<asker>.<token in hex>
	Want  []byte             // of the answer, at most maxWant bytes
}

// ParseRequest reads a payload. Want is part of it. The error has the code invalid.
func ParseRequest(payload []byte) (r Request, err error) {
	switch n := len(payload); {
	case n < askHeaderLen:
		return r, kinds.Errorf(kinds.Invalid, "request: %d bytes: at least %d are one", n, askHeaderLen)
	case n > askHeaderLen+maxWant:
		return r, kinds.Errorf(kinds.Invalid, "request.want: %d bytes: %d are the most", n-askHeaderLen, maxWant)
	}
	r = Request{identity.ID(payload), [tokenLen / 2]byte(payload[headerLen:]), payload[askHeaderLen:]}
	if r.Asker.IsZero() {
		return Request{}, kinds.Errorf(kinds.Invalid, "request.asker: zero: no daemon has it")
	}
	return r, nil
}

// AppendRequest appends the payload that says r.
func AppendRequest(b []byte, r *Request) []byte {
	return append(append(append(b, r.Asker[:]...), r.Token[:]...), r.Want...)
}

// replySubject returns where the answer goes.
func (r *Request) replySubject() string {
	return subjectPrefix + r.Asker.String() + "." + hex.EncodeToString(r.Token[:])
}

// answerPace lets answersPerSecond through in any second.
type answerPace struct {
	mu   sync.Mutex
	last [answersPerSecond]time.Time // a ring
	next int
}

func (p *answerPace) mayGo(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if oldest := p.last[p.next]; !oldest.IsZero() && now.Sub(oldest) < time.Second {
		return false
	}
	p.last[p.next] = now
	p.next = (p.next + 1) % answersPerSecond
	return true
}

// findNameOf returns the name whose subject the server refuses in err; "" for any other error.
func findNameOf(err error) string {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return ""
	}
	name, ok := strings.CutPrefix(findSubjectOf(err), nameSubject)
	if !ok || identity.CheckName(name) != nil {
		return ""
	}
	return name
}
