package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	maxAcks      = 64 // ids in one call
	parallelAcks = 8
	maxNamedAcks = 10 // ids that were not removed and are named
)

// acknowledge removes messages that were shown, those of a peer alone unless from is zero. It returns
// how many, and for the model which were not removed and why.
func (s *Server) acknowledge(ctx context.Context, texts []string, from identity.ID) (removed int, said string, err error) {
	if len(texts) == 0 {
		return 0, "", nil
	}
	ids, err := s.readAcks(ctx, texts, from)
	if err != nil {
		return 0, "", err
	}
	var peers []string
	if !from.IsZero() {
		peers = []string{from.String()}
	}
	// The daemon says how many it has removed, not which: each id is a call.
	gone := make([]bool, len(ids))
	var g errgroup.Group
	g.SetLimit(parallelAcks)
	for i, id := range ids {
		g.Go(func() error {
			acked, err := twice(ctx, func(ctx context.Context) (*client.Acked, error) {
				return s.Daemon.Ack(ctx, client.AckParams{IDs: []wire.MessageID{id}, Peers: peers})
			})
			if err != nil {
				return err
			}
			gone[i] = acked.Removed > 0
			s.seen.remove(s.seen.keysOf(id, from)...) // what is still there has to be read again
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, "", err
	}
	var kept []wire.MessageID
	for i, id := range ids {
		if !gone[i] {
			kept = append(kept, id)
		}
	}
	said = fmt.Sprintf("%d of %d removed.", len(ids)-len(kept), len(ids))
	if len(kept) > 0 {
		said += " Not removed: " + s.explainKept(ctx, kept, from)
	}
	return len(ids) - len(kept), said + "\n", nil
}

// readAcks reads the ids that the model wants removed, each once. It refuses one that several peers'
// messages have which were shown.
func (s *Server) readAcks(ctx context.Context, texts []string, from identity.ID) (ids []wire.MessageID, err error) {
	if len(texts) > maxAcks {
		return nil, kinds.Errorf(kinds.Invalid, "ack: expected at most %d ids", maxAcks)
	}
	for _, text := range texts {
		id, err := readID("ack", text)
		if err != nil {
			return nil, err
		}
		if of := s.seen.keysOf(id, from); len(of) > 1 {
			return nil, kinds.Errorf(kinds.Invalid, "ack: %s each sent a message with the id %s: name one of them in peer", s.listSenders(ctx, of), id)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// explainKept says why an ack did not remove messages, as far as the reason is known. It does so in the
// form "ID: it waits for acp_reply; ID, ID: not in the inbox.".
func (s *Server) explainKept(ctx context.Context, ids []wire.MessageID, from identity.ID) string {
	held := s.findHeld(ctx, ids, from)
	var order []string // of reasons
	named := make(map[string][]string)
	for _, id := range ids[:min(len(ids), maxNamedAcks)] {
		why := s.explainAck(id, from)
		switch {
		case why != "":
		case held == nil:
			why = "not shown to its end, or gone already"
		case held[id]:
			why = "not shown to its end: read it, by id"
		default:
			why = "not in the inbox, or not any more"
		}
		if named[why] == nil {
			order = append(order, why)
		}
		named[why] = append(named[why], id.String())
	}
	var parts []string
	for _, why := range order {
		parts = append(parts, strings.Join(named[why], ", ")+": "+why)
	}
	if more := len(ids) - maxNamedAcks; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ") + "."
}

// explainAck says why a request cannot be acknowledged, "" if the id is none of a request that is known.
func (s *Server) explainAck(id wire.MessageID, from identity.ID) string {
	for _, key := range s.requests.keysOf(id) {
		if !from.IsZero() && key.from != from {
			continue
		}
		r, err := s.requests.find(key)
		switch {
		case r != nil:
			return "waits for acp_reply"
		case err != nil:
			return "no message of the inbox, and not open any more"
		}
	}
	return ""
}

// findHeld returns which of the first messages of a list lie in the inbox, nil if that is not known.
func (s *Server) findHeld(ctx context.Context, ids []wire.MessageID, from identity.ID) map[wire.MessageID]bool {
	p := client.InboxParams{IDs: ids[:min(len(ids), maxNamedAcks)], Limit: maxNamedAcks, Peek: true}
	if !from.IsZero() {
		p.Peers = []string{from.String()}
	}
	inbox, err := twice(ctx, func(ctx context.Context) (*client.Inbox, error) { return s.Daemon.Inbox(ctx, p) })
	if err != nil || inbox.Next != 0 {
		return nil
	}
	held := make(map[wire.MessageID]bool)
	for i := range inbox.Messages {
		held[inbox.Messages[i].Envelope.ID] = true
	}
	return held
}
