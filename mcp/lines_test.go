package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// lineProgram is an agent program that writes lines.
type lineProgram struct {
	t     testing.TB
	in    *io.PipeWriter
	lines chan string // that the server has written
	stop  func()      // ends the context of the server
	ended chan error
}

const beginsSession = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// startLineProgram serves a program, which has begun its session, until close.
func startLineProgram(t testing.TB, socket string) *lineProgram {
	t.Helper()
	p := startLines(t, socket)
	p.send(beginsSession, `"id":1`)
	return p
}

// startLines serves a program that has said nothing yet, until close.
func startLines(t testing.TB, socket string) *lineProgram {
	t.Helper()
	return serveLines(t, &Server{Daemon: &client.Client{Socket: socket, Patience: 5 * time.Second}, Log: t.Logf})
}

// serveLines is startLines with a server.
func serveLines(t testing.TB, s *Server) *lineProgram {
	in, write := io.Pipe()
	read, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	p := &lineProgram{t: t, in: write, lines: make(chan string, 1<<16), stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- s.ServeStreams(ctx, in, out); stop(); in.Close(); out.Close() }()
	go func() {
		defer close(p.lines)
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			p.lines <- lines.Text()
		}
	}()
	return p
}

// send writes a line, and reads until one comes that has a text.
func (p *lineProgram) send(line, want string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("%.60q: the session has ended: %v", line, await.Receive(p.t, "the end", p.ended))
	}
	if got := await.Receive(p.t, "a line", p.lines); !strings.Contains(got, want) {
		p.t.Fatalf("%.60s: %s, want %s", line, got, want)
	}
}

func (p *lineProgram) close() {
	p.t.Helper()
	p.in.Close()
	if err := await.Receive(p.t, "the end", p.ended); err != nil {
		p.t.Error(err)
	}
}

// A line that is no message is answered with an error, and the session goes on. The error has the
// id of the call, where it can be read.
func TestBadLinesEndNothing(t *testing.T) {
	p := startLineProgram(t, newFakeDaemon(t).path)
	deep := strings.Repeat("[", 1100) + strings.Repeat("]", 1100)
	deeper := strings.Repeat(`{"x":[`, 10_000) + strings.Repeat("]}", 10_000)
	long := `"` + strings.Repeat("\\\"{x", 1<<20) + `"`
	for _, bad := range []struct{ line, want string }{
		{"{", `"id":null,"error":{"code":-32700`},
		{"\xff\xfe", `"id":null,"error":{"code":-32700`},
		{"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\xff\"}", `"id":2,"error":{"code":-32700`},
		{`{"jsonrpc":"2.0","id":2,"id":2,"method":"ping"}`, `"id":2,"error":{"code":-32700`},
		{"null", `"id":null,"error":{"code":-32600`},
		{`"x"`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0"}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"1.0","id":"a","method":"ping"}`, `"id":"a","error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, `"id":null,"error":{"code":-32600`},
		// ids that would come back as others
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `"id":9007199254740993,"error":{"code":-32600,"message":"id: expected`},
		{`{"jsonrpc":"2.0","id":-9007199254740993,"method":"ping"}`, `"id":-9007199254740993,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":-9223372036854775808,"method":"ping"}`, `"id":-9223372036854775808,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","params":[],"id":-0,"method":"ping"}`, `"error":{"code":-32600,"message":"id: expected`},
		{`{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}`, `"id":"\ud83d","error":{"code":-32600,"message":"id: expected`},
		{`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"acp_peers","_meta":{"progressToken":9007199254740993}}}`, `"id":8,"error":{"code":-32600,"message":"progressToken: expected`},
		{`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"acp_peers","_meta":{"progressToken":[]}}}`, `"id":8,"error":{"code":-32600,"message":"progressToken: expected`},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`, `"id":null,"error":{"code":-32600,"message":"requestId: expected`},
		{`{"jsonrpc":"2.0","id":3,"method":7}`, `"id":null,"error":{"code":-32600`},
		// answers that are none: their id is not one of the program's calls
		{`{"jsonrpc":"2.0","id":9,"error":"no"}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":9,"error":[]}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":9,"error":{"code":"x","message":1}}`, `"id":null,"error":{"code":-32600`},
		// too deep, or too long
		{deep, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping","params":` + deep + `}`, `"id":2,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","method":"ping","params":` + deeper + `,"id":"a{\"b"}`, `"id":"a{\"b","error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"acp_notify","arguments":{"to":"desk","topic":"x","data":` + deep + `}}}`, `"id":4,"result":{"isError":true`},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":` + deeper + `}`, `"id":5,"result":{"isError":true`},
		{long, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"x":` + long + `}}`, `"id":6,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","params":[` + long + `],"method":"ping","id":7}`, `"id":7,"error":{"code":-32600`},
		// batches
		{"[]", `"id":null,"error":{"code":-32600`},
		{"[1]", `"id":null,"error":{"code":-32600`},
		{`[{"jsonrpc":"2.0","id":9,"result":{}},{"jsonrpc":"2.0","id":8,"method":"ping"}]`, `"id":8,"error":{"code":-32600`},
	} {
		p.send(bad.line, bad.want)
	}
	p.send(`[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]`, `"id":"a","error"`)
	if got := await.Receive(t, "an answer to the second call of the batch", p.lines); !strings.Contains(got, `"id":"b","error"`) {
		t.Errorf("%s", got)
	}
	p.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `"id":3`)
	p.close()
}

// The ids of calls come back as they were written.
func TestIDsComeBack(t *testing.T) {
	p := startLineProgram(t, newFakeDaemon(t).path)
	for _, id := range []string{`0`, `-7`, `9007199254740991`, `-9007199254740991`, `""`, `"9007199254740993"`, `"a\"b"`, `"é😀"`} {
		p.send(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, `"id":`+id+`,"result"`)
	}
	p.close()
}

// Text with half of a surrogate pair, as programs write it that have cut it, is taken with U+FFFD for the half.
func TestHalfASurrogatePairIsTaken(t *testing.T) {
	d := newFakeDaemon(t)
	d.answerQueries(func(_ context.Context, _ *client.QueryParams, question string) (string, error) {
		return "asked: " + question, nil
	})
	p := startLineProgram(t, d.path)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"acp_query","arguments":{"to":"desk","question":"cut \ud83d"}}}`, "asked: cut \ufffd")
	p.close()
}

// slowQuery is a call that wants progress.
const slowQuery = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"acp_query","arguments":{"to":"desk","question":"slow"},"_meta":{"progressToken":"p"}}}`

// startSlowProgram serves a program that has begun its session. A question is answered when it is cancelled. The
// channel gets a value when a question has come, and when it was cancelled.
func startSlowProgram(t *testing.T, lastCalls time.Duration) (*lineProgram, chan string) {
	d := newFakeDaemon(t)
	happened := make(chan string, 8)
	d.answerQueries(func(ctx context.Context, _ *client.QueryParams, _ string) (string, error) {
		happened <- "asked"
		<-ctx.Done()
		happened <- "cancelled"
		return "late", nil
	})
	s := &Server{Daemon: &client.Client{Socket: d.path, Patience: 5 * time.Second}, Log: t.Logf, timing: usualTiming}
	s.timing.wait, s.timing.progress, s.timing.lastCalls = time.Hour, 10*time.Millisecond, lastCalls
	p := serveLines(t, s)
	p.send(beginsSession, `"id":1`)
	return p, happened
}

// Nothing goes out for a call that was cancelled: programs take an answer to it for a fault.
func TestACancelledCallIsNotAnswered(t *testing.T) {
	p, happened := startSlowProgram(t, time.Minute)
	p.send(slowQuery, `"progressToken":"p"`)
	await.Receive(t, "the question", happened)
	io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`+"\n"+`{"jsonrpc":"2.0","id":4,"method":"ping"}`+"\n")
	await.Until(t, "what was sent after it is answered", func() bool {
		return strings.Contains(await.Receive(t, "a line", p.lines), `"id":4`)
	})
	await.Receive(t, "the end of the question", happened)
	p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"acp_peers"}}`, `"id":5`)
	p.close()
	for line := range p.lines {
		t.Errorf("came: %s", line)
	}
}

// A program may write its calls and close its end at once, as scripts do.
func TestCallsBeforeTheEndAreAnswered(t *testing.T) {
	d := newFakeDaemon(t)
	for range 50 {
		s := &Server{Daemon: &client.Client{Socket: d.path, Patience: 5 * time.Second}, Log: t.Logf, timing: usualTiming}
		s.timing.lastCalls = time.Minute
		p := serveLines(t, s)
		io.WriteString(p.in, beginsSession+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n"+`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"acp_peers"}}`)
		p.close()
		var all strings.Builder
		for line := range p.lines {
			all.WriteString(line)
		}
		for _, want := range []string{`"id":1,"result"`, `"id":2,"result"`, `"id":3,"result"`} {
			if !strings.Contains(all.String(), want) {
				t.Fatalf("no %s in %s", want, all.String())
			}
		}
	}
}

// Calls that wait for a peer when the program closes its end are given up after a moment.
func TestCallsThatWaitAtTheEndAreGivenUp(t *testing.T) {
	p, happened := startSlowProgram(t, time.Millisecond)
	p.send(slowQuery, `"progressToken":"p"`)
	await.Receive(t, "the question", happened)
	p.close()
	await.Receive(t, "the end of the question", happened)
	var last string
	for line := range p.lines {
		last = line
	}
	if !strings.Contains(last, `"id":3,"error":{"code":-32603,"message":"given up`) {
		t.Errorf("last came %s", last)
	}
}

// A signal ends what waits for a peer at once, whatever else the program does.
func TestASignalEndsCalls(t *testing.T) {
	p, happened := startSlowProgram(t, time.Hour)
	p.send(slowQuery, `"progressToken":"p"`)
	await.Receive(t, "the question", happened)
	p.stop()
	await.Receive(t, "the end of the question", happened)
	if err := await.Receive(t, "the end", p.ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A request that is not in order is answered with a code of JSON-RPC, and the session can begin after it.
func TestRequestsOutOfOrderGetACode(t *testing.T) {
	p := startLines(t, newFakeDaemon(t).path)
	p.send(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, `"id":"a","error":{"code":-32600,"message":"method \"tools/list\" is invalid during session initialization"`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"acp_peers"}}`, `"id":2,"error":{"code":-32600`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"initialize","params":7}`, `"id":3,"error":{"code":-32600`)
	p.send(beginsSession, `"id":1,"result"`)
	p.send(beginsSession, `"id":1,"error":{"code":-32600`)
	p.send(`{"jsonrpc":"2.0","id":4,"method":"nope"}`, `"id":4,"error":{"code":-32601`)
	p.send(`{"jsonrpc":"2.0","id":5,"method":"ping"}`, `"id":5,"result"`)
	p.close()
}

// No line ends the session, nor keeps what comes after it from being answered.
func FuzzLines(f *testing.F) {
	for _, line := range []string{
		"", "{", "[]", "null", "\xff", "\r", "[[[[", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":9,"error":1}`, `{"jsonrpc":"2.0","id":9,"result":1}`,
		`{"jsonrpc":"2.0","id":9,"method":"ping"}`, `[{"jsonrpc":"2.0","id":9,"method":"ping"}]`, beginsSession, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"acp_peers","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"x"}}`, `{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":7}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.Contains(input, []byte("last")) {
			t.Skip() // it could be, or cancel, the call that comes after it
		}
		p := startLineProgram(t, "/nonexistent/acp.sock")
		last := `{"jsonrpc":"2.0","id":"last","method":"ping"}`
		if _, err := p.in.Write(append(input, "\n"+last+"\n"...)); err != nil {
			t.Fatalf("the session has ended: %v", await.Receive(t, "the end", p.ended))
		}
		await.Until(t, "what comes after it is answered", func() bool { return strings.Contains(await.Receive(t, "a line", p.lines), `"id":"last","result"`) })
		p.close()
	})
}
