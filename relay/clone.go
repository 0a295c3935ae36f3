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

// challengePause is the least time between two challenges, and between two answers.
const challengePause = time.Minute

// A process asks on its own subject, by an empty message, whether another one has its
// identity: that is a challenge. It does so when a connection is made, and when it receives a challenge
// that another process sent, so both of two learn it. The answer is an HMAC under the secret that both derive
// from the identity: nobody else can give it. A connection of this process that the server
// has not yet missed answers nothing.

// Challenges are the open challenges of all links of a daemon. None of these links answers one of them,
// on whichever relay it comes. Its methods may be called from any goroutine.
type Challenges struct {
	mu     sync.Mutex // guards tokens
	tokens map[string]bool
}

// newToken returns the last part of a reply subject.
func newToken() string {
	var b [tokenLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// open returns the token of a new challenge, which the caller closes.
func (all *Challenges) open() string {
	token := newToken()
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.tokens == nil {
		all.tokens = make(map[string]bool)
	}
	all.tokens[token] = true
	return token
}

func (all *Challenges) close(token string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.tokens, token)
}

func (all *Challenges) isOpen(token string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.tokens[token]
}

// makeCloneAnswer returns what proves that the answerer has the identity.
func makeCloneAnswer(secret [32]byte, token string) []byte {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte("acp nats clone v1"))
	mac.Write([]byte(token))
	return mac.Sum(nil)
}

// challengeClone publishes the challenge of this connection.
func (l *Link) challengeClone(s *session) {
	s.conn.PublishRequest(l.replies.ownSubject(), l.replies.prefix+s.challenge, nil)
}

// noteChallenge hands a challenge that no link of this process has made to who answers it: answering
// may block, and this is called by who reads packets.
func (l *Link) noteChallenge(s *session, reply string) {
	token, ok := l.replies.parseToken(reply)
	if !ok || l.config.Challenges.isOpen(token) {
		return
	}
	select {
	case s.challenged <- token:
	default: // one waits already, and no second one would be answered
	}
}

// answerClone answers the challenge of another process, and challenges itself.
func (l *Link) answerClone(s *session, token string) {
	if time.Since(s.answered) < challengePause {
		return
	}
	s.answered = time.Now()
	s.conn.Publish(l.replies.prefix+token, makeCloneAnswer(l.config.Key, token))
	l.challengeClone(s)
}

// takeCloneAnswer records that another process has this identity, if the answer proves it.
func (l *Link) takeCloneAnswer(s *session, m *nats.Msg) {
	if !hmac.Equal(m.Data, makeCloneAnswer(l.config.Key, s.challenge)) {
		l.counts.droppedIn.Add(1)
		return
	}
	l.log.Error("relay: another process uses this identity: stop one of them", "id", l.config.Self.Label())
	l.updateState(func(state *State) { state.Clone = time.Now() })
}
