package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	maxAcks      = 64 // ids in one call
	maxNamedAcks = 10 // ids that were not removed and are named
)

// acknowledge removes messages that were shown, only those of a peer unless from is zero. It returns
// how many, and for the model which were not removed and why.
func (s *Server) acknowledge(ctx context.Context, texts []string, from identity.ID) (removed int, said string, err error) {
	if len(texts) == 0 {
		return 0, "", nil
	}
	ids, err := s.readAcks(ctx, texts, from)
	if err != nil {
		return 0, "", err
	}
	p := client.AckParams{IDs: ids}
	if !from.IsZero() {
		p.Peers = []string{from.String()}
	}
	acked, err := twice(ctx, func(ctx context.Context) (*client.Acked, error) { return s.Daemon.Ack(ctx, p) })
	if err != nil {
		return 0, "", err
	}
	said = fmt.Sprintf("%d of %d removed.", acked.Removed, len(ids))
	isNamed := acked.Removed == len(acked.IDs) // an older daemon does not name what it has removed
	kept := slices.DeleteFunc(ids, func(id wire.MessageID) bool { return slices.Contains(acked.IDs, id) })
	if isNamed && len(kept) > 0 {
		said += " Not removed: " + s.explainKept(kept, from, acked.NotShown)
	}
	return acked.Removed, said + "\n", nil
}

// readAcks reads the ids that the model wants removed, each once. It refuses an id if the session was shown
// messages of several peers that have it.
func (s *Server) readAcks(ctx context.Context, texts []string, from identity.ID) (ids []wire.MessageID, err error) {
	if len(texts) > maxAcks {
		return nil, kinds.Errorf(kinds.Invalid, "ack: expected at most %d ids", maxAcks)
	}
	for _, text := range texts {
		id, err := readID("ack", text)
		if err != nil {
			return nil, err
		}
		if of := s.seen.keysOf(id); from.IsZero() && len(of) > 1 {
			return nil, kinds.Errorf(kinds.Invalid, "ack: %s each sent a message with the id %s: name one of them in peer", s.listSenders(ctx, of), id)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// explainKept explains why an ack did not remove messages, in the form "ID: waits for acp_reply; ID, ID: not
// in the inbox, or not any more.".
func (s *Server) explainKept(ids []wire.MessageID, from identity.ID, notShown []wire.MessageID) string {
	var order []string // of reasons
	named := make(map[string][]string)
	for _, id := range ids[:min(len(ids), maxNamedAcks)] {
		why := s.explainRequest(id, from)
		switch {
		case why != "":
		case slices.Contains(notShown, id):
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

// explainRequest explains why a request cannot be acknowledged. It returns "" if no request that is known has
// the id.
func (s *Server) explainRequest(id wire.MessageID, from identity.ID) string {
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
