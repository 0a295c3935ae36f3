package channel

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client/channels"
)

// How long nobody answered is told as people write it.
func TestNobodyAnswers(t *testing.T) {
	for after, want := range map[time.Duration]string{time.Minute: "nobody answered in 1m, ", time.Hour: "nobody answered in 1h, ", 1500 * time.Millisecond: "nobody answered in 1.5s, "} {
		err := explainNoAnswer(&channels.Refusal{Code: "ask_timeout", Status: 504}, "reviewer", after)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
