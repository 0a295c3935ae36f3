package daemon

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// Requests that an agent makes and that wait fill no memory, however long their lines are:
// what has no room is refused, and the calls of others go on. It runs alone, for it looks at
// the memory of all.
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
		n, pad = maxRequests+9, "" // each byte that is read costs much there: more requests
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
	if _, bytes := desk.guests.requestLimit.HeldLoad(); bytes > maxRequestBytes {
		t.Errorf("%d bytes are under way, over %d", bytes, maxRequestBytes)
	}
	if more := heap() - before; more > 2*maxRequestBytes {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	planner.must("task", client.TaskParams{ID: given.ID}, nil)
	desk.guest(nil).must("whoami", nil, nil)
	hog.Close()
	await.Until(t, "all is given back", func() bool { number, bytes := desk.guests.requestLimit.HeldLoad(); return number == 0 && bytes == 0 })
}
