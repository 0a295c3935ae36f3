package daemon

import (
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// A query or delegation may wait for a day to wake its session. A wake has a payload of up to
// maxWakePayload as it is, and of a longer one maxWakeBeginning bytes: no page of a session shows more.
const (
	maxWakePayload   = 64 << 10
	maxWakeBeginning = 16 << 10
)

// copyForWake returns a query or delegation as the wake for it has it. Of a long payload it keeps the
// beginning alone, as the text of the question or task: the session gets the whole from the request
// itself.
func copyForWake(in *client.Inbound) *client.Inbound {
	woken := *in
	if len(in.Payload) <= maxWakePayload {
		return &woken
	}
	beginning := client.ClipText(string(in.Payload[:maxWakePayload]), maxWakeBeginning)
	k, _ := kinds.FindKind(in.Kind)
	woken.Payload = kinds.EncodePayload(map[string]string{k.FindWords(): beginning})
	return &woken
}
