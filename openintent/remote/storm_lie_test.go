package remote

import (
	"testing"

	"github.com/acpd/acpd/integration/storm"
)

func TestStormCatchesLies(t *testing.T) {
	storm.CatchesLies(t, "TestWhatChannelsSayIsTrue", []storm.Lie{
		{Name: "what may have been done is said not to be delivered", File: "home.go",
			Truth: "	err := describeFailure(ctx, failed, kinds.DeliveredUnknown)\n",
			Text:  "	err := describeFailure(ctx, failed, kinds.DeliveredNo)\n"},
		{Name: "what waits is not written", File: "waiting.go",
			Truth: "	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlAddWaiting(tx, p, time.Now()) })\n",
			Text:  "	err := q.db.Write(ctx, true, func(tx *store.Tx) error { return nil })\n"},
	})
}
