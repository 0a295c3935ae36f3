//go:build netns

package netns

import (
	"os"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/live"
)

// slack is the time that a loaded machine may add to a promised one. What breaks a promise takes 20 s
// and more: a connection that has to be found dead, a peer that is lost without a goodbye, or not seen
// before it announces itself again.
const slack = 8 * time.Second

// begin starts a program on the host, which ends with the test.
func (h *host) begin(env []string, argv ...string) *live.Process {
	h.l.t.Helper()
	p := live.PrepareProcess(h.l.t, live.NewEnviron(h.l.t, "/", env...), argv...)
	if err := h.in(p.Start); err != nil {
		h.l.t.Fatal(err)
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// eventually polls what must come within a time of since, and returns how long
// after since it came.
func eventually(t *testing.T, since time.Time, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		holds := ok()
		took := time.Since(since)
		if holds && took <= within {
			return took
		}
		if took > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
}
