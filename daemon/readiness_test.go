package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// awaitUnready waits until the daemon is unready for one reason, which has these words, and
// says so in its status.
func (d *running) awaitUnready(words string) {
	d.t.Helper()
	await.Until(d.t, "unready: "+words, func() bool {
		unready := d.readiness.Check(d.t.Context())
		return len(unready) == 1 && strings.Contains(unready[0], words)
	})
	var s client.Status
	d.dial().must("status", nil, &s)
	if s.Ready || len(s.Unready) != 1 || !strings.Contains(s.Unready[0], words) {
		d.t.Errorf("the status says ready: %t, %q", s.Ready, s.Unready)
	}
}

func (d *running) awaitReady() {
	d.t.Helper()
	await.Until(d.t, "ready", func() bool { return len(d.readiness.Check(d.t.Context())) == 0 })
}

func TestReadyDaemon(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.awaitReady()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if unready := desk.readiness.Check(t.Context()); len(unready) > 0 {
					t.Errorf("unready: %q", unready)
				}
			}
		})
	}
	for range 50 { // and no connection is lost
		desk.dial().must("whoami", nil, nil)
	}
	all.Wait()
	var s client.Status
	desk.dial().must("status", nil, &s)
	if !s.Ready || s.Unready == nil || len(s.Unready) > 0 {
		t.Errorf("the status says ready: %t, %q", s.Ready, s.Unready)
	}
}

func TestUnreadyOnALowDisk(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	desk.awaitReady()
	free.Store(1<<30 - 1)
	desk.awaitUnready("free some space")
	free.Store(1 << 40)
	desk.awaitReady()
}

func TestUnreadyWhileTheWriterIsStuck(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- desk.store.Write(t.Context(), false, func(*store.Tx) error { close(begun); <-end; return nil })
	}()
	<-begun
	desk.awaitUnready("writer of state.db")
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	desk.awaitReady()
}

func TestUnreadyWithoutItsSocket(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.awaitReady()
	caller := desk.dial()
	path := desk.home.ownerSocketPath()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	var s client.Status
	caller.must("status", nil, &s)
	if s.Ready || len(s.Unready) != 1 || !strings.Contains(s.Unready[0], path) {
		t.Errorf("the status says ready: %t, %q", s.Ready, s.Unready)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	desk.awaitReady()
	if err := os.Remove(desk.guests.Addr().String()); err != nil { // which an agent may do
		t.Fatal(err)
	}
	desk.awaitReady()
}

func TestUnreadyWhileItDrains(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.awaitReady()
	desk.drain.BeginEnd()
	desk.awaitUnready("shutting down")
}

// TestStuckParts: before Run nothing accepts connections, but the writer writes.
func TestStuckParts(t *testing.T) {
	t.Parallel()
	d, err := OpenDaemon(t.Context(), Options{Home: stateDir(t), Listen: "127.0.0.1:0", NoMDNS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if unready := d.readiness.Check(t.Context()); len(unready) != 1 || !strings.Contains(unready[0], "starting") {
		t.Errorf("before Run: %q", unready)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var stuck []string
	for _, part := range d.readiness.ListMovingParts() {
		if part.AwaitRound(ctx) != nil {
			stuck = append(stuck, part.Name)
		}
	}
	if slices.Contains(stuck, "the writer of state.db") {
		t.Error("the writer does not write")
	}
	for _, want := range []string{client.SocketName, filepath.Join(client.AgentFolder, client.SocketName), "UDP socket"} {
		if !slices.ContainsFunc(stuck, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("before Run %q is not among %q", want, stuck)
		}
	}
}
