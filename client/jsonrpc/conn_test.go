package jsonrpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// subtract serves the methods of the examples in JSON-RPC 2.0, section 7.
func subtract(_ context.Context, _ *Conn, r *Request) {
	switch r.Method {
	case "subtract":
		var p struct {
			Subtrahend int `json:"subtrahend"`
			Minuend    int `json:"minuend"`
		}
		if r.Params.Kind() == '[' {
			var list [2]int
			if err := json.Unmarshal(r.Params, &list); err != nil {
				r.RespondError(err)
				return
			}
			r.Respond(list[0] - list[1])
			return
		}
		if err := r.ReadParams(&p); err != nil {
			r.RespondError(err)
			return
		}
		r.Respond(p.Minuend - p.Subtrahend)
	case "empty":
		if err := r.ReadParams(nil); err != nil {
			r.RespondError(err)
			return
		}
		r.Respond(nil)
	case "silent":
	default:
		r.RespondError(NewMethodNotFound(r.Method))
	}
}

func TestConformance(t *testing.T) {
	code := func(n int, id string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%d}`, id, n) }
	tests := []struct{ in, want string }{ // want "": no answer
		{`{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}`, `{"jsonrpc":"2.0","id":1,"result":19}`},
		{`{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}`, `{"jsonrpc":"2.0","id":2,"result":-19}`},
		{`{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}`, `{"jsonrpc":"2.0","id":3,"result":19}`},
		{`{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}`, `{"jsonrpc":"2.0","id":4,"result":19}`},
		{`{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}`, ``},
		{`{"jsonrpc": "2.0", "method": "foobar"}`, ``},
		{`{"jsonrpc": "2.0", "method": "foobar", "id": "1"}`, code(-32601, `"1"`)},
		{`{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`, code(-32700, `null`)},
		{`{"jsonrpc": "2.0", "method": 1, "params": "bar"}`, code(-32600, `null`)},
		{`[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]`, code(-32700, `null`)},
		{`[]`, code(-32600, `null`)},
		{`[1,2,3]`, code(-32600, `null`)},
		// Batches are refused whole.
		{`[{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}]`, code(-32600, `null`)},

		// Ids are echoed as they came.
		{`{"jsonrpc":"2.0","method":"empty","id":"ü\u0041"}`, `{"jsonrpc":"2.0","id":"ü\u0041","result":{}}`},
		{`{"jsonrpc":"2.0","method":"empty","id":1.50e2}`, `{"jsonrpc":"2.0","id":1.50e2,"result":{}}`},
		{`{"jsonrpc":"2.0","method":"empty","id":-12345678901234567890}`, `{"jsonrpc":"2.0","id":-12345678901234567890,"result":{}}`},
		{`{"jsonrpc":"2.0","method":"empty","id":""}`, `{"jsonrpc":"2.0","id":"","result":{}}`},
		{`{"jsonrpc":"2.0","method":"empty","id":null}`, code(-32600, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":[1]}`, code(-32600, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":true}`, code(-32600, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":"` + strings.Repeat("x", 300) + `"}`, code(-32600, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":01}`, code(-32700, `null`)},

		// Requests that are none.
		{`{"method":"empty","id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"1.0","method":"empty","id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":2.0,"method":"empty","id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"2.0","id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"2.0","method":null,"id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"2.0","method":"empty","params":null,"id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"2.0","method":"empty","params":"x","id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"2.0","method":"empty","result":1,"id":5}`, code(-32600, `5`)},
		{`{"jsonrpc":"2.0","method":"empty","id":5,"id":5}`, code(-32600, `null`)},
		{`{}`, code(-32600, `null`)},
		{`7`, code(-32600, `null`)},
		{`"text"`, code(-32600, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":5`, code(-32700, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":5}}`, code(-32700, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":5,}`, code(-32700, `null`)},
		{`{"jsonrpc":"2.0","method":"empty","id":nul}`, code(-32700, `null`)},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\",\"id\":5}", code(-32600, `5`)},
		{"\x00\x16\x03\x01", code(-32700, `null`)},
		{`GET / HTTP/1.1`, code(-32700, `null`)},

		// Params.
		{`{"jsonrpc":"2.0","method":"empty","params":{},"id":5}`, `{"jsonrpc":"2.0","id":5,"result":{}}`},
		{`{"jsonrpc":"2.0","method":"empty","params":{"a":1},"id":5}`, code(-32602, `5`)},
		{`{"jsonrpc":"2.0","method":"empty","params":[],"id":5}`, code(-32602, `5`)},
		{`{"jsonrpc":"2.0","method":"subtract","params":{"minuend":"x"},"id":5}`, code(-32602, `5`)},
		{`{"jsonrpc":"2.0","method":"subtract","params":{"minuend":[1}},"id":5}`, code(-32700, `5`)},

		// Form.
		{" \t{ \"jsonrpc\" : \"2.0\" ,\t\"method\":\"empty\" , \"id\" : 5 } \r", `{"jsonrpc":"2.0","id":5,"result":{}}`},
		{`{"\u006asonrpc":"2.0","\u006dethod":"em\u0070ty","id":5}`, `{"jsonrpc":"2.0","id":5,"result":{}}`},
		{`{"jsonrpc":"2.0","method":"empty","id":5,"extra":{"method":"x"}}`, `{"jsonrpc":"2.0","id":5,"result":{}}`},
		{``, ``},
		{` `, ``},

		// A handler that gives no answer.
		{`{"jsonrpc":"2.0","method":"silent","id":5}`, code(-32000, `5`)},
		{`{"jsonrpc":"2.0","method":"silent"}`, ``},

		// Responses to nothing.
		{`{"jsonrpc":"2.0","id":99,"result":{}}`, ``},
		{`{"jsonrpc":"2.0","id":"x","result":{}}`, ``},
		{`{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}`, ``},
		{`{"id":99,"result":1,"error":1}`, ``},
	}
	near, far := unixPair(t)
	run(t, NewConn(far, Options{Handler: subtract}))
	r := bufio.NewReader(near)
	for _, test := range tests {
		// A request behind it shows where no answer came. It may overtake.
		fmt.Fprintf(near, "%s\n", test.in)
		var got string
		if test.want != "" {
			got = readAnswer(t, r)
		}
		fmt.Fprintf(near, "%s\n", `{"jsonrpc":"2.0","method":"empty","id":"sentinel"}`)
		if s := readAnswer(t, r); s != `{"jsonrpc":"2.0","id":"sentinel","result":{}}` {
			t.Errorf("%s\n got %s\nwant no answer", test.in, s)
			readAnswer(t, r)
		}
		if got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.in, got, test.want)
		}
	}
}

// readAnswer reads a line and reduces an error to its code.
func readAnswer(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !jsontext.Value(line).IsValid() {
		t.Errorf("not JSON: %s", line)
	}
	var m struct {
		ID    jsontext.Value `json:"id"`
		Error *Error         `json:"error"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	if m.Error != nil {
		if m.Error.Message == "" {
			t.Errorf("%s: no message", line)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%d}`, m.ID, m.Error.Code)
	}
	return strings.TrimSuffix(line, "\n")
}

// pair returns two connections that run until the test ends.
func pair(t testing.TB, near, far Options) (*Conn, *Conn) {
	a, b := unixPair(t)
	ca, cb := NewConn(a, near), NewConn(b, far)
	run(t, ca, cb)
	return ca, cb
}

func TestErrorsCross(t *testing.T) {
	full := kinds.Errorf(kinds.Overloaded, "wait a \"little\"\n")
	full.RetryAfterMS, full.From = 250, "desk"
	full.Details = jsontext.Value(`{"delivered":"no"}`)
	broken := kinds.Errorf(kinds.NotFound, "x")
	broken.Details = jsontext.Value(`{`)
	tests := []struct {
		err  error
		want error
	}{
		{full, full},
		{fmt.Errorf("query: %w", full), full},
		{&Error{Code: -32602, Message: "to: missing"}, &Error{Code: -32602, Message: "to: missing"}},
		{context.DeadlineExceeded, kinds.Errorf(kinds.Timeout, "context deadline exceeded")},
		{context.Canceled, kinds.Errorf(kinds.Cancelled, "context canceled")},
		{errors.New("disk on fire"), kinds.Errorf(kinds.Internal, ownwords.Unknown)},
		{broken, kinds.Errorf(kinds.NotFound, "x")},
		{kinds.Errorf("of_tomorrow", "\xff"), kinds.Errorf("of_tomorrow", "\ufffd")},
	}
	for _, test := range tests {
		caller, _ := pair(t, Options{}, Options{Handler: func(_ context.Context, _ *Conn, r *Request) { r.RespondError(test.err) }})
		err := caller.Call(t.Context(), "x", nil, nil)
		got, _ := json.Marshal(err)
		want, _ := json.Marshal(test.want)
		if string(got) != string(want) || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", test.want) {
			t.Errorf("%v:\n got %T %s\nwant %T %s", test.err, err, got, test.want, want)
		}
	}
}

// Calls of all sizes reach the other end whole, both ways, and so do their answers, whether large
// payloads are copied or not.
func TestThousandCallsBothWays(t *testing.T) {
	a, b := pair(t, Options{Handler: echo, SplicePayloads: true}, Options{Handler: echo})
	var wg sync.WaitGroup
	for i := range 1000 {
		size := i * 7 % 3000
		switch {
		case i%200 == 0:
			size = 3 << 20 // more than a socket takes at once
		case i%20 == 0:
			size = splicedBytes + i
		}
		for _, c := range []*Conn{a, b} {
			wg.Go(func() {
				text := fmt.Sprintf(`{"question":"%d","pad":"%s"}`, i, strings.Repeat("x", size))
				var answer reply
				if err := c.Call(t.Context(), "query", &question{To: "desk", Payload: wire.Payload(text)}, &answer); err != nil {
					t.Error(err)
				} else if string(answer.Payload) != text {
					t.Errorf("got %.40s, want %.40s", answer.Payload, text)
				}
			})
		}
	}
	wg.Wait()
}

func TestCancel(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	caller, _ := pair(t, Options{}, Options{Handler: func(ctx context.Context, _ *Conn, r *Request) {
		if r.Method == "quick" {
			r.Respond(nil)
			return
		}
		close(started)
		<-ctx.Done()
		r.RespondError(ctx.Err())
		close(ended)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if err := caller.Call(ctx, "slow", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
	if err := caller.Call(t.Context(), "quick", nil, nil); err != nil {
		t.Errorf("the late answer did harm: %v", err)
	}
	if err := caller.Call(ctx, "quick", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
}

// A call ends at its limit and gives its request up; a handler's context ends when
// the request expires.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		causes := make(chan error, 1)
		near, far := NewConn(a, Options{}), NewConn(b, Options{Handler: func(ctx context.Context, _ *Conn, r *Request) {
			if r.Method == "quick" {
				r.CancelAfter(time.Second)()
				time.Sleep(2 * time.Second) // on the virtual clock
				r.Respond(map[string]bool{"ended": ctx.Err() != nil})
				return
			}
			defer r.CancelAfter(5 * time.Second)()
			<-ctx.Done()
			causes <- context.Cause(ctx)
			r.RespondError(context.Cause(ctx))
		}})
		var running sync.WaitGroup
		defer running.Wait()
		defer near.Close()
		running.Go(func() { near.Run(t.Context()) })
		running.Go(func() { far.Run(t.Context()) })

		began := time.Now()
		if err := near.CallFor(t.Context(), [32]byte{}, 3*time.Second, "slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("the call ended after %v: %v", time.Since(began), err)
		}
		if cause := <-causes; !errors.Is(cause, context.Canceled) {
			t.Errorf("the handler of a call given up: %v", cause)
		}
		began = time.Now()
		timeout := &kinds.Error{Code: kinds.Timeout}
		if err := near.Call(t.Context(), "slow", nil, nil); !errors.Is(err, timeout) || time.Since(began) != 5*time.Second {
			t.Errorf("the request expired after %v: %v", time.Since(began), err)
		}
		if cause := <-causes; !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("the handler of a request that expired: %v", cause)
		}
		var quick struct {
			Ended bool `json:"ended"`
		}
		if err := near.Call(t.Context(), "quick", nil, &quick); err != nil || quick.Ended {
			t.Errorf("a request that was not to expire any more: %+v, %v", quick, err)
		}
	})
}

// An error about a line of ours without an id ends the connection: the call that
// it is about cannot be told.
func TestErrorWithoutID(t *testing.T) {
	near, far := pair(t, Options{}, Options{Handler: subtract})
	err := near.Call(t.Context(), "x", wire.Payload(`{"a":}]`), nil)
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "parse error") {
		t.Errorf("got %v", err)
	}
	<-far.Done()
}

func TestNotificationsInOrder(t *testing.T) {
	got := make(chan string, 100)
	near, _ := pair(t, Options{}, Options{Notified: func(method string, params jsontext.Value) { got <- method + string(params) }})
	for i := range 100 {
		if err := near.Notify("n", jsontext.Value(fmt.Sprintf("{\n\"i\":%d}", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if s, want := <-got, fmt.Sprintf(`n{ "i":%d}`, i); s != want {
			t.Fatalf("got %s, want %s", s, want)
		}
	}
}

func TestInFlightLimit(t *testing.T) {
	release := make(chan struct{})
	near, far := unixPair(t)
	c := NewConn(far, Options{MaxInFlight: 2, Handler: func(ctx context.Context, _ *Conn, r *Request) {
		if string(r.id) == "3" {
			if ctx.Err() == nil {
				t.Error("rpc.cancel passed by a request that waits")
			}
		}
		<-release
		r.Respond(nil)
	}})
	run(t, c)
	const more = 10
	go func() {
		for i := range 2 + maxWaiting + more {
			fmt.Fprintf(near, `{"jsonrpc":"2.0","method":"a","id":%d}`+"\n", i+1)
		}
	}()
	r := bufio.NewReader(near)
	for range more {
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, `"code":"overloaded"`) || !strings.Contains(line, `"retry_after_ms":1000`) {
			t.Fatalf("got %s, %v", line, err)
		}
	}
	io.WriteString(near, `{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":3}}`+"\n"+`{"jsonrpc":"2.0","method":"a","id":"last"}`+"\n")
	r.ReadString('\n') // the cancel has been read
	close(release)
	for range 2 + maxWaiting {
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, `"result":{}`) {
			t.Fatalf("got %s, %v", line, err)
		}
	}
}
