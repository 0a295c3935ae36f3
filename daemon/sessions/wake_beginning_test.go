package sessions

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The wake for a long message has its beginning, which is still longer than a page, and a notice's topic.
func TestAWakeHasTheBeginningOfALongMessage(t *testing.T) {
	long := strings.Repeat("long ", MaxWakePayload)
	for kind, payload := range map[string]any{
		kinds.KindQuery:  &kinds.Query{Question: long},
		kinds.KindNotify: map[string]any{"topic": "build.done", "data": long},
		kinds.KindResult: &kinds.Result{Status: "completed", Outcome: long},
	} {
		in := &client.Inbound{Envelope: *wire.NewEnvelope(identity.ID{1}, identity.ID{2}, kind, kinds.EncodePayload(payload)), Name: "desk"}
		woken := copyForWake(in)
		if n := len(woken.Payload); n < client.PeerPageSize || n > MaxWakePayload {
			t.Errorf("%s: %d of %d bytes", kind, n, len(in.Payload))
		}
		if n, err := kinds.ParsePayload[kinds.Notify](woken.Payload); kind == kinds.KindNotify && (err != nil || n.Topic != "build.done") {
			t.Errorf("the topic is %q: %v", n.Topic, err)
		}
	}
}
