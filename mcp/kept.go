package mcp

import (
	"fmt"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// readKeep returns for how many milliseconds the model wants a message to be kept, 0 if not at all.
func readKeep(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := client.ParseKeep(text)
	return uint64(d.Milliseconds()), err
}

// newKeptResult makes the result for a message that the daemon keeps.
func (s *Server) newKeptResult(k *client.Kept, state client.TaskState) *result {
	where, tried := "", ""
	if k.Tries > 0 {
		tried = fmt.Sprintf(", tries: %d", k.Tries)
	}
	if s.isAgent() {
		where = " comes to acp_inbox, and"
	}
	return &result{
		State: string(state), ID: k.ID, Detail: map[string]any{"kept": k},
		Text: fmt.Sprintf("kept until %s%s: %s. The daemon sends it when the peer, or its agent, is there. How it ends%s is in acp_task, id %s; do cancel withdraws it.",
			formatSecond(k.Until), tried, client.Line(cutText(k.LastError, 300)), where, k.ID),
	}
}

// isKept reports whether the daemon keeps the query of the call, so that the daemon knows what becomes of it.
func (c *keptCall) isKept() bool { return c.isOver() && client.FindKept(c.err) != nil }

// describeOwnReport renders a report of the daemon itself, which has no words of a peer.
func describeOwnReport(e *wire.Envelope) string {
	return "From " + client.OwnReporter + ", not from a peer, " + client.DescribeOwnReport(e) + ". It needs no answer."
}

// describeKind says what a task is, for a sentence about it.
func describeKind(t *client.Task) string {
	switch t.Kind {
	case "", kinds.KindDelegate:
		return "delegation"
	case kinds.KindNotify:
		return "notice"
	}
	return t.Kind
}
