package channel

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

func TestRequestNeedsARecipient(t *testing.T) {
	f := newDaemon(t)
	if got := f.Run("channel", "send", "chan_1", "hi", "--request"); got.Code != frame.ExitUsage || !strings.Contains(got.Err, "--to") {
		t.Errorf("%+v", got)
	}
}
