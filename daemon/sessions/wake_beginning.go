package sessions

import (
	"cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// A message may wait for a day to wake its session, and for another until the session's turn ends. A wake has
// a payload of up to MaxWakePayload as it is, and of a longer one maxWakeBeginning bytes: no page of a session
// shows more.
const (
	MaxWakePayload   = 64 << 10
	maxWakeBeginning = 16 << 10
)

// copyForWake returns a copy of a message for the wake. Of a long payload it keeps only the beginning, as the
// text of the message, and a notice's topic. The session gets the whole with the request itself, or from the
// inbox.
func copyForWake(in *client.Inbound) *client.Inbound {
	woken := *in
	if len(in.Payload) <= MaxWakePayload {
		return &woken
	}
	beginning := client.ClipText(string(in.Payload[:MaxWakePayload]), maxWakeBeginning)
	k, _ := kinds.FindKind(in.Kind)
	short := map[string]string{cmp.Or(k.FindWords(), "data"): beginning}
	if n, err := kinds.ParsePayload[kinds.Notify](in.Payload); err == nil && n.Topic != "" {
		short["topic"] = n.Topic
	}
	woken.Payload = kinds.EncodePayload(short)
	return &woken
}
