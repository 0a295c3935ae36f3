package transfer

import (
	"testing"

	"github.com/acpd/acpd/integration/storm"
)

func TestStormCatchesLies(t *testing.T) {
	storm.CatchesLies(t, "TestWhatTheQueueSaysIsTrue", []storm.Lie{
		{Name: "no answer is taken for a good one", File: "send.go",
			Truth: "		m.retryLater(k, e, err.Error())\n	case reply.Result == wire.MailRetry:",
			Text:  "		e.set(Delivered, \"\")\n		m.events = append(m.events, e.event(k.peer))\n	case reply.Result == wire.MailRetry:"},
		{Name: "what is refused for now is taken for delivered", File: "send.go",
			Truth: "		m.retryLater(k, e, said)\n",
			Text:  "		e.set(Delivered, \"\")\n		m.events = append(m.events, e.event(k.peer))\n"},
		{Name: "the ledger forgets what came", File: "receive.go",
			Truth: "	known, err := m.readArrival(ctx, key)\n",
			Text:  "	known, err := (*arrival)(nil), error(nil)\n"},
	})
}
