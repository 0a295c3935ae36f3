package carrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

// What of an agent's messages has not come to its host: it waits here, or the host has
// refused it.

const (
	refusedTime   = 7 * 24 * time.Hour // for which it is told that a host refused a message
	maxRefused    = 500                // that are told of one agent at one host; the newest
	maxAllRefused = 5_000              // and of all
	maxRefusal    = 4 << 10            // bytes of what a host says then, and of the message that is kept with it
	maxUnsent     = 8 << 20            // bytes of a list

	longRefusal = `{"detail":"the host refused the message","message":"the host refused the message: look at the channel, then send another","error":"refused"}`
)

// refusal is what a message has that its host refused.
type refusal struct {
	Status  int    `json:"status"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

// refused makes a message that waited what its sender is told of it from then on. A long
// one has no payload and no metadata any more.
func refused(message []byte, status int, said []byte) []byte {
	m := make(map[string]jsontext.Value)
	if json.Unmarshal(message, &m) != nil {
		m = make(map[string]jsontext.Value) // our own message is an object
	}
	why := refusal{Status: status}
	if json.Unmarshal(said, &why) != nil {
		why = refusal{}
	}
	why.Status = status
	why.Error = cmp.Or(why.Error, "refused")
	why.Message = cmp.Or(why.Message, fmt.Sprintf("the host refused the message with status %d: look at the channel, then send another", status))
	m["status"], m["refusal"] = jsontext.Value(`"refused"`), encode(why)
	if len(message) > maxRefusal {
		m["payload"], m["metadata"], m["truncated"] = jsontext.Value("null"), jsontext.Value("null"), jsontext.Value("true")
	}
	return encode(m)
}

func encode(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // our own types, and values that were read as JSON
	}
	return b
}

// refuse keeps what a host has said to a parcel that it did not take.
func (q *parcels) refuse(ctx context.Context, p *parcel, status int, said []byte) error {
	if len(said) > maxRefusal {
		said = []byte(longRefusal)
	}
	p.status, p.answer, p.refusal, p.body = status, refused(p.answer, status, said), said, digest(p.body)
	q.mu.Lock()
	q.refused++
	oldest := q.refused - q.mostAllRefused
	q.mu.Unlock()
	err := q.dropRefused(ctx, true, func(tx *store.Tx) (int64, error) {
		if err := sqlRefuse(tx, p, time.Now()); err != nil {
			return 0, err
		}
		return sqlTrimRefused(tx, lineKey{p.host, p.agent}, q.mostRefused, oldest)
	})
	if err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.refused--
	}
	return err
}

// forgetRefused forgets the refusals from before then.
func (q *parcels) forgetRefused(ctx context.Context, before time.Time) error {
	return q.dropRefused(ctx, false, func(tx *store.Tx) (int64, error) { return sqlForgetRefused(tx, before) })
}

// dropRefused drops refusals; drop returns how many.
func (q *parcels) dropRefused(ctx context.Context, durable bool, drop func(*store.Tx) (int64, error)) error {
	var gone int64
	err := q.db.Write(ctx, durable, func(tx *store.Tx) (err error) {
		gone, err = drop(tx)
		return err
	})
	if err == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.refused -= int(gone)
	}
	return err
}

// listUnsent returns a page of the messages of an agent, or of all for the operator, that
// wait here or were refused, as they were sent; each has the member host. A page ends
// after maxUnsent, too.
func (c *Carrier) listUnsent(ctx context.Context, who openintent.Caller, limit, offset int) (list []jsontext.Value, err error) {
	agent := who.Agent
	if who.Operator {
		agent = ""
	}
	size := 0
	enough := errors.New("enough")
	err = c.cfg.Engine.Store.Read(ctx, func(tx *store.Tx) error {
		return sqlUnsent(tx, agent, limit, offset, func(p *parcel) error {
			m := make(map[string]jsontext.Value)
			if err := json.Unmarshal(p.answer, &m); err != nil {
				return err
			}
			m["host"] = encode(p.host.String())
			list = append(list, encode(m))
			if size += len(p.answer); size >= maxUnsent {
				return enough
			}
			return nil
		})
	})
	if err == enough {
		err = nil
	}
	return list, err
}
