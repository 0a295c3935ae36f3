package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/store"
)

const (
	maxMessages     = 10_000
	maxMessageBytes = 64 << 20
	maxAnswer       = 2 << 20
	postTime        = 20 * time.Second // for the host to answer one
	deliverEvery    = 15 * time.Second // where nothing says that the host is back
)

// outgoingMessage is a message of a local agent for a channel of another host.
type outgoingMessage struct {
	seq            int64
	id             string // of the message
	host           identity.ID
	agent          string
	idempotencyKey string // Idempotency-Key, of its sender's choice
	path           string
	body           []byte // its SHA-256 once the host has refused it
	status         int    // 0: it waits; else the host has refused it
	answer         []byte // the message as its sender is told of it

	refusal []byte // what the host has said

	charge    func(host string, bytes int) error // charges the host for its answer; nil: postMessage opens a charge
	endCharge func()                             // ends that, when the answer is not needed any more
}

// messageQueue holds back what a host that is out of reach cannot take, on disk, and
// sends it once when the host is back. What one agent sends to one host stays in
// order: each goes after the answer to the one before.
type messageQueue struct {
	db      *store.DB
	log     *slog.Logger
	hostLog *budget.Log // of what hosts cause
	post    postFunc
	wake    pace.Signal

	mu      sync.Mutex // guards the rest
	senders map[senderKey]*sender
	count   int
	bytes   int

	mostRefused, mostAllRefused int // maxRefused and maxAllRefused; tests set less
}

// postFunc sends a message to its host, and returns what the host says of it for good. The
// error is a [kinds.Error] if the host takes nothing for now, and another if the host did
// not take this message.
type postFunc func(ctx context.Context, p *outgoingMessage) (status int, answer []byte, err error)

func openMessageQueue(ctx context.Context, db *store.DB, log *slog.Logger, hostLog *budget.Log, post postFunc) (*messageQueue, error) {
	q := &messageQueue{db: db, log: log, hostLog: hostLog, post: post, wake: pace.NewSignal(), senders: make(map[senderKey]*sender), mostRefused: maxRefused, mostAllRefused: maxAllRefused}
	var waiting map[senderKey]int
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		waiting, q.bytes, err = sqlSenders(tx)
		return err
	})
	for k, n := range waiting {
		q.senders[k] = &sender{turn: make(chan struct{}, 1), waiting: n}
		q.count += n
	}
	q.wake.Set()
	return q, err
}

// sendOrHold sends a message or holds it back, and answers its sender.
func (q *messageQueue) sendOrHold(ctx context.Context, p *outgoingMessage, w http.ResponseWriter) error {
	k := senderKey{p.host, p.agent}
	if p.idempotencyKey == "" && q.hasWaiting(k) {
		// Behind the others: not before the turn of whoever tries the host now, which takes long.
		return q.holdAndAnswer(ctx, k, p, w)
	}
	l, err := q.takeTurn(ctx, k)
	if err != nil {
		return err
	}
	defer q.endTurn(k, l)
	waiting := q.hasWaiting(k)
	if waiting && p.idempotencyKey != "" {
		held, err := q.readMessage(ctx, func(tx *store.Tx) (*outgoingMessage, error) {
			return sqlKeyed(tx, k, p.channelPath(), p.idempotencyKey)
		})
		if err != nil {
			return err
		}
		if held != nil {
			return held.answerRepeat(p, w)
		}
	}
	if !waiting {
		status, answer, err := q.post(ctx, p)
		if err == nil {
			if status < 300 {
				if err := checkSent(answer, p.host.String()[:openintent.HostDigits]); err != nil {
					return err
				}
			}
			w.Header().Set(headerHost, p.host.String())
			writeAnswer(w, status, answer)
			return nil
		}
		if ctx.Err() != nil || !isOutOfReach(err) {
			return err
		}
		q.log.Debug("a message waits for its host", "id", p.id, "host", p.host.Label(), "err", err)
	}
	return q.holdAndAnswer(ctx, k, p, w)
}

// holdAndAnswer holds a message back and answers its sender.
func (q *messageQueue) holdAndAnswer(ctx context.Context, k senderKey, p *outgoingMessage, w http.ResponseWriter) error {
	if err := q.addWaiting(ctx, k, p); err != nil {
		return err
	}
	writeAnswer(w, http.StatusCreated, p.answer)
	q.wake.Set()
	return nil
}

// readMessage reads a message, nil if there is none.
func (q *messageQueue) readMessage(ctx context.Context, get func(*store.Tx) (*outgoingMessage, error)) (p *outgoingMessage, err error) {
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		p, err = get(tx)
		return err
	})
	return p, err
}

// channelPath returns the path of the channel's messages, with which that of a reply begins.
func (p *outgoingMessage) channelPath() string {
	const messages = "/messages"
	return p.path[:strings.LastIndex(p.path, messages)+len(messages)]
}

// answerRepeat answers a send whose key is that of a message which waits, or was refused.
func (p *outgoingMessage) answerRepeat(again *outgoingMessage, w http.ResponseWriter) error {
	body := again.body
	if p.status != 0 {
		body = bodyDigest(body)
	}
	if p.path != again.path || !bytes.Equal(p.body, body) {
		return &api.Error{Status: http.StatusUnprocessableEntity, Code: "key_reused", Message: "Idempotency-Key: it was used for another message: choose a new one"}
	}
	w.Header().Set("Idempotency-Replayed", "true")
	if p.status != 0 {
		w.Header().Set(headerHost, p.host.String())
		writeAnswer(w, p.status, p.refusal)
	} else {
		writeAnswer(w, http.StatusCreated, p.answer)
	}
	return nil
}

// bodyDigest is what is kept of the body of a message that was refused.
func bodyDigest(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// addWaiting writes a message to the disk, as the last of its sender.
func (q *messageQueue) addWaiting(ctx context.Context, k senderKey, p *outgoingMessage) error {
	q.mu.Lock()
	if q.count >= maxMessages || q.bytes+len(p.body) > maxMessageBytes {
		q.mu.Unlock()
		return kinds.Errorf(kinds.Overloaded, "too many messages wait for hosts that are out of reach: send again when they are back")
	}
	q.count, q.bytes = q.count+1, q.bytes+len(p.body)
	l := q.senderOf(k)
	l.waiting++
	q.mu.Unlock()
	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlAddWaiting(tx, p, time.Now()) })
	if err != nil {
		q.adjust(k, l, 0, -1, -len(p.body))
	}
	return err
}

// isOutOfReach tells failures that end by themselves from those that somebody must
// end.
func isOutOfReach(err error) bool {
	if _, ok := errors.AsType[*openintent.Error](err); ok {
		return false // its answer found no room here
	}
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok {
		return true // the stream broke
	}
	return e.Code == kinds.Unreachable || e.Code == kinds.Timeout || e.Code == kinds.Overloaded
}

// postMessage implements postFunc.
func (g *Gateway) postMessage(ctx context.Context, p *outgoingMessage) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	if err := g.introductions.introduceAgent(ctx, p.host, p.agent); err != nil {
		return 0, nil, err
	}
	if p.charge == nil {
		p.charge, p.endCharge = g.Engine.Charge()
	}
	room := func(bytes int) error { return p.charge(p.host.String(), bytes) }
	status, answer, err = g.askMetered(ctx, maxAnswer, room, p.host, p.agent, http.MethodPost, p.path, p.body, "Content-Type", "application/json", headerMessage, p.id, headerKey, p.idempotencyKey)
	switch {
	case err != nil:
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests && codeOf(answer) == kinds.Overloaded:
		err = kinds.Errorf(kinds.Overloaded, "it answered with status %d", status)
	case status >= 500:
		err = fmt.Errorf("it answered with status %d", status)
	}
	return status, answer, err
}

// codeOf returns the code of a refusal, "" if it has none.
func codeOf(refusal []byte) kinds.Code {
	var e struct {
		Error kinds.Code `json:"error"`
	}
	if json.Unmarshal(refusal, &e) != nil {
		return ""
	}
	return e.Error
}

func writeAnswer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// findForAgent returns the message of an agent that waits, or was refused, as the agent is told of
// it; nil where there is none.
func (q *messageQueue) findForAgent(ctx context.Context, id, agent string) (message []byte, err error) {
	p, err := q.readMessage(ctx, func(tx *store.Tx) (*outgoingMessage, error) { return sqlMessage(tx, id) })
	if err != nil || p == nil || p.agent != agent {
		return nil, err
	}
	return p.answer, nil
}
