package daemon

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// logFunc is a log whose lines a function gets.
type logFunc func(line []byte)

func (f logFunc) Write(line []byte) (int, error) {
	f(line)
	return len(line), nil
}

// TestUntrustWaitsForNoLog: a peer is cut off before untrust writes to the log, which may be
// slow.
func TestUntrustWaitsForNoLog(t *testing.T) {
	t.Parallel()
	worker := identity.ID{7}
	var desk atomic.Pointer[running]
	logged := make(chan bool, 1)
	d := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: logFunc(func(line []byte) {
		if !bytes.Contains(line, []byte("untrusted")) {
			return
		}
		logged <- true
		for _, u := range desk.Load().budget.ListUsage() {
			if u.Peer == worker {
				t.Errorf("logged while the peer's accounts are still there: %+v", u)
			}
		}
	})})
	desk.Store(d)
	if _, err := d.trust.Trust(identity.Peer{ID: worker, Name: "planner"}); err != nil {
		t.Fatal(err)
	}
	d.budget.OpenAccount(budget.ChannelRequests).CountRefusal(worker)
	d.dial().must("untrust", client.UntrustParams{Peer: "planner"}, nil)
	await.Receive(t, "the line of untrust", logged)
}
