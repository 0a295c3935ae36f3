package remote

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// Messages that have not come to their host: they wait here, or the host has refused them.

const (
	refusedTime   = 7 * 24 * time.Hour // for which a refused message is kept
	maxRefused    = 500                // refused messages that are kept of one agent at one host, the newest
	maxAllRefused = 5_000              // refused messages that are kept of all agents
	maxRefusal    = 4 << 10            // bytes of the host's refusal, and of the message that is kept with its payload

	longRefusal = `{"detail":"the host refused the message","message":"the host refused the message: look at the channel, then send another","error":"refused"}`
)

// describeRefusedMessage returns a message that has waited as its sender sees it once the host has
// refused it. A long message loses its payload and metadata.
func describeRefusedMessage(message []byte, status int, said []byte) []byte {
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
	m["status"], m["refusal"] = jsontext.Value(`"refused"`), object.EncodeJSON(why)
	if len(message) > maxRefusal {
		m["payload"], m["metadata"], m["truncated"] = jsontext.Value("null"), jsontext.Value("null"), jsontext.Value("true")
	}
	return object.EncodeJSON(m)
}

// storeRefusal stores the answer of a host to a message that the host did not take.
func (q *messageQueue) storeRefusal(ctx context.Context, p *outgoingMessage, status int, said []byte) error {
	if len(said) > maxRefusal {
		said = []byte(longRefusal)
	}
	p.status, p.answer, p.refusal, p.body = status, describeRefusedMessage(p.answer, status, said), said, hashBody(p.body)
	return q.db.Write(ctx, true, func(tx *store.Tx) error {
		if err := sqlSetMessageRefused(tx, p, time.Now()); err != nil {
			return err
		}
		return sqlTrimRefusedMessages(tx, senderKey{p.host, p.agent}, q.mostRefused, q.mostAllRefused)
	})
}

// deleteOldRefused drops the messages that were refused before then.
func (q *messageQueue) deleteOldRefused(ctx context.Context, before time.Time) error {
	return q.db.Write(ctx, false, func(tx *store.Tx) error { return sqlDeleteRefusedBefore(tx, before) })
}

// listUnsentMessages returns a page of the messages of an agent (the operator: of all agents) that wait
// here or were refused, in the order in which they were sent. The page begins after that seq.
// Each message has the members host and seq. A page has about object.MaxListBytes bytes at most.
func (g *Gateway) listUnsentMessages(ctx context.Context, who openintent.Caller, limit int, after int64) (list []jsontext.Value, err error) {
	agent := who.Agent
	if who.Operator {
		agent = ""
	}
	size := 0
	err = g.cfg.Engine.Store.Read(ctx, func(tx *store.Tx) error {
		return sqlReadUnsentMessages(tx, agent, limit, after, func(seq int64, host identity.ID, message []byte) error {
			m := make(map[string]jsontext.Value)
			if err := json.Unmarshal(message, &m); err != nil {
				return err
			}
			m["host"], m["seq"] = object.EncodeJSON(host.String()), object.EncodeJSON(seq)
			list = append(list, object.EncodeJSON(m))
			if size += len(message); size >= object.MaxListBytes {
				return errEnough
			}
			return nil
		})
	})
	if err == errEnough {
		err = nil
	}
	return list, err
}
