package daemon

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent/api"
)

// TestKeylessConnections: of those without a key 64 are open, the newest; who has
// one comes in beside them.
// holds: security.md#in-channels
func TestKeylessConnections(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "channels:\n  listen: 127.0.0.1:0\n  keys:\n  - {sha256: "+api.HashAPIKey("bound")+", agent: planner}\n")
	desk := start(t, dir, "desk")
	addr := desk.channels.Listeners[2].Addr().String()
	var open []net.Conn
	for range 10 * local.MaxKeylessConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	for i, c := range open {
		c.SetReadDeadline(time.Now().Add(await.Patience))
		if i < len(open)-local.MaxKeylessConns {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("connection %d of %d: %v", i, len(open), err)
			}
			continue
		}
		io.WriteString(c, "GET /.well-known/openintent.json HTTP/1.1\r\nHost: acpd\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("connection %d of %d: %q, %v", i, len(open), line, err)
		}
	}
	at := &web{t: t, base: "http://" + addr, key: "bound", agent: "planner"}
	at.must(201, "POST", "intents", object{"title": "Ship it"})
}
