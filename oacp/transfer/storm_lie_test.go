package transfer

import (
	"testing"

	"github.com/acpd/acpd/integration/storm"
)

func TestStormCatchesLies(t *testing.T) {
	storm.CatchesLies(t, "TestWhatTheQueueSaysIsTrue", []storm.Lie{
		{Name: "no answer is taken for a good one", File: "peer_queue.go",
			Truth: "		q.retryLater(e, err.Error())\n	case reply.Result == wire.MailRetry:",
			Text:  "		e.set(Delivered, \"\")\n		events = append(events, e.event(q.peer))\n	case reply.Result == wire.MailRetry:"},
		{Name: "what is refused for now is taken for delivered", File: "peer_queue.go",
			Truth: "		q.retryLater(e, said)\n",
			Text:  "		e.set(Delivered, \"\")\n		events = append(events, e.event(q.peer))\n"},
		{Name: "the ledger forgets what came", File: "receive.go",
			Truth: "	known, err := m.readArrival(ctx, key)\n",
			Text:  "	known, err := (*arrival)(nil), error(nil)\n"},
	})
}
