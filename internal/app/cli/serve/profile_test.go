package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/profile"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A run is told above what the peer wrote, and to the end, what it cannot do and how long it may take.
func TestARunKnowsHowLongItMayTake(t *testing.T) {
	longest := &profile.Runner{Profile: &profile.Profile{ACP: true}, Tools: profile.ToolsWork, Dir: "/x", Confinement: run.Bubblewrap}
	in := &client.Inbound{Envelope: wire.Envelope{Kind: kinds.KindDelegate, Payload: wire.Payload(`{"task":"Mend it.","deadline_ms":600000}`)}, Name: "desk"}
	for limit, want := range map[time.Duration]string{10*time.Minute - time.Millisecond: " You have 10m for it.", 0: ""} {
		head, said, _ := strings.Cut(renderWork(in, longest, limit), "\n")
		if !strings.HasSuffix(head, "your owner commits it."+want) || strings.Contains(said, "600000") {
			t.Errorf("%s:\n%s\n%s", limit, head, said)
		}
	}
}
