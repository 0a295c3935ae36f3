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

// newQuestion returns the last part of the reply subject of this connection's question.
func newQuestion() string {
	var b [tokenLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
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

// answerClone answers a question that this connection has not asked, and asks itself.
func (l *Link) answerClone(s *session, reply string) {
	token, ok := l.replies.parseToken(reply)
	if !ok || token == s.question || !s.answers.mayGo(time.Now()) {
		return
	}
	s.conn.Publish(reply, makeCloneAnswer(l.config.Key, token))
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
