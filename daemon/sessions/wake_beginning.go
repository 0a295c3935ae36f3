package sessions

import (
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// A query or delegation may wait for a day to wake its session. A wake has a payload of up to
// MaxWakePayload as it is, and of a longer one maxWakeBeginning bytes: no page of a session shows more.
const (
	MaxWakePayload   = 64 << 10
	maxWakeBeginning = 16 << 10
)

// copyForWake returns a copy of a query or delegation for the wake. Of a long payload it keeps only the
// beginning, as the text of the question or task: the session gets the whole with the request itself.
func copyForWake(in *client.Inbound) *client.Inbound {
	woken := *in
	if len(in.Payload) <= MaxWakePayload {
		return &woken
	}
	beginning := client.ClipText(string(in.Payload[:MaxWakePayload]), maxWakeBeginning)
	k, _ := kinds.FindKind(in.Kind)
	woken.Payload = kinds.EncodePayload(map[string]string{k.FindWords(): beginning})
	return &woken
}
