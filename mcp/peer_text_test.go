package mcp

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A model hears how a message is answered by its kind. Of a kind that this program does not know, it
// hears that, and nothing that may be false.
func TestDescribeAnswer(t *testing.T) {
	const unknown = "shout" // of a daemon that is newer than this program
	says := map[string]string{
		kinds.KindQuery: "Answer it", kinds.KindDelegate: "When the work is done", kinds.KindNotify: "needs no answer",
		kinds.KindResult: "ends a delegation of yours", kinds.KindError: "ends a delegation of yours", unknown: "does not know its kind",
	}
	for _, kind := range append(kinds.ListNames(kinds.Wakes), unknown, kinds.KindCancel) {
		got := describeAnswer(&wire.Envelope{Kind: kind})
		if want := says[kind]; !strings.Contains(got, want) || strings.Contains(got, "a delegation of yours") != kinds.Has(kind, kinds.Report) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
