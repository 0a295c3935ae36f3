package jsonrpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestLongLine(t *testing.T) {
	near, far := unixPair(t)
	c := NewConn(far, Options{MaxLine: 1000, Handler: subtract})
	run(t, c)
	go func() {
		fmt.Fprintf(near, `{"jsonrpc":"2.0","method":"empty","id":1,"pad":"%s"}`+"\n", strings.Repeat("x", 4<<20))
	}()
	line, err := bufio.NewReader(near).ReadString('\n')
	if err != nil || !strings.Contains(line, `"code":"too_large"`) || !strings.Contains(line, `"id":null`) {
		t.Errorf("got %q, %v", line, err)
	}
	if _, err := near.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection lives: %v", err)
	}
}

func TestLongLineOut(t *testing.T) {
	big := wire.Payload(`{"pad":"` + strings.Repeat("x", 2000) + `"}`)
	near, _ := pair(t, Options{MaxLine: 1000, SplicePayloads: true}, Options{MaxLine: 1000, Handler: func(_ context.Context, _ *Conn, r *Request) {
		r.Respond(big)
	}})
	spliced := question{Payload: wire.Payload(`{"pad":"` + strings.Repeat("x", splicedBytes) + `"}`)}
	for name, params := range map[string]any{"call": big, "spliced call": spliced, "reply": nil} {
		if err := near.Call(t.Context(), "x", params, nil); !errors.Is(err, &kinds.Error{Code: kinds.TooLarge}) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestUnreadableResultAndParams(t *testing.T) {
	near, _ := pair(t, Options{}, Options{Handler: func(_ context.Context, _ *Conn, r *Request) {
		r.Respond(map[string]any{"x": make(chan int)})
	}})
	if err := near.Call(t.Context(), "x", nil, nil); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
		t.Errorf("got %v", err)
	}
	if err := near.Call(t.Context(), "x", &question{To: "\xff"}, nil); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
		t.Errorf("got %v", err)
	}
}
