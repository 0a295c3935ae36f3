package daemon

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/peer"
)

// TestDirectOff has a daemon that is told to stay on relays: its hello does not offer to look for
// a direct path.
func TestDirectOff(t *testing.T) {
	dir := stateDir(t)
	writeConfig(t, dir, "reach: {direct: off, stun: [\"127.0.0.1:3478\"]}\n")
	desk, laptop := start(t, dir, "desk"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	off, _ := laptop.node.Peer(desk.ID())
	on, _ := desk.node.Peer(laptop.ID())
	if slices.Contains(off.Features, peer.FeaturePaths) || !slices.Contains(on.Features, peer.FeaturePaths) {
		t.Errorf("features %v where it is off, %v where it is on", off.Features, on.Features)
	}
}
