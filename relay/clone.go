package relay

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// questionPause is the least time between two questions, and between two answers.
const questionPause = time.Minute

// A process asks on its own subject, by an empty message, whether another one has its
// identity. It asks when a connection is made, and when it hears such a question that it has
// not asked, so both of two learn it. The answer is an HMAC under the secret that both derive
// from the identity: nobody else can give it. A connection of this process that the server
// has not yet missed answers nothing.

// Questions are the open questions of all links of a daemon: what one link asks another one must
// not answer, whoever carries it there. Its methods may be called from any goroutine.
type Questions struct {
	mu     sync.Mutex // guards tokens
	tokens map[string]bool
}

// newToken returns the last part of a reply subject.
func newToken() string {
	var b [tokenLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// open returns a new question, which the caller closes.
func (q *Questions) open() string {
	token := newToken()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tokens == nil {
		q.tokens = make(map[string]bool)
	}
	q.tokens[token] = true
	return token
}

func (q *Questions) close(token string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.tokens, token)
}

func (q *Questions) isOpen(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokens[token]
}

// makeCloneAnswer returns what proves that the answerer has the identity.
func makeCloneAnswer(secret [32]byte, token string) []byte {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte("acp nats clone v1"))
	mac.Write([]byte(token))
	return mac.Sum(nil)
}

// askClone publishes the question.
func (l *Link) askClone(s *session) {
	s.conn.PublishRequest(l.replies.ownSubject(), l.replies.prefix+s.question, nil)
}

// noteQuestion hands a question that no link of this process has asked to who answers it: answering
// may block, and this is called by who reads packets.
func (l *Link) noteQuestion(s *session, reply string) {
	token, ok := l.replies.parseToken(reply)
	if !ok || l.config.Questions.isOpen(token) {
		return
	}
	select {
	case s.asked <- token:
	default: // one waits already, and no second one would be answered
	}
}

// answerClone answers a question of another process, and asks itself.
func (l *Link) answerClone(s *session, token string) {
	if !s.answers.mayGo(time.Now()) {
		return
	}
	s.conn.Publish(l.replies.prefix+token, makeCloneAnswer(l.config.Key, token))
	l.askClone(s)
}

// takeCloneAnswer records that another process has this identity, if the answer proves it.
func (l *Link) takeCloneAnswer(s *session, m *nats.Msg) {
	if !hmac.Equal(m.Data, makeCloneAnswer(l.config.Key, s.question)) {
		l.counts.droppedIn.Add(1)
		return
	}
	l.log.Error("relay: another process uses this identity: stop one of them", "id", l.config.Self.Label())
	l.updateState(func(state *State) { state.Clone = time.Now() })
}

// gate lets one through each pause.
type gate struct {
	mu    sync.Mutex
	pause time.Duration
	last  time.Time
}

func (g *gate) mayGo(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.last.IsZero() && now.Sub(g.last) < g.pause {
		return false
	}
	g.last = now
	return true
}
