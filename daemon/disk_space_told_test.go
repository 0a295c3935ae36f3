package daemon

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
)

// TestLowDiskIsToldOf: the status tells of it while it lasts.
// holds: security.md#on-this-machine
func TestLowDiskIsToldOf(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(1 << 40)
	dir := stateDir(t)
	writeConfig(t, dir, "limits: {min_free: 134217728}\noacp: {home: "+dir+"/mail}\n")
	desk := startWith(t, Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, measure: func(path string) (disk.Space, error) {
		if free := free.Load(); free >= 1<<20 || path != dir {
			return disk.Space{Free: free, Total: 1 << 41}, nil
		}
		return disk.Space{Free: 1 << 40, Total: 1 << 41}, nil // of mail alone
	}})
	warnings := func() []string {
		var s client.Status
		desk.dial().must("status", nil, &s)
		return s.Warnings
	}
	for _, c := range []struct {
		free uint64
		want string
	}{
		{1 << 40, ""},
		{20<<20 + 1, "the disk of " + dir + " has 20 MiB free: what peers send is refused below 128 MiB (limits.min_free); free some space"},
		{1<<20 - 1, "the disk of " + dir + "/mail has 0 MiB free: mail of peers is refused below 128 MiB (limits.min_free); free some space"},
		{1 << 40, ""},
	} {
		free.Store(c.free)
		await.Until(t, "the status says: "+c.want, func() bool { return strings.Join(warnings(), "\n") == c.want })
	}
}
