package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

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
	refusedTime    = 24 * time.Hour   // for which it is told that the host refused one
	maxRefusal     = 4 << 10          // bytes of what the host says then

	longRefusal = `{"detail":"the host refused the message","message":"the host refused the message","error":"refused"}`
)

// parcel is a message of a local agent for a channel of another host.
type parcel struct {
	seq    int64
	id     string // of the message
	host   identity.ID
	agent  string
	key    string // Idempotency-Key, of its sender's choice
	path   string
	body   []byte
	status int    // 0: it waits; else the host has refused it
	answer []byte // the pending message, or the refusal
}

// parcels holds back what a host that is out of reach cannot take, on disk, and
// sends it once when the host is back. What one agent sends to one host stays in
// order: each goes after the answer to the one before.
type parcels struct {
	db    *store.DB
	log   *slog.Logger
	send  func(ctx context.Context, p *parcel) (*http.Response, error)
	rouse chan struct{} // holds one where it is time to try

	mu    sync.Mutex // guards the rest
	lines map[lineKey]*line
	busy  map[identity.ID]bool // to whom somebody sends; true: and will look again
	count int
	bytes int
}

type lineKey struct {
	host  identity.ID
	agent string
}

// line is what one agent sends to one host.
type line struct {
	turn    chan struct{} // holds one while somebody sends
	users   int           // who has or wants the turn
	waiting int           // parcels on disk
}

func openParcels(ctx context.Context, db *store.DB, log *slog.Logger, send func(context.Context, *parcel) (*http.Response, error)) (*parcels, error) {
	q := &parcels{db: db, log: log, send: send, rouse: make(chan struct{}, 1), lines: make(map[lineKey]*line), busy: make(map[identity.ID]bool)}
	var waiting map[lineKey]int
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		waiting, q.bytes, err = sqlLines(tx)
		return err
	})
	for k, n := range waiting {
		q.lines[k] = &line{turn: make(chan struct{}, 1), waiting: n}
		q.count += n
	}
	q.try()
	return q, err
}

// try makes run try again now.
func (q *parcels) try() {
	select {
	case q.rouse <- struct{}{}:
	default:
	}
}

// enter waits for the turn of a line; leave gives it back.
func (q *parcels) enter(ctx context.Context, k lineKey) (*line, error) {
	q.mu.Lock()
	l := q.line(k)
	l.users++
	q.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return l, nil
	case <-ctx.Done():
		q.gone(k, l)
		return nil, ctx.Err()
	}
}

// line returns the line of k; the lock is held.
func (q *parcels) line(k lineKey) *line {
	l := q.lines[k]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		q.lines[k] = l
	}
	return l
}

func (q *parcels) leave(k lineKey, l *line) {
	<-l.turn
	q.gone(k, l)
}

func (q *parcels) gone(k lineKey, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.users--; l.users == 0 && l.waiting == 0 {
		delete(q.lines, k)
	}
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
		held, err := q.keyed(ctx, k, p.key)
		if err != nil {
			return err
		}
		if held != nil {
			return held.repeat(p, w)
		}
	}
	if !waiting {
		status, answer, err := q.ask(ctx, p)
		if err == nil && !later(status) {
			answerWith(w, status, answer)
			return nil
		}
		if err == nil {
			err = kinds.Errorf(kinds.Unreachable, "it answered with status %d", status)
		}
		if ctx.Err() != nil || !outOfReach(err) {
			return err
		}
		q.log.Debug("a message waits for its host", "id", p.id, "host", p.host.Label(), "err", err)
	}
	return q.put(ctx, k, p, w)
}

// waits reports whether a line has parcels on disk.
func (q *parcels) waits(k lineKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[k]
	return l != nil && l.waiting > 0
}

// put holds a parcel back and answers its sender.
func (q *parcels) put(ctx context.Context, k lineKey, p *parcel, w http.ResponseWriter) error {
	if err := q.hold(ctx, k, p); err != nil {
		return err
	}
	answerWith(w, http.StatusCreated, p.answer)
	q.try()
	return nil
}

func (q *parcels) keyed(ctx context.Context, k lineKey, key string) (held *parcel, err error) {
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		held, err = sqlKeyedParcel(tx, k, key)
		return err
	})
	return held, err
}

// repeat answers a send whose key is that of a parcel which waits.
func (p *parcel) repeat(again *parcel, w http.ResponseWriter) error {
	if p.status == 0 && (p.path != again.path || !bytes.Equal(p.body, again.body)) {
		return &openintent.Error{Status: http.StatusUnprocessableEntity, Code: "key_reused", Message: "Idempotency-Key: it was used for another message: choose a new one"}
	}
	w.Header().Set("Idempotency-Replayed", "true")
	status := p.status
	if status == 0 {
		status = http.StatusCreated
	}
	answerWith(w, status, p.answer)
	return nil
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
	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlAddParcel(tx, p, time.Now()) })
	if err != nil {
		q.forget(k, l, p)
	}
	return err
}

func (q *parcels) forget(k lineKey, l *line, p *parcel) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count, q.bytes = q.count-1, q.bytes-len(p.body)
	if l.waiting--; l.users == 0 && l.waiting == 0 {
		delete(q.lines, k)
	}
}

// ask sends a parcel and returns what the host says.
func (q *parcels) ask(ctx context.Context, p *parcel) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, parcelTime)
	defer cancel()
	r, err := q.send(ctx, p)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	return r.StatusCode, answer, err
}

// later tells answers that say nothing about the message.
func later(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }

// outOfReach tells failures that end by themselves from those that somebody must
// end.
func outOfReach(err error) bool {
	e := (*kinds.Error)(nil)
	if !errors.As(err, &e) {
		return true // the stream broke
	}
	return e.Code == kinds.Unreachable || e.Code == kinds.Timeout || e.Code == kinds.Overloaded
}

func answerWith(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// run sends what waits until ctx ends: when it is told to try, and now and then.
// No host waits for another.
func (q *parcels) run(ctx context.Context) error {
	tick := time.NewTicker(parcelRetry)
	defer tick.Stop()
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.rouse:
		case <-tick.C:
			err := q.db.Write(ctx, false, func(tx *store.Tx) error { return sqlForgetRefused(tx, time.Now().Add(-refusedTime), maxParcels) })
			if err != nil && ctx.Err() == nil {
				q.log.Warn("parcels", "err", err)
			}
		}
		for _, host := range q.due() {
			sending.Go(func() {
				for more := true; more; more = q.again(ctx, host) {
					if err := q.deliver(ctx, host); err != nil && ctx.Err() == nil && !outOfReach(err) {
						q.log.Warn("messages wait for their host", "host", host.Label(), "err", err)
					}
				}
			})
		}
	}
}

// due returns the hosts that something waits for, and makes them busy. Who sends to
// one that is busy already will look again.
func (q *parcels) due() (hosts []identity.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited := make(map[identity.ID]bool)
	for k, l := range q.lines {
		if l.waiting > 0 {
			waited[k.host] = true
		}
	}
	for host := range waited {
		_, busy := q.busy[host]
		if q.busy[host] = busy; !busy {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// again reports whether to look again; otherwise the host is busy no more.
func (q *parcels) again(ctx context.Context, host identity.ID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy[host] && ctx.Err() == nil {
		q.busy[host] = false
		return true
	}
	delete(q.busy, host)
	return false
}

// deliver sends the parcels for a host until there are none, or it cannot be reached:
// one of each line in turn, so that nobody waits for an agent that has much to say.
func (q *parcels) deliver(ctx context.Context, host identity.ID) error {
	for sent := true; sent; {
		var keys []lineKey
		q.mu.Lock()
		for k, l := range q.lines {
			if k.host == host && l.waiting > 0 {
				keys = append(keys, k)
			}
		}
		q.mu.Unlock()
		sent = false
		for _, k := range keys {
			one, err := q.next(ctx, k)
			if err != nil {
				return err
			}
			sent = sent || one
		}
	}
	return nil
}

// next sends the first parcel of a line, if there is one.
func (q *parcels) next(ctx context.Context, k lineKey) (sent bool, err error) {
	l, err := q.enter(ctx, k)
	if err != nil {
		return false, err
	}
	defer q.leave(k, l)
	var p *parcel
	if err := q.db.Read(ctx, func(tx *store.Tx) error {
		p, err = sqlFirstParcel(tx, k)
		return err
	}); err != nil || p == nil {
		return false, err
	}
	status, answer, err := q.ask(ctx, p)
	if err == nil && later(status) {
		err = kinds.Errorf(kinds.Unreachable, "it answered with status %d", status)
	}
	if err != nil {
		return false, err
	}
	err = q.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error {
		if status < 300 {
			return sqlDropParcel(tx, p.seq)
		}
		if len(answer) > maxRefusal {
			answer = []byte(longRefusal)
		}
		return sqlRefuseParcel(tx, p.seq, status, answer, time.Now())
	})
	if err != nil {
		return false, err
	}
	q.forget(k, l, p)
	if status >= 300 {
		q.log.Warn("a message that waited was refused", "id", p.id, "agent", p.agent, "host", p.host.Label(), "status", status)
	}
	return true, nil
}

// find returns the answer to who asks for a message that waits, or was refused.
func (q *parcels) find(ctx context.Context, id, agent string) (status int, answer []byte, err error) {
	var p *parcel
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		p, err = sqlParcel(tx, id)
		return err
	})
	if err != nil || p == nil || p.agent != agent {
		return 0, nil, err
	}
	if p.status == 0 {
		return http.StatusOK, p.answer, nil
	}
	return p.status, p.answer, nil
}

// drop forgets everything for a host that is trusted no more.
func (q *parcels) drop(ctx context.Context, host identity.ID) error {
	q.mu.Lock()
	var keys []lineKey
	for k := range q.lines {
		if k.host == host {
			keys = append(keys, k)
		}
	}
	q.mu.Unlock()
	for _, k := range keys {
		if err := q.clear(ctx, k); err != nil {
			return err
		}
	}
	return q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDropParcels(tx, host) })
}

func (q *parcels) clear(ctx context.Context, k lineKey) error {
	l, err := q.enter(ctx, k)
	if err != nil {
		return err
	}
	defer q.leave(k, l)
	for q.waits(k) {
		var p *parcel
		err := q.db.Write(ctx, true, func(tx *store.Tx) error {
			if p, err = sqlFirstParcel(tx, k); err != nil || p == nil {
				return err
			}
			return sqlDropParcel(tx, p.seq)
		})
		if err != nil || p == nil {
			return err
		}
		q.forget(k, l, p)
	}
	return nil
}
