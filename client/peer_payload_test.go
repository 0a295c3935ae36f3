package client

import (
	"testing"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A deadline is no part of what a message says.
func TestBeginPeerText(t *testing.T) {
	p := wire.Payload(`{"question":"Which\nbranch?","deadline_ms":480000,"max_tokens":7}`)
	if got := BeginPeerText(kinds.KindQuery, p); got != "Which branch?  max_tokens: 7" {
		t.Errorf("%q", got)
	}
	if got := formatPeerPayload(kinds.KindQuery, p); got != "Which\nbranch?\n\nmax_tokens: 7" {
		t.Errorf("%q", got)
	}
	if got := BeginPeerText(kinds.KindNotify, wire.Payload(`{"topic":"ci","data":{"deadline_ms":1}}`)); got != `topic: ci data: {"deadline_ms":1}` {
		t.Errorf("%q", got)
	}
}
