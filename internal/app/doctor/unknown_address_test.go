package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/kinds"
)

// A peer without an address that was here before, as on a relay that is used no more, has called; and a relay
// is a way to it.
func TestPeerWithoutAnAddress(t *testing.T) {
	seen := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"no address of laptop is known, and it has not called":          {},
		"no address of laptop is known, last seen 2026-03-01T08:00:00Z": seen,
	} {
		x := &examination{Options: new(Options), config: new(config.Config), status: new(client.Status)}
		x.addPeer(&client.Peer{Name: "laptop", LastSeen: client.Time{Time: at}}, &pong{err: kinds.Errorf(kinds.Unreachable, "laptop: there is no address to try")})
		f := findCode(x.findings, "peer.away")
		if f.What != want || !strings.Contains(f.Remedy, "acpctl trust laptop --addr HOST:PORT, or acpctl relay add") {
			t.Errorf("%+v, want %s", f, want)
		}
	}
}
