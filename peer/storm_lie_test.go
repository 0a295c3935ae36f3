package peer

import (
	"testing"

	"github.com/acpd/acpd/integration/storm"
)

func TestStormCatchesLies(t *testing.T) {
	storm.CheckCatchesLies(t, "TestWhatCallsSayIsTrue", []storm.Lie{
		{Name: "a message is handed when it is written", File: "message.go",
			Truth: "	select {\n	case r := <-answer:\n",
			Text:  "	if c.stopAwaitingReceipt(s.StreamID()); true {\n		return Handed, nil\n	}\n	select {\n	case r := <-answer:\n"},
		{Name: "a receipt that refuses is taken for held", File: "message.go",
			Truth: "	case wire.Held:\n		return Held, nil\n	}\n",
			Text:  "	case wire.Held, wire.Refused:\n		return Held, nil\n	}\n"},
		{Name: "what may have been read is said not to be delivered", File: "message.go",
			Truth: "	return \"\", newContextError(c.node, ctx, c.id, kinds.DeliveredUnknown)\n}",
			Text:  "	return \"\", newContextError(c.node, ctx, c.id, kinds.DeliveredNo)\n}"},
	})
}
