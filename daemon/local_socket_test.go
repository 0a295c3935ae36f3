package daemon

import (
	"os"
	"testing"

	"github.com/acpd/acpd/client"
)

// Whoever closes a socket of the agents' folder second finds its file gone, also while
// the first has not come back: what is removed later may be the next daemon's.
func TestASocketIsClosedOnce(t *testing.T) {
	h := home(stateDir(t))
	if err := h.openAgentsFolder(nil); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		socket, err := h.openGuestSocket(t.Context(), client.SocketName, nil)
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
