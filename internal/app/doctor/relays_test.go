package doctor

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// Who may listen at a relay to what is for others is told where a configuration without that stands.
func TestSnoopPointsToTheDocs(t *testing.T) {
	f := findCode(faked(func(d *clitest.FakeDaemon, s *client.Status, _ *Options) {
		s.Relays = []client.Relay{{Name: "hub", URL: "tls://nats.example.org:4222", State: client.RelayUp}}
		d.SetAnswer(client.MethodRelayTest, &client.RelayChecks{Checks: []client.RelayCheck{{Name: "hub", Steps: []client.RelayStep{
			{Step: client.StepForeignSubscribe, Verdict: client.StepWarning, What: "it may listen", Remedy: "permit less"},
		}}}})
	}).find(t), "relay.snoop")
	if !strings.HasPrefix(f.Remedy, "permit less; docs/reach.md, A server for a company") {
		t.Errorf("%+v", f)
	}
}
