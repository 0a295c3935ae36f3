package mcp

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type queryArguments struct {
	To        string  `json:"to"`
	Question  string  `json:"question"`
	Domain    string  `json:"domain"`
	DeadlineS float64 `json:"deadline_s"`
	Thread    string  `json:"thread"`
	About     string  `json:"about"`
	ID        string  `json:"id"`
	Keep      string  `json:"keep"`
}

// callQuery asks, and waits for the answer as long as a tool call waits. If the program gives the
// call up, the question is withdrawn.
func (s *Server) callQuery(ctx context.Context, call *toolCall) (*result, error) {
	var a queryArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	deadline, err := readSeconds("deadline_s", a.DeadlineS, kinds.MaxQueryDeadline)
	if err != nil {
		return nil, err
	}
	if deadline == 0 {
		deadline = uint64(kinds.MaxQueryDeadline.Milliseconds())
	}
	keep, err := readKeep(a.Keep)
	if err != nil {
		return nil, err
	}
	h, err := s.newHead(call, a.ID, a.About, a.Thread)
	if err != nil {
		return nil, err
	}
	ref, err := s.findAskedBack(ctx, h, a.To)
	if err != nil {
		return nil, err
	}
	if !ref.IsZero() && keep > 0 {
		return nil, kinds.Errorf(kinds.Invalid, "keep: it is asked about a delegation, until that ends: leave keep out")
	}
	c := &keptCall{id: h.ID, to: cmp.Or(a.To, "whoever delegated")}
	if a.To == toAll {
		c.to, c.all, call.again = "all peers", new(askedAll), ""
		if a.ID != "" {
			return nil, kinds.Errorf(kinds.Invalid, "id: each of several peers gets an id of its own: repeat it for one")
		}
		if keep > 0 {
			return nil, kinds.Errorf(kinds.Invalid, "keep: those that are not connected are not asked: leave keep out, or ask one peer")
		}
	}
	payload, err := newPayload(kinds.KindQuery, &kinds.Query{Question: a.Question, Domain: a.Domain, DeadlineMS: deadline})
	if err != nil {
		return nil, err
	}
	err = s.beginCall(c, func(ctx context.Context) (*client.Answer, error) {
		if c.all != nil {
			return nil, s.askAll(ctx, c.all, h, a.Domain, payload)
		}
		return sendWith(ctx, s, h, func(h client.Head) (*client.Answer, error) {
			return s.Daemon.Query(ctx, client.QueryParams{Head: h, To: a.To, Ref: ref, Payload: payload, KeepMS: keep})
		})
	})
	if err != nil {
		return nil, err
	}
	r, err := s.awaitCall(ctx, call, c)
	if ctx.Err() != nil {
		c.cancel()
	}
	return r, err
}

// findAskedBack returns the delegation about which a query asks back, or zero. A query without a peer asks
// about the delegation that about names, or the one that the session was shown last. A query to the peer which
// delegated, and to no agent of it, asks back if about names that delegation.
func (s *Server) findAskedBack(ctx context.Context, h head, to string) (ref wire.MessageID, err error) {
	if to != "" {
		if !h.named {
			return ref, nil
		}
		peer, _ := s.names.find(ctx, s, to)
		if r, _ := s.requests.find(messageKey{peer, h.Parent}); r != nil && r.Kind == kinds.KindDelegate {
			ref = r.ID
		}
		return ref, nil
	}
	key := h.guess
	if h.named {
		if key, err = s.findMessage(ctx, h.Parent, ""); err != nil {
			return ref, err
		}
	}
	r, err := s.requests.find(key)
	switch {
	case r != nil && r.Kind == kinds.KindDelegate:
		return r.ID, nil
	case h.named && err != nil:
		return ref, err
	case h.Parent == s.Parent && !h.Parent.IsZero():
		return h.Parent, nil // what acpctl serve runs this program for; the daemon knows whether it is a delegation
	}
	return ref, kinds.Errorf(kinds.Invalid, "to: missing: name a peer, or in about a delegation that waits for your reply, to ask back")
}

// awaitCall waits until a kept call has ended, as long as a tool call waits, and returns its result.
func (s *Server) awaitCall(ctx context.Context, call *toolCall, c *keptCall) (*result, error) {
	limit := time.NewTimer(s.timing.wait)
	defer limit.Stop()
	tick := time.NewTicker(s.timing.progress)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return s.describeCall(ctx, c, 1)
		case <-tick.C:
			s.tellProgress(ctx, call, c.begun, c.describeProgress())
		case <-limit.C:
			return s.newPendingResult(c), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// newPendingResult makes the result for a kept call that has not ended.
func (s *Server) newPendingResult(c *keptCall) *result {
	return &result{
		State: "pending", ID: c.id,
		Text: fmt.Sprintf("pending: %s. Go on with acp_task, id %s, do wait. It is kept for %s in this session, and lost with it.",
			c.describeProgress(), c.id, describeDuration(s.timing.keep)),
	}
}

// describeProgress says how far a kept call is that has not ended.
func (c *keptCall) describeProgress() string {
	switch {
	case c.all != nil:
		_, answered, most, _ := c.all.read()
		return fmt.Sprintf("%d of %d peers have answered, and do result shows what has come", answered, most)
	case c.file == nil:
		return "The answer of " + c.to + " has not come yet"
	}
	return c.file.describe(c.to)
}

// describeCall makes the result of a call that has ended, with a page of its answer.
func (s *Server) describeCall(ctx context.Context, c *keptCall, page int) (*result, error) {
	if c.all != nil {
		return s.describeAll(ctx, c, page)
	}
	if c.err != nil {
		return nil, c.err
	}
	if c.file != nil {
		return c.file.describeEnd(c.id), nil
	}
	r := &result{State: "answered", ID: c.id, From: s.names.of(ctx, s, c.answer.From)}
	err := r.addPeerText(client.PeerMessage{
		Peer: r.From, ID: c.answer.From, Agent: c.answer.FromAgent, Kind: c.answer.Kind, Message: c.id, Payload: c.answer.Payload,
		Answer: "It answers your query, and needs no answer.",
	}, page, "acp_task with id "+c.id.String()+", do result")
	return r, err
}

// pageSize is the size of a page of peer text, in bytes. Beside it is room for what else a result
// says: together it is not over client.PeerPageSize.
const pageSize = client.PeerPageSize - 1400

// sizePages returns the size of a message's pages. Agent programs show results as JSON, in which
// line breaks and quotation marks take two characters; text that is full of them has shorter
// pages.
func sizePages(p wire.Payload) int {
	if escapes := bytes.Count(p, []byte{'\\'}); escapes*8 > len(p) {
		return pageSize / 2
	}
	return pageSize
}

// addPeerText adds a page of a message, and how to read the page that follows, if there is
// one. Page 0 is the first.
func (r *result) addPeerText(m client.PeerMessage, page int, how string) error {
	page = max(page, 1)
	text, pages := client.RenderPeerPage(m, page, sizePages(m.Payload))
	if page > pages {
		return kinds.Errorf(kinds.Invalid, "page: expected at most %d", pages)
	}
	if r.Text != "" {
		r.Text += "\n"
	}
	r.Text += text
	r.payloads = append(r.payloads, exact{m.Message, m.Payload})
	if page < pages {
		r.Next = page + 1
		r.addNextPage(how)
	}
	return nil
}

// addNextPage adds how to read the page that follows, if there is one.
func (r *result) addNextPage(how string) {
	if r.Next > 0 {
		r.Text = strings.TrimRight(r.Text, "\n") + fmt.Sprintf("\nThere is more: %s, page %d.", how, r.Next)
	}
}

// tellProgress notifies the program that a call is still under way, if the program asked for progress.
func (s *Server) tellProgress(ctx context.Context, call *toolCall, begun time.Time, message string) {
	token := call.request.Params.GetProgressToken()
	if token == nil {
		return
	}
	call.request.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		ProgressToken: token, Progress: time.Since(begun).Seconds(), Message: client.Line(cutText(message, 200)),
	})
}

// newPayload encodes a payload and checks it, so that an error names the argument.
func newPayload(kind string, v any) (wire.Payload, error) {
	p := kinds.EncodePayload(v)
	return p, kinds.CheckPayload(kind, p)
}

// readSeconds returns a number of seconds in milliseconds; 0 stays 0.
func readSeconds(name string, s float64, most time.Duration) (uint64, error) {
	if s < 0 || s > most.Seconds() || s > 0 && s < 0.001 {
		return 0, kinds.Errorf(kinds.Invalid, "%s: expected more than 0 and at most %d", name, int(most.Seconds()))
	}
	return uint64(s * 1000), nil
}

// describeDuration writes whole hours, minutes or seconds.
func describeDuration(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", max(1, d/time.Second))
}
