package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// toAll is what a model writes in to if it asks all peers.
const toAll = "*"

// askedAll has what has become of a question to all peers so far.
type askedAll struct {
	mu       sync.Mutex
	most     int            // how many may be asked, guarded by mu
	outcomes []client.Asked // in the order in which they came, guarded by mu
}

func (q *askedAll) add(most int, more ...client.Asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.most, q.outcomes = max(q.most, most), append(q.outcomes, more...)
}

// read returns the outcomes so far, how many are answers, and what they take, in bytes.
func (q *askedAll) read() (outcomes []client.Asked, answered, most, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.outcomes {
		if a.Answer != nil {
			answered, size = answered+1, size+len(a.Answer.Payload)
		} else if a.Error != nil {
			size += len(a.Error.Message) + len(a.Error.Details)
		}
	}
	return q.outcomes, answered, q.most, size // to its slice is only appended
}

// askAll asks all peers, each by a message with an id of its own, and returns an error if none has answered.
func (s *Server) askAll(ctx context.Context, q *askedAll, h head, domain string, payload wire.Payload) error {
	peers, err := twice(ctx, s.Daemon.Peers)
	if err != nil {
		return err
	}
	names, skipped := client.ChooseAsked(peers)
	q.add(min(len(names), client.MaxAsked), skipped...)
	return client.AskEach(names, domain, func(to string, id wire.MessageID) (*client.Answer, error) {
		own := h
		own.ID = id
		return sendWith(ctx, s, own, func(h client.Head) (*client.Answer, error) {
			return s.Daemon.Query(ctx, client.QueryParams{Head: h, To: to, Payload: payload})
		})
	}, func(a client.Asked) { q.add(0, a) })
}

// describeAll makes a page of the answers to a question to all peers, each under a cover of its own, and of what else became
// of it. What a page has shown stays on it when more answers come.
func (s *Server) describeAll(ctx context.Context, c *keptCall, wanted int) (*result, error) {
	isOver := c.isOver() // first, so that no outcome is missing then
	outcomes, answered, most, _ := c.all.read()
	r := &result{State: "answered", ID: c.id, Text: fmt.Sprintf("%d of %d peers have answered.\n", answered, most)}
	if !isOver {
		r.State = "pending"
	} else if c.err != nil {
		r.State, r.Error = "", s.newFailure(ctx, c.err, "")
		r.Text = fmt.Sprintf("%s: %s\n%s\n", r.Error.Code, r.Error.Message, r.Error.Remedy)
	}
	var skipped []client.Asked
	wanted = max(wanted, 1)
	page, room := 1, pageSize // of the page that is filled
	add := func(text string, m *client.PeerMessage) {
		pages, size := 1, pageSize
		if m != nil {
			size = sizePages(m.Payload)
			text, pages = client.RenderPeerPage(*m, 1, size)
		}
		need := len(text) * pageSize / size
		if need > room || pages > 1 && room < pageSize {
			page, room = page+1, pageSize
		}
		if page <= wanted && wanted < page+pages {
			if m != nil {
				text, _ = client.RenderPeerPage(*m, wanted-page+1, size)
				r.payloads = append(r.payloads, exact{m.Message, m.Payload})
			}
			r.Text += text
		}
		if room -= need; pages > 1 {
			page, room = page+pages-1, 0
		}
	}
	for _, a := range outcomes {
		switch {
		case a.Skipped != "":
			skipped = append(skipped, a)
		case a.Error != nil:
			add(a.To+": "+s.newFailedResult(ctx, a.Err, a.ID, describeRepeat("acp_query to "+a.To+",", a.ID)).Text+"\n", nil)
		default:
			add("", &client.PeerMessage{
				Peer: a.To, ID: a.Answer.From, Agent: a.Answer.FromAgent, Kind: a.Answer.Kind, Message: a.ID, Payload: a.Answer.Payload,
				Answer: "It answers your query, and needs no answer.",
			})
		}
	}
	add(strings.Join(client.FormatSkipped(skipped, namesOfReason), "\n"), nil)
	if wanted > page {
		return nil, kinds.Errorf(kinds.Invalid, "page: expected at most %d", page)
	}
	if wanted < page {
		r.Next = wanted + 1
		r.addNextPage("acp_task with id " + c.id.String() + ", do result")
	}
	return r, nil
}

// namesOfReason is how many peers are named at most that were skipped for one reason.
const namesOfReason = 8
