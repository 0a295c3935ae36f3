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
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	maxParcels     = 10_000
	maxParcelBytes = 64 << 20
	maxAnswer      = 2 << 20
	parcelTime     = 20 * time.Second // for the host to answer one
	parcelRetry    = 15 * time.Second // where nothing says that the host is back
)

// parcel is a message of a local agent for a channel of another host.
type parcel struct {
	seq    int64
	id     string // of the message
	host   identity.ID
	agent  string
	key    string // Idempotency-Key, of its sender's choice
	path   string
	body   []byte // its SHA-256 once the host has refused it
	status int    // 0: it waits; else the host has refused it
	answer []byte // the message as its sender is told of it

	refusal []byte // what the host has said

	hold  func(host string, bytes int) error // charges the host for its answer; nil: send opens a charge
	letGo func()                             // ends that, when the answer is not needed any more
}

// parcels holds back what a host that is out of reach cannot take, on disk, and
// sends it once when the host is back. What one agent sends to one host stays in
// order: each goes after the answer to the one before.
type parcels struct {
	db   *store.DB
	log  *slog.Logger
	warn *budget.Log // of what hosts cause
	send send
	wake wake

	mu    sync.Mutex // guards the rest
	lines map[lineKey]*line
	count int
	bytes int

	mostRefused, mostAllRefused int // maxRefused and maxAllRefused; tests set less
}

// send sends a message, and returns what the host says of it for good. An error is a
// [kinds.Error] where the host takes nothing for now, and another where it did not
// take this one.
type send func(ctx context.Context, p *parcel) (status int, answer []byte, err error)

func openParcels(ctx context.Context, db *store.DB, log *slog.Logger, warn *budget.Log, send send) (*parcels, error) {
	q := &parcels{db: db, log: log, warn: warn, send: send, wake: newWake(), lines: make(map[lineKey]*line), mostRefused: maxRefused, mostAllRefused: maxAllRefused}
	var waiting map[lineKey]int
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		waiting, q.bytes, err = sqlLines(tx)
		return err
	})
	for k, n := range waiting {
		q.lines[k] = &line{turn: make(chan struct{}, 1), waiting: n}
		q.count += n
	}
	q.wake.up()
	return q, err
}

// take sends a parcel or holds it back, and answers its sender.
func (q *parcels) take(ctx context.Context, p *parcel, w http.ResponseWriter) error {
	k := lineKey{p.host, p.agent}
	if p.key == "" && q.waits(k) {
		// Behind the others: not before the turn of whoever tries the host now, which takes long.
		return q.put(ctx, k, p, w)
	}
	l, err := q.enter(ctx, k)
	if err != nil {
		return err
	}
	defer q.leave(k, l)
	waiting := q.waits(k)
	if waiting && p.key != "" {
		held, err := q.read(ctx, func(tx *store.Tx) (*parcel, error) { return sqlKeyed(tx, k, p.channel(), p.key) })
		if err != nil {
			return err
		}
		if held != nil {
			return held.repeat(p, w)
		}
	}
	if !waiting {
		status, answer, err := q.send(ctx, p)
		if err == nil {
			if status < 300 {
				if err := checkSent(answer, p.host.String()[:openintent.HostDigits]); err != nil {
					return err
				}
			}
			w.Header().Set(headerHost, p.host.String())
			answerWith(w, status, answer)
			return nil
		}
		if ctx.Err() != nil || !outOfReach(err) {
			return err
		}
		q.log.Debug("a message waits for its host", "id", p.id, "host", p.host.Label(), "err", err)
	}
	return q.put(ctx, k, p, w)
}

// put holds a parcel back and answers its sender.
func (q *parcels) put(ctx context.Context, k lineKey, p *parcel, w http.ResponseWriter) error {
	if err := q.hold(ctx, k, p); err != nil {
		return err
	}
	answerWith(w, http.StatusCreated, p.answer)
	q.wake.up()
	return nil
}

// read reads a parcel, nil if there is none.
func (q *parcels) read(ctx context.Context, get func(*store.Tx) (*parcel, error)) (p *parcel, err error) {
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		p, err = get(tx)
		return err
	})
	return p, err
}

// channel returns the path of the channel's messages, with which that of a reply begins.
func (p *parcel) channel() string {
	const messages = "/messages"
	return p.path[:strings.LastIndex(p.path, messages)+len(messages)]
}

// repeat answers a send whose key is that of a parcel which waits, or was refused.
func (p *parcel) repeat(again *parcel, w http.ResponseWriter) error {
	body := again.body
	if p.status != 0 {
		body = digest(body)
	}
	if p.path != again.path || !bytes.Equal(p.body, body) {
		return &openintent.Error{Status: http.StatusUnprocessableEntity, Code: "key_reused", Message: "Idempotency-Key: it was used for another message: choose a new one"}
	}
	w.Header().Set("Idempotency-Replayed", "true")
	if p.status != 0 {
		w.Header().Set(headerHost, p.host.String())
		answerWith(w, p.status, p.refusal)
	} else {
		answerWith(w, http.StatusCreated, p.answer)
	}
	return nil
}

// digest is what is kept of the body of a parcel that was refused.
func digest(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// hold writes a parcel to the disk, as the last of its line.
func (q *parcels) hold(ctx context.Context, k lineKey, p *parcel) error {
	q.mu.Lock()
	if q.count >= maxParcels || q.bytes+len(p.body) > maxParcelBytes {
		q.mu.Unlock()
		return kinds.Errorf(kinds.Overloaded, "too many messages wait for hosts that are out of reach: send again when they are back")
	}
	q.count, q.bytes = q.count+1, q.bytes+len(p.body)
	l := q.line(k)
	l.waiting++
	q.mu.Unlock()
	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlAdd(tx, p, time.Now()) })
	if err != nil {
		q.change(k, l, 0, -1, -len(p.body))
	}
	return err
}

// outOfReach tells failures that end by themselves from those that somebody must
// end.
func outOfReach(err error) bool {
	if _, ok := errors.AsType[*openintent.Error](err); ok {
		return false // its answer found no room here
	}
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok {
		return true // the stream broke
	}
	return e.Code == kinds.Unreachable || e.Code == kinds.Timeout || e.Code == kinds.Overloaded
}

// send is the [send] of a carrier.
func (c *Carrier) send(ctx context.Context, p *parcel) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, parcelTime)
	defer cancel()
	if err := c.records.introduce(ctx, p.host, p.agent); err != nil {
		return 0, nil, err
	}
	if p.hold == nil {
		p.hold, p.letGo = c.Engine.Charge()
	}
	room := func(bytes int) error { return p.hold(p.host.String(), bytes) }
	status, answer, err = c.askWith(ctx, maxAnswer, room, p.host, p.agent, http.MethodPost, p.path, p.body, "Content-Type", "application/json", headerMessage, p.id, headerKey, p.key)
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

func answerWith(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// find returns the message of an agent that waits, or was refused, as the agent is told of
// it; nil where there is none.
func (q *parcels) find(ctx context.Context, id, agent string) (message []byte, err error) {
	p, err := q.read(ctx, func(tx *store.Tx) (*parcel, error) { return sqlParcel(tx, id) })
	if err != nil || p == nil || p.agent != agent {
		return nil, err
	}
	return p.answer, nil
}
