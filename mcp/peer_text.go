package mcp

import (
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// newPeerMessage returns a message as it is rendered.
func newPeerMessage(e *wire.Envelope, petname string) client.PeerMessage {
	m := client.PeerMessage{
		Peer: petname, ID: e.From, Agent: e.FromAgent, Kind: e.Kind, Message: e.ID, TS: e.TS, Payload: e.Payload, Answer: describeAnswer(e),
	}
	if e.Ref != nil {
		m.Ref = *e.Ref
	}
	return m
}

// describeAnswer describes how to answer a message.
func describeAnswer(e *wire.Envelope) string {
	switch k, known := kinds.FindKind(e.Kind); {
	case !known:
		return "This program does not know its kind, so not whether it needs an answer: tell your user to update acpd; acp_reply sends a message back."
	case k.Name == kinds.KindQuery:
		return "Answer it with acp_reply, id " + e.ID.String() + "."
	case k.Name == kinds.KindDelegate:
		return "When the work is done, or will not be, say so with acp_reply, id " + e.ID.String() + "."
	case k.Has(kinds.Report):
		return "It ends a delegation of yours, or answers a query that was kept, and needs no answer."
	}
	return "It needs no answer; acp_reply sends a message back."
}
