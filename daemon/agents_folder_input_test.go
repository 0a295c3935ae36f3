package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// hog opens connections to a socket of the agents' folder, each of which writes text and
// no more, and checks what they hold together.
func (d *running) hog(socket string, n int, text string, all *jsonrpc.InputLimit) []net.Conn {
	d.t.Helper()
	if raceEnabled && n > 1 {
		n /= 5 // each byte that is read costs much there
	}
	var open []net.Conn
	for range n {
		c, err := net.Dial("unix", filepath.Join(d.dir, "agent", socket))
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(await.Patience))
		io.WriteString(c, text) // cut off it fails
		c.SetDeadline(time.Time{})
		open = append(open, c)
		if held := all.HeldBytes(); held > local.MaxInputBytes {
			d.t.Fatalf("%d bytes are held, over %d", held, local.MaxInputBytes)
		}
	}
	return open
}

// heap returns the bytes that the process holds.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// isCut reports whether who was cut off is told so. On a slow machine it may be that it
// stood still.
func isCut(text string) bool {
	return strings.Contains(text, `"overloaded"`) && strings.Contains(text, "send the whole of it at once") ||
		strings.Contains(text, `"timeout"`) && strings.Contains(text, "send each line or body at once")
}

// Lines that never end, of many connections, fill no memory: whoever sends them is cut
// off, and the owner's calls and another agent's go on, however large. It runs alone,
// for it looks at the memory of all.
// holds: security.md#agents-on-this-machine
func TestLinesWithoutEndFillNoMemory(t *testing.T) {
	dir := stateDir(t)
	writeConfig(t, dir, "max_message: 16777216\n")
	desk := start(t, dir, "desk")
	owner, agent := desk.dial(), desk.guest(nil)
	text := strings.Repeat("x", 15<<20)
	before := heap()
	open := desk.hog("acp.sock", 45, text, desk.guests.InputLimit) // ten times
	if more := heap() - before; more > 2*local.MaxInputBytes {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	owner.must("whoami", nil, nil)
	agent.must("whoami", nil, nil)
	if err := agent.call("task", map[string]string{"id": text[:2<<20]}, nil); errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) || errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("a line that is whole: %.300s", err.Error())
	}
	open[0].SetDeadline(time.Now().Add(await.Patience))
	line, err := bufio.NewReader(open[0]).ReadString('\n')
	if err != nil || !isCut(line) {
		t.Errorf("who sent a line without end is told %q, %v", line, err)
	}
	for _, c := range open {
		c.Close()
	}
	await.Until(t, "all is given back", func() bool { return desk.guests.InputLimit.HeldBytes() == 0 })
}

// So it is with the bodies of requests.
// holds: security.md#agents-on-this-machine
func TestBodiesWithoutEndFillNoMemory(t *testing.T) {
	dir := stateDir(t)
	desk := start(t, dir, "desk")
	owner, agent := desk.dial(), desk.guest(nil)
	const size = 560 << 10
	head := fmt.Sprintf("POST /api/v1/intents HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: planner\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size)
	body := `{"title":"` + strings.Repeat("x", size)
	before := heap()
	open := desk.hog("http.sock", 500, head+body[:size-1], desk.channels.Bodies) // four times
	if more := heap() - before; more > 2*local.MaxInputBytes {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	owner.must("whoami", nil, nil)
	agent.must("whoami", nil, nil)
	answer := func(c net.Conn) *http.Response {
		t.Helper()
		c.SetDeadline(time.Now().Add(await.Patience))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	whole := desk.hog("http.sock", 1, head+body[:size], desk.channels.Bodies)[0]
	if r := answer(whole); r.StatusCode != 400 {
		t.Errorf("a body that is whole, and no JSON: %s", r.Status)
	}
	r := answer(open[0])
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 429 && r.StatusCode != 408 || !isCut(string(text)) {
		t.Errorf("who sent half a body is told %s %s %v", r.Status, text, err)
	}
	for _, c := range open {
		c.Close()
	}
	await.Until(t, "all is given back", func() bool { return desk.channels.Bodies.HeldBytes() == 0 })
}
