package daemon

import (
	"bytes"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
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
	var d *Daemon
	logged := false
	d, err := OpenDaemon(t.Context(), Options{Home: stateDir(t), Listen: "127.0.0.1:0", NoMDNS: true, Log: logFunc(func(line []byte) {
		if !bytes.Contains(line, []byte("untrusted")) {
			return
		}
		logged = true
		for _, u := range d.budget.ListUsage() {
			if u.Peer == worker {
				t.Errorf("logged while the peer's accounts are still there: %+v", u)
			}
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.trust.Trust(identity.Peer{ID: worker, Name: "planner"}); err != nil {
		t.Fatal(err)
	}
	d.budget.OpenAccount(budget.ChannelRequests).CountRefusal(worker)
	if _, err := d.serveUntrust(t.Context(), nil, &client.UntrustParams{Peer: "planner"}); err != nil {
		t.Fatal(err)
	}
	if !logged {
		t.Error("untrust logged nothing")
	}
}
