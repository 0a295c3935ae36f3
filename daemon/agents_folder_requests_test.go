package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// Requests that an agent makes and that wait fill no memory, however long their lines are:
// what has no room is refused, and the calls of others go on. It runs alone, for it looks at
// the memory of all.
// holds: security.md#agents-on-this-machine
func TestRequestsThatWaitFillNoMemory(t *testing.T) {
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner"}, say(`{}`))
	given := delegateTo(planner, "laptop", task1(""))
	before := heap()

	hog, err := net.Dial("unix", filepath.Join(desk.dir, "agent", "acp.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	hog.SetDeadline(time.Now().Add(await.Patience))
	answers := bufio.NewReader(hog)
	told := func() string {
		t.Helper()
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	fmt.Fprintf(hog, `{"jsonrpc":"2.0","id":"s","method":"speak","params":{"name":"planner","key":%q}}`+"\n", key)
	if line := told(); !strings.Contains(line, `"result"`) {
		t.Fatal(line)
	}
	n, pad := 90, strings.Repeat("x", 1<<20) // more bytes than there is room for
	if raceEnabled {
		n, pad = local.MaxRequests+9, "" // each byte that is read costs much there: more requests
	}
	for range n {
		hog.SetDeadline(time.Now().Add(await.Patience))
		if _, err := fmt.Fprintf(hog, `{"jsonrpc":"2.0","id":"w","method":"wait","params":{"id":%q},"pad":"%s"}`+"\n", given.ID, pad); err != nil {
			t.Fatal(err)
		}
	}
	if line := told(); !strings.Contains(line, `"overloaded"`) {
		t.Errorf("got %.300s", line)
	}
	if _, bytes := desk.guests.RequestLimit.HeldLoad(); bytes > local.MaxRequestBytes {
		t.Errorf("%d bytes are under way, over %d", bytes, local.MaxRequestBytes)
	}
	if more := heap() - before; more > 2*local.MaxRequestBytes {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	planner.must("task", client.TaskParams{ID: given.ID}, nil)
	desk.guest(nil).must("whoami", nil, nil)
	hog.Close()
	await.Until(t, "all is given back", func() bool { number, bytes := desk.guests.RequestLimit.HeldLoad(); return number == 0 && bytes == 0 })
}

// Answers that an agent does not read have a room of all, however many it asks for. It reads so slowly
// that it is just not dropped; what has no room is refused, and the calls of others go on.
// holds: security.md#agents-on-this-machine
func TestAnswersThatAgentsDoNotRead(t *testing.T) {
	desk, laptop := pair(t)
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	sender := laptop.dial()
	for range 16 {
		sender.notify(client.NotifyParams{To: client.Recipients{Names: []string{"desk"}}, Payload: wire.Payload(`{"topic":"news","data":{"pad":"` + strings.Repeat("x", 60_000) + `"}}`)})
	}
	const left = 3 << 20 // others have the rest
	if !desk.guests.UnreadRoom.TryAcquire(local.MaxUnreadBytes - left) {
		t.Fatal("somebody has room")
	}

	hog, err := net.Dial("unix", filepath.Join(desk.dir, "agent", "acp.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	hog.SetDeadline(time.Now().Add(await.Patience))
	const n = 20
	fmt.Fprintf(hog, `{"jsonrpc":"2.0","id":"s","method":"speak","params":{"name":"planner","key":%q}}`+"\n", key)
	fmt.Fprint(hog, strings.Repeat(`{"jsonrpc":"2.0","id":"i","method":"inbox","params":{"limit":16,"peek":true}}`+"\n", n))
	var read bytes.Buffer
	readSlowly := func() { // as much as keeps the connection, also on a machine that does much else
		if _, err := io.CopyN(&read, hog, 5000); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the room is taken", func() bool {
		readSlowly()
		if desk.guests.UnreadRoom.TryAcquire(1 << 20) {
			desk.guests.UnreadRoom.Release(1 << 20)
			return false
		}
		return true
	})
	answered := make(chan error, 1)
	go func() { answered <- planner.call("inbox", client.InboxParams{Limit: 16, Peek: true}, nil) }()
	await.Until(t, "another call is answered", func() bool { readSlowly(); return len(answered) > 0 })
	if err := <-answered; err != nil {
		t.Error(err)
	}
	answers, refused := bufio.NewReader(io.MultiReader(&read, hog)), 0
	for range 1 + n {
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"overloaded"`) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("all answers had room")
	}
	await.Until(t, "all is given back", func() bool { return desk.guests.UnreadRoom.TryAcquire(left) })
}
