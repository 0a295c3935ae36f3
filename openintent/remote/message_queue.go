package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

const (
	maxMessages     = 10_000
	maxMessageBytes = 64 << 20
	postTime        = 20 * time.Second // in which the host must answer one
	deliverEvery    = 15 * time.Second // between attempts, unless the host is connected
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
	answer         []byte // the message as its sender sees it

	refusal []byte // the answer of a host that has refused it

	charge    func(host string, bytes int) error // charges the host for its answer; nil: postMessage sets it
	endCharge func()                             // gives back what postMessage charged; nil: nothing
}

// messageQueue holds back, on disk, messages for hosts that are out of reach, and sends each once
// when its host is back. The messages of one agent to one host stay in order: each goes after
// the answer to the one before.
type messageQueue struct {
	db      *store.DB
	log     *slog.Logger
	hostLog *budget.Log // for lines that hosts cause
	post    postFunc
	wake    pace.Signal

	mu      sync.Mutex // guards the rest
	senders map[senderKey]*sender
	count   int
	bytes   int

	mostRefused, mostAllRefused int // maxRefused and maxAllRefused; tests set less
}

// postFunc sends a message to its host, and returns the host's final answer. The error is a
// [kinds.Error] if the host takes nothing for now, and another if the host did not take this
// message.
type postFunc func(ctx context.Context, p *outgoingMessage) (status int, answer []byte, err error)

func openMessageQueue(ctx context.Context, db *store.DB, log *slog.Logger, hostLog *budget.Log, post postFunc) (*messageQueue, error) {
	q := &messageQueue{db: db, log: log, hostLog: hostLog, post: post, wake: pace.NewSignal(), senders: make(map[senderKey]*sender), mostRefused: maxRefused, mostAllRefused: maxAllRefused}
	var waiting map[senderKey]int
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		waiting, q.bytes, err = sqlCountWaitingBySender(tx)
		return err
	})
	for k, n := range waiting {
		q.senders[k] = &sender{turn: make(chan struct{}, 1), waiting: n}
		q.count += n
	}
	q.wake.Set()
	return q, err
}

// sendOrQueue sends a message or holds it back, and answers its sender. If it returns an error, it
// has answered nothing.
func (q *messageQueue) sendOrQueue(ctx context.Context, p *outgoingMessage, w http.ResponseWriter) error {
	k := senderKey{p.host, p.agent}
	if p.idempotencyKey == "" && q.hasWaitingMessages(k) {
		// It goes behind the others. To wait for the turn would take as long as an attempt to
		// reach the host.
		return q.queueAndAnswer(ctx, k, p, w)
	}
	l, err := q.acquireTurn(ctx, k)
	if err != nil {
		return err
	}
	defer q.releaseTurn(k, l)
	waiting := q.hasWaitingMessages(k)
	if waiting && p.idempotencyKey != "" {
		held, err := readInTransaction(ctx, q.db, func(tx *store.Tx) (*outgoingMessage, error) {
			return sqlFindMessageByKey(tx, k, p.formChannelPath(), p.idempotencyKey)
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
				if err := checkSendAnswer(answer, p.host.String()[:object.HostDigits]); err != nil {
					return err
				}
			}
			w.Header().Set(headerHost, p.host.String())
			writeAnswer(w, status, answer)
			return nil
		}
		if ctx.Err() != nil || !isHostOutOfReach(err) {
			return err
		}
		q.log.Debug("a message waits for its host", "id", p.id, "host", p.host.Label(), "err", err)
	}
	return q.queueAndAnswer(ctx, k, p, w)
}

// queueAndAnswer holds a message back and answers its sender.
func (q *messageQueue) queueAndAnswer(ctx context.Context, k senderKey, p *outgoingMessage, w http.ResponseWriter) error {
	if err := q.storeMessage(ctx, k, p); err != nil {
		return err
	}
	writeAnswer(w, http.StatusCreated, p.answer)
	q.wake.Set()
	return nil
}

// formChannelPath returns the path of the channel's messages, with which that of a reply begins.
func (p *outgoingMessage) formChannelPath() string {
	const messages = "/messages"
	return p.path[:strings.LastIndex(p.path, messages)+len(messages)]
}

// answerRepeat answers a send again with the key of p, which waits or was refused.
func (p *outgoingMessage) answerRepeat(again *outgoingMessage, w http.ResponseWriter) error {
	body := again.body
	if p.status != 0 {
		body = hashBody(body)
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

// hashBody returns the SHA-256 of the body of a message. That is kept of a refused message.
func hashBody(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// storeMessage writes a message to disk, as the last of its sender.
func (q *messageQueue) storeMessage(ctx context.Context, k senderKey, p *outgoingMessage) error {
	q.mu.Lock()
	if q.count >= maxMessages || q.bytes+len(p.body) > maxMessageBytes {
		q.mu.Unlock()
		return kinds.Errorf(kinds.Overloaded, "too many messages wait for hosts that are out of reach: send again when they are back")
	}
	q.count, q.bytes = q.count+1, q.bytes+len(p.body)
	l := q.findOrAddSender(k)
	l.waiting++
	q.mu.Unlock()
	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlInsertWaitingMessage(tx, p, time.Now()) })
	if err != nil {
		q.adjustCounts(k, l, 0, -1, -len(p.body))
	}
	return err
}

// isHostOutOfReach reports whether err, of a request to a host, ends by itself when the host is back.
func isHostOutOfReach(err error) bool {
	if _, ok := errors.AsType[*object.Error](err); ok {
		return false // there was no room here for the host's answer
	}
	_, away := codeIfOutOfReach(err)
	return away || kinds.AsError(err).Code == kinds.Overloaded
}

// postMessage implements postFunc.
func (g *Gateway) postMessage(ctx context.Context, p *outgoingMessage) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	if p.charge == nil {
		p.charge, p.endCharge = g.Engine.NewHostCharge()
	}
	room := func(bytes int) error { return p.charge(p.host.String(), bytes) }
	status, answer, err = g.fetchFromHost(ctx, maxNamed, room, p.host, p.agent, http.MethodPost, p.path, p.body, "Content-Type", "application/json", headerMessage, p.id, headerKey, p.idempotencyKey)
	switch {
	case err != nil:
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests && readRefusalCode(answer) == kinds.Overloaded:
		err = kinds.Errorf(kinds.Overloaded, "it answered with status %d", status)
	case status >= 500:
		err = ownwords.Errorf("it answered with status %d", status)
	}
	return status, answer, err
}

// readRefusalCode returns the code of a refusal, or "".
func readRefusalCode(refusal []byte) kinds.Code {
	var p struct {
		Error kinds.Code `json:"error"` // the rest is for people
	}
	if json.Unmarshal(refusal, &p) != nil {
		return ""
	}
	return p.Error
}

func writeAnswer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// findAgentMessage returns the agent's message with that id, as the agent sees it, if the message
// waits or was refused; else nil.
func (q *messageQueue) findAgentMessage(ctx context.Context, id, agent string) (message []byte, err error) {
	p, err := readInTransaction(ctx, q.db, func(tx *store.Tx) (*outgoingMessage, error) { return sqlReadMessage(tx, id) })
	if err != nil || p == nil || p.agent != agent {
		return nil, err
	}
	return p.answer, nil
}
