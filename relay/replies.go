package relay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"
	"sync"

	"github.com/acpd/acpd/identity"
)

const (
	subjectPrefix = "acp1."
	tokenLen      = 16 // hex digits
	maxTargets    = 4096
)

// target is a peer as the link writes to it.
type target struct {
	id      identity.ID
	addr    net.Addr
	subject string // acp1.<id>
	reply   string // acp1.<own id>.<token>
}

// replies makes the subjects of peers, and knows of a reply subject whose it is. A token is
// an HMAC under a key of this process, so only who has seen a message to a peer can name
// the subject on which the server answers that nobody is there. It remembers up to
// [maxTargets] peers, and then begins anew: a notice that is on its way is lost by that.
type replies struct {
	relay  string
	self   identity.ID
	prefix string // acp1.<own id>.
	secret [32]byte

	mu      sync.RWMutex
	byID    map[identity.ID]*target
	byToken map[string]*target
}

func newReplies(relay string, self identity.ID, secret [32]byte) *replies {
	return &replies{
		relay: relay, self: self, secret: secret,
		prefix:  subjectPrefix + self.String() + ".",
		byID:    make(map[identity.ID]*target),
		byToken: make(map[string]*target),
	}
}

// ownSubject returns the subject to which peers write.
func (r *replies) ownSubject() string { return strings.TrimSuffix(r.prefix, ".") }

// newToken returns the last part of the reply subject for a peer.
func (r *replies) newToken(id identity.ID) string {
	mac := hmac.New(sha256.New, r.secret[:])
	mac.Write([]byte(r.relay))
	mac.Write(id[:])
	return hex.EncodeToString(mac.Sum(nil)[:tokenLen/2])
}

// findTarget returns the subjects of a peer. They stay the same while the process lives.
func (r *replies) findTarget(id identity.ID) *target {
	r.mu.RLock()
	t := r.byID[id]
	r.mu.RUnlock()
	if t != nil {
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.byID[id]; t != nil {
		return t
	}
	token := r.newToken(id)
	t = &target{id, newAddr(r.relay, id), subjectPrefix + id.String(), r.prefix + token}
	if len(r.byID) >= maxTargets {
		clear(r.byID)
		clear(r.byToken)
	}
	r.byID[id], r.byToken[token] = t, t
	return t
}

// parseToken returns the token of a subject under the own id.
func (r *replies) parseToken(subject string) (token string, ok bool) {
	token, ok = strings.CutPrefix(subject, r.prefix)
	if !ok || len(token) != tokenLen {
		return "", false
	}
	for _, c := range []byte(token) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return token, true
}

// findPeer returns the peer for which this process made the reply subject; nil: for none.
func (r *replies) findPeer(token string) *target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byToken[token]
}
