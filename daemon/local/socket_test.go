package local

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
)

// makeStateDir makes a state directory with a path that a socket can have.
func makeStateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acpd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A socket on which no connection could be accepted a moment ago says so, and so does one whose file is
// gone.
func TestFaultsOfASocket(t *testing.T) {
	s, err := OpenOwnerSocket(t.Context(), filepath.Join(makeStateDir(t), client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expect := func(words ...string) {
		t.Helper()
		faults := s.ListFaults()
		if len(faults) != len(words) {
			t.Fatalf("%v, want %d", faults, len(words))
		}
		for i, word := range words {
			if !strings.Contains(faults[i].Error(), word) {
				t.Errorf("%v does not say %q", faults[i], word)
			}
		}
	}
	expect()
	s.failure.Store(&acceptFailure{time.Now().Add(time.Hour), &net.OpError{Op: "accept", Err: syscall.EMFILE}})
	expect("ulimit -n")
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	expect(s.path, "ulimit -n")
	s.failure.Store(&acceptFailure{time.Now().Add(-3 * longPause), syscall.ECONNABORTED}) // long ago
	expect(s.path)
}

// Whoever closes a socket of the agents' folder second finds its file gone, also while
// the first has not come back: what is removed later may be the next daemon's.
func TestASocketIsClosedOnce(t *testing.T) {
	home := makeStateDir(t)
	if err := OpenAgentsFolder(home, nil); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		socket, err := OpenGuestSocket(t.Context(), home, client.SocketName, nil)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			socket.Close()
		}()
		socket.AcceptUnix() // until the first Close
		socket.Close()
		if _, err := os.Lstat(socket.path); err == nil {
			t.Fatal("the file is still there")
		}
		<-closed
	}
}
