package integration

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestBadLines: each gets its error, whatever it is, and the connection goes on.
func TestBadLines(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	desk.MustOutput("trust", strings.Repeat("1", 64), "--name", "laptop", "--yes")
	other, s := desk.dial(), desk.dial()
	query := func(payload string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"laptop","payload":` + payload + `}}`
	}
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	for _, c := range []struct{ line, want string }{
		{`x`, `"code":-32700`},
		{`{`, `"code":-32700`},
		{"\x00", `"code":-32700`},
		{`{"jsonrpc":"2.0","id":1,"method":"whoami"}}`, `"code":-32700`},
		{`{"jsonrpc":"2.0","id":1,"method":"who` + "\xff" + `ami"}`, `"code":-32`},
		{`[{"jsonrpc":"2.0","id":1,"method":"whoami"}]`, `"code":-32600`},
		{`[]`, `"code":-32600`},
		{`"whoami"`, `"code":-32600`},
		{`null`, `"code":-32600`},
		{`{}`, `"code":-32600`},
		{`{"id":1,"method":"whoami"}`, `"code":-32600`},
		{`{"jsonrpc":"1.0","id":1,"method":"whoami"}`, `"code":-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"whoami"}`, `"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, `"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, `"code":-326`},
		{`{"jsonrpc":"2.0","id":1,"method":"nonsense"}`, `"code":-32601`},
		{`{"jsonrpc":"2.0","id":"one","method":"nonsense"}`, `"id":"one"`},
		{call("whoami", `{"x":1}`), `"code":-32602`},
		{call("whoami", `7`), `"code":-326`},
		{call("query", `[]`), `"code":-32602`},
		{call("query", `{"to":7}`), `"code":-32602`},
		{call("query", `{"to":"laptop","id":"7","payload":{}}`), `"code":-32602`},
		{call("query", `{"to":"laptop","id":"00000000-0000-0000-0000-000000000000","payload":{}}`), `"code":-32602`},
		{call("query", `{"to":"laptop","payload":{"question":"x"},"hops":3}`), `"code":-32602`},
		{call("query", `{"to":"laptop","to":"laptop","payload":{"question":"x"}}`), `"code":-32`},
		{call("query", `{"to":"laptop","thread":"`+strings.Repeat("x", 65)+`","payload":{"question":"x"}}`), `"code":"invalid"`},
		{call("query", `{"to":"laptop","thread":"x","parent":"3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b","payload":{"question":"x"}}`), `"code":"invalid"`},
		{query(`7`), `"code"`},
		{query(`"x"`), `"code"`},
		{query(`{}`), `"code":"invalid"`},
		{query(`{"question":7}`), `"code":"invalid"`},
		{query(`{"question":""}`), `"code":"invalid"`},
		{query(`{"question":"a","question":"b"}`), `"code"`},
		{query(`{"question":"a","deadline_ms":-1}`), `"code":"invalid"`},
		{query(`{"question":"a","deadline_ms":600001}`), `"code":"invalid"`},
		{query(`{"question":"a","deadline_ms":99999999999999999999}`), `"code":"invalid"`},
		{query(`{"question":"a","domain":"` + strings.Repeat("x", 256) + `"}`), `"code":"invalid"`},
		{query(`{"question":"\ud800"}`), `"code"`},
		{query(`{"question":"` + "\xff" + `"}`), `"code"`},
		{query(`{"question":"a","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`), `"code"`},
		{query(`{"question":"a","x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`), `"code"`},
		{call("notify", `{"to":[],"payload":{"topic":"x"}}`), `"code":-32602`},
		{call("notify", `{"to":["a"`+strings.Repeat(`,"a"`, 64)+`],"payload":{"topic":"x"}}`), `"code":-32602`},
		{call("notify", `{"to":"laptop","payload":{"topic":"x","importance":"urgent"}}`), `"code":"invalid"`},
		{call("cancel", `{"ref":"3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b"}`), `"code":"not_found"`},
		{call("cancel", `{}`), `"code"`},
		{call("result", `{"ref":"3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b","payload":{"status":"completed","outcome":"x"}}`), `"code":"not_found"`},
		{call("wait", `{"id":"3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b"}`), `"code":"not_found"`},
		{call("ack", `{}`), `"code":"invalid"`},
		{call("inbox", `{"limit":-1}`), `"code":"invalid"`},
		{call("attach", `{"name":""}`), `"code":"invalid"`},
		{call("attach", `{"name":"a/b"}`), `"code":"invalid"`},
		{call("attach", `{"name":"a","kinds":["ping"]}`), `"code":"invalid"`},
		{call("attach", `{"name":"a","max_concurrent":-1}`), `"code":"invalid"`},
		{call("attach", `{"name":"a\u001b[2J"}`), `"code":"invalid"`},
		{call("subscribe", `{"events":7}`), `"code":-32602`},
		{call("subscribe", `{"peers":["nobody"]}`), `"code":"unknown_peer"`},
		{call("trust", `{"peer":"nobody"}`), `"code":"unknown_peer"`},
		{call("trust", `{"peer":"`+strings.Repeat("2", 64)+`","name":"Desk"}`), `"code":"invalid"`},
		{call("trust", `{"peer":"`+strings.Repeat("2", 64)+`","addrs":["desk"]}`), `"code":"invalid"`},
		{call("join", `{"uri":"https://desk.example"}`), `"code":"invalid"`},
		{call("invite", `{"expires_secs":-1}`), `"code":-32602`},
	} {
		got := s.ask(c.line)
		if !strings.Contains(got, `"error"`) || !strings.Contains(got, c.want) {
			t.Errorf("%.120s\nis answered by %.300s\nwant %s", c.line, got, c.want)
		}
	}
	// What needs no answer gets none.
	for _, line := range []string{
		``, `   `, `{"jsonrpc":"2.0","method":"whoami"}`, `{"jsonrpc":"2.0","method":"nonsense"}`,
		`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":7}}`, `{"jsonrpc":"2.0","method":"rpc.cancel"}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`,
	} {
		s.say(line)
	}
	for _, c := range []*socket{s, other} {
		if got := c.ask(call("whoami", "{}")); !strings.Contains(got, desk.ID.String()) {
			t.Errorf("after all that: %s", got)
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLineTooLong: it is answered, and the connection ends; others go on.
func TestLineTooLong(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	s := desk.dial()
	go func() {
		chunk := strings.Repeat("x", 1<<16)
		for range 40 { // until the daemon hangs up
			if _, err := io.WriteString(s, chunk); err != nil {
				return
			}
		}
	}()
	if got := s.hear(); !strings.Contains(got, `"code":"too_large"`) {
		t.Errorf("got %.300s", got)
	}
	s.SetReadDeadline(time.Now().Add(await.Patience))
	if n, err := io.Copy(io.Discard, s); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection does not end: %d bytes, %v", n, err)
	}
	desk.MustOutput("whoami")
}

// TestHalfClosedSocket: who has finished writing still gets the answers.
func TestHalfClosedSocket(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	s := newStubborn()
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{Query: s.query})
	c := laptop.dial()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"desk","payload":{"question":"x"}}}`)
	if err := c.Conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "query", s.began)
	close(s.release)
	if got := c.hear(); !strings.Contains(got, "at last") {
		t.Errorf("got %s", got)
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("after the answer: %v, want the end", err)
	}
}

// TestClosedSocketGivesUp: the other side's agent is told.
func TestClosedSocketGivesUp(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	s := newStubborn()
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{Query: s.query})
	c := laptop.dial()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"desk","payload":{"question":"closed"}}}`)
	await.Receive(t, "query", s.began)
	c.Close()
	await.Receive(t, "agent that is told", s.gaveUp)

	c = laptop.dial()
	c.say(`{"jsonrpc":"2.0","id":"q","method":"query","params":{"to":"desk","payload":{"question":"cancelled"}}}`)
	await.Receive(t, "query", s.began)
	c.say(`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":"q"}}`)
	if got := c.hear(); !strings.Contains(got, `"code":"cancelled"`) {
		t.Errorf("got %s", got)
	}
	await.Receive(t, "agent that is told", s.gaveUp)
}

// TestManyConnections: where all are in use one over the limit is told so, and a
// place that is given back can be had. Those on which nothing happens make room.
// holds: security.md#on-this-machine
func TestManyConnections(t *testing.T) {
	t.Parallel()
	const most = 1024 // less where the process may have few descriptors
	desk := running(t, "desk")
	const subscribe = `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"events":true}}`
	var used []*socket
	for told := ""; !strings.Contains(told, `"code":"overloaded"`); {
		if len(used) > most {
			t.Fatalf("%d connections are in use, and one more may be", len(used))
		}
		s := desk.dial()
		s.Write([]byte(subscribe + "\n"))
		if told = s.hear(); strings.Contains(told, `"result"`) {
			used = append(used, s)
		}
	}
	for _, i := range []int{0, len(used) - 1} {
		if got := used[i].ask(subscribe); !strings.Contains(got, `"result"`) {
			t.Errorf("who was there before: %s", got)
		}
	}
	for _, s := range used {
		s.Close()
	}
	desk.MustOutput("whoami")
	for range most + 100 {
		desk.dial()
	}
	desk.MustOutput("whoami")
}

// TestAgentsAnswersAreChecked: whatever an agent answers, its peer gets something
// that is valid.
func TestAgentsAnswersAreChecked(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	answers := []string{
		`"x"`, `null`, `7`, `[]`, `{}`, `{"summary":7}`, `{"summary":"a","summary":"b"}`, `{"summary":"\ud800"}`,
		`{"summary":"a","tokens_used":-1}`,
	}
	next := make(chan string, 1)
	agent := desk.dial()
	if got := agent.ask(`{"jsonrpc":"2.0","id":1,"method":"attach","params":{"name":"careless"}}`); strings.Contains(got, "error") {
		t.Fatal(got)
	}
	go func() {
		for answer := range next {
			line, err := agent.in.ReadString('\n')
			if err != nil {
				return
			}
			_, id, _ := strings.Cut(line, `"id":`)
			id = id[:strings.IndexAny(id, ",}")]
			fmt.Fprintf(agent, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, answer)
		}
	}()
	defer close(next)
	for _, answer := range answers {
		next <- answer
		_, err := laptop.Client.Query(await.NewContext(t), question("desk", "x"))
		e := is(t, kinds.Internal, err)
		if e.From != desk.ID.String() {
			t.Errorf("%s: %v", answer, e)
		}
	}
	next <- `{"summary":"fine"}`
	if said := laptop.MustOutput("query", "desk", "x"); said != "fine\n" {
		t.Errorf("after all that: %q", said)
	}
}
