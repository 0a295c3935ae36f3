package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
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

// describeRefused makes a message that waited what its sender is told of it from then on. A long
// one has no payload and no metadata any more.
func describeRefused(message []byte, status int, said []byte) []byte {
	m := make(map[string]jsontext.Value)
	if json.Unmarshal(message, &m) != nil {
		m = make(map[string]jsontext.Value) // our own message is an object
	}
	why := api.Refusal{Status: status}
	if json.Unmarshal(said, &why) != nil {
		why = api.Refusal{}
	}
	why.Status = status
	why.Error = cmp.Or(why.Error, "refused")
	why.Message = cmp.Or(why.Message, fmt.Sprintf("the host refused the message with status %d: look at the channel, then send another", status))
	m["status"], m["refusal"] = jsontext.Value(`"refused"`), mustEncode(why)
	if len(message) > maxRefusal {
		m["payload"], m["metadata"], m["truncated"] = jsontext.Value("null"), jsontext.Value("null"), jsontext.Value("true")
	}
	return mustEncode(m)
}

func mustEncode(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // our own types, and values that were read as JSON
	}
	return b
}

// keepRefusal keeps what a host has said to a message that it did not take.
func (q *messageQueue) keepRefusal(ctx context.Context, p *outgoingMessage, status int, said []byte) error {
	if len(said) > maxRefusal {
		said = []byte(longRefusal)
	}
	p.status, p.answer, p.refusal, p.body = status, describeRefused(p.answer, status, said), said, bodyDigest(p.body)
	return q.db.Write(ctx, true, func(tx *store.Tx) error {
		if err := sqlSetRefused(tx, p, time.Now()); err != nil {
			return err
		}
		return sqlTrimRefused(tx, senderKey{p.host, p.agent}, q.mostRefused, q.mostAllRefused)
	})
}

// forgetRefused forgets the refusals from before then.
func (q *messageQueue) forgetRefused(ctx context.Context, before time.Time) error {
	return q.db.Write(ctx, false, func(tx *store.Tx) error { return sqlForgetRefused(tx, before) })
}

// listUnsent returns a page of the messages of an agent, or of all for the operator, that
// wait here or were refused, as they were sent, those after the one with that seq; each has
// the members host and seq. A page ends after maxUnsent, too.
func (g *Gateway) listUnsent(ctx context.Context, who openintent.Caller, limit int, after int64) (list []jsontext.Value, err error) {
	agent := who.Agent
	if who.Operator {
		agent = ""
	}
	size := 0
	enough := errors.New("enough")
	err = g.cfg.Engine.Store.Read(ctx, func(tx *store.Tx) error {
		return sqlUnsent(tx, agent, limit, after, func(seq int64, host identity.ID, message []byte) error {
			m := make(map[string]jsontext.Value)
			if err := json.Unmarshal(message, &m); err != nil {
				return err
			}
			m["host"], m["seq"] = mustEncode(host.String()), mustEncode(seq)
			list = append(list, mustEncode(m))
			if size += len(message); size >= maxUnsent {
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
