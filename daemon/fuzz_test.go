package daemon

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// FuzzAgentSession has an agent say anything, in any order, on a connection of the
// agents' folder, while another agent is attached and at work. Whatever it says, each
// line that comes back is JSON, nothing that administers the daemon has changed, and of
// the other agent it has seen neither key, message nor delegation, and ended none.
// holds: security.md#agents-on-this-machine
func FuzzAgentSession(f *testing.F) {
	desk, laptop := pair(f)
	var other client.Attached
	worker := desk.guest(say(accepted))
	worker.must("attach", client.AttachParams{Name: "reviewer", Kinds: []string{"delegate"}}, &other)
	const secret = "sunflower"
	task := wire.Payload(`{"task":"` + secret + `"}`)
	taken := &client.DelegateAnswer{}
	laptop.dial().must("delegate", client.DelegateParams{To: "desk/reviewer", Payload: task}, taken)
	laptop.dial().must("notify", client.NotifyParams{To: client.To("desk/reviewer"), Payload: wire.Payload(`{"topic":"t","data":"` + secret + `"}`)}, nil)
	laptop.stop() // what is sent there fails at once
	owner := desk.dial()
	before := desk.state(f, owner)

	ref := taken.ID.String()
	for _, seed := range [][]string{
		{`"attach","params":{"name":"planner"}`, `"inbox","params":{"peek":true}`, `"shown","params":{"seqs":[1,2]}`, `"ack","params":{"up_to":99}`, `"tasks"`},
		{`"attach","params":{"name":"reviewer","take_over":true}`, `"attach","params":{"name":"reviewer"}`, `"inbox"`},
		{`"speak","params":{"name":"reviewer","key":"` + strings.Repeat("0", 64) + `"}`, `"inbox"`, `"tasks"`},
		{`"task","params":{"id":"` + ref + `"}`, `"wait","params":{"id":"` + ref + `","timeout_ms":1}`, `"cancel","params":{"ref":"` + ref + `","to":"laptop","payload":{}}`},
		{`"result","params":{"ref":"` + ref + `","payload":{"status":"completed","outcome":"x"}}`, `"error","params":{"ref":"` + ref + `","payload":{"code":"internal","message":"x"}}`},
		{`"trust","params":{"peer":"` + strings.Repeat("1", 64) + `"}`, `"untrust","params":{"peer":"laptop"}`, `"invite"`, `"join","params":{"uri":"acp://x"}`},
		{`"subscribe","params":{"events":true}`, `"status"`, `"policy","params":{"peer":"laptop","kind":"query"}`, `"pending"`, `"invitations"`, `"revoke"`},
		{`"oacp.bind","params":{"project":"p","agent":"a","peer":"laptop"}`, `"oacp.queue"`, `"budget"`, `"reload"`, `"whoami"`, `"peers"`},
		{`"query","params":{"to":"laptop","payload":{"question":"x"},"parent":"` + ref + `"}`, `"notify","params":{"to":["laptop"],"payload":{"topic":"t"},"wait":false}`, `"ping","params":{"to":"laptop","timeout_ms":1}`},
		{`"answer","params":{"ref":"` + ref + `","payload":{"summary":"x"}}`, `"query","params":{"ref":"` + ref + `","payload":{"question":"x","deadline_ms":1}}`, `"wait","params":{"id":"` + ref + `","after_questions":0,"timeout_ms":1}`},
		{`"delegate","params":{"id":"` + ref + `","to":"laptop","payload":{"task":"x"}}`, `"attach","params":{"name":"a","kinds":["query"],"max_concurrent":1}`, `"attach","params":{"name":"b"}`},
	} {
		var text strings.Builder
		for i, call := range seed {
			text.WriteString(`{"jsonrpc":"2.0","id":` + string(rune('1'+i)) + `,"method":` + call + "}\n")
		}
		f.Add([]byte(text.String()))
	}
	for name := range desk.local.Methods { // every method without any params
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + name + `"}` + "\n"))
	}
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"rpc.cancel\",\"params\":{\"id\":1}}\n[]\n\n\x00{}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"))

	f.Fuzz(func(t *testing.T, said []byte) {
		if said = forgetKey(said, other.Key); len(said) > 64<<10 {
			return
		}
		answers := converse(desk, said)
		for line := range slices.Values(answers) {
			if !jsontext.Value(line).IsValid() {
				t.Errorf("an answer is no JSON: %q", line)
			}
			if strings.Contains(line, secret) || strings.Contains(line, other.Key) || strings.Contains(line, desk.dir) || strings.Contains(line, "127.0.0.1") {
				t.Errorf("it hears what is not its own: %s", line)
			}
		}
		if after := desk.state(t, owner); after != before || desk.watch.HasSubscribers() {
			t.Errorf("the daemon has changed: %s, was %s", after, before)
		}
		if a := desk.registry.FindByName("reviewer"); a == nil || a.Key != other.Key {
			t.Error("the other agent is not what it was")
		}
		if s := desk.delegations.Status(desk.delegations.FindByID(nil, taken.ID, client.Taken)).State; s != client.TaskAccepted {
			t.Errorf("the other agent's delegation is %s", s)
		}
		if n := desk.held(); n != 1 {
			t.Errorf("%d messages are held", n)
		}
	})
}

// forgetKey makes sure that who says something does not know a key.
func forgetKey(said []byte, key string) []byte {
	return []byte(strings.ReplaceAll(string(said), key, ""))
}

// converse says something on a connection of the agents' folder and returns the lines
// that come back, when the daemon has done all of it or its time is over.
func converse(d *running, said []byte) (lines []string) {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	s := d.local.NewConn(ctx, far, d.guests)
	var ended sync.WaitGroup
	ended.Go(func() { s.Serve(ctx) })
	ended.Go(func() {
		heard := bufio.NewScanner(near)
		heard.Buffer(nil, 4<<20)
		for heard.Scan() {
			lines = append(lines, heard.Text())
		}
	})
	near.SetWriteDeadline(time.Now().Add(await.Patience))
	near.Write(said)
	near.Write([]byte("\n"))
	// A last call is answered after the lines before it were read.
	io.WriteString(near, `{"jsonrpc":"2.0","id":"last","method":"whoami"}`+"\n")
	const most = 20 * time.Millisecond // what waits for a peer is given up then
	settle(s, most)
	near.Close()
	cancel()
	ended.Wait()
	return lines
}

// settle waits until nothing is under way on the connection, but not for ever.
func settle(s *local.Conn, most time.Duration) {
	end := time.Now().Add(most)
	for tick := time.NewTicker(time.Millisecond / 4); s.IsBusy() && time.Now().Before(end); {
		<-tick.C
	}
}
