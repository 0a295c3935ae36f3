package remote

import (
	"testing"

	"github.com/acpd/acpd/integration/storm"
)

func TestStormCatchesLies(t *testing.T) {
	storm.CheckCatchesLies(t, "TestWhatChannelsSayIsTrue", []storm.Lie{
		{Name: "what may have been done is said not to be delivered", File: "forward.go",
			Truth: "	err := toForwardError(ctx, failed, kinds.DeliveredUnknown)\n",
			Text:  "	err := toForwardError(ctx, failed, kinds.DeliveredNo)\n"},
		{Name: "what waits is not written", File: "message_queue.go",
			Truth: "	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlInsertWaitingMessage(tx, p, time.Now()) })\n",
			Text:  "	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return nil })\n"},
	})
}
