package transfer

import (
	"testing"

	"github.com/acpd/acpd/integration/storm"
)

func TestStormCatchesLies(t *testing.T) {
	storm.CheckCatchesLies(t, "TestWhatTheQueueSaysIsTrue", []storm.Lie{
		{Name: "no answer is taken for a good one", File: "delivery_outcome.go",
			Truth: "		q.scheduleRetry(e, ownwords.Of(err))\n	case reply.Result == wire.MailRetry:",
			Text:  "		e.setState(Delivered, \"\")\n		events = append(events, e.toEvent(q.peer))\n	case reply.Result == wire.MailRetry:"},
		{Name: "what is refused for now is taken for delivered", File: "delivery_outcome.go",
			Truth: "		q.scheduleRetry(e, said)\n",
			Text:  "		e.setState(Delivered, \"\")\n		events = append(events, e.toEvent(q.peer))\n"},
		{Name: "the ledger forgets what came", File: "receive.go",
			Truth: "	known, err := m.readArrival(ctx, key)\n",
			Text:  "	known, err := (*arrival)(nil), error(nil)\n"},
	})
}
