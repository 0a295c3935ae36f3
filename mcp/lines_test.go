package mcp

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
)

// A line that is no message is answered with an error, and the session goes on.
func TestBadLinesEndNothing(t *testing.T) {
	d := newFakeDaemon(t)
	s := &Server{Daemon: &client.Client{Socket: d.path, Patience: 5 * time.Second}, Log: t.Logf}
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStreams(context.Background(), in, out); out.Close() }()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 1<<20)
	send := func(line, want string) {
		t.Helper()
		go io.WriteString(write, line+"\n")
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("%.60s: %s, want %s", line, lines.Text(), want)
		}
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, `"id":1`)
	for _, bad := range []string{"{", "\xff\xfe", "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\xff\"}"} {
		send(bad, "-32700")
	}
	deep := strings.Repeat("[", 1100) + strings.Repeat("]", 1100)
	for _, bad := range []string{
		"[]", "[1]", "null", `"x"`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, deep, `{"jsonrpc":"2.0","id":2,"method":"ping","params":` + deep + `}`,
		`"` + strings.Repeat("x", 5<<20) + `"`,
	} {
		send(bad, "-32600")
	}
	send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"acp_notify","arguments":{"to":"desk","topic":"x","data":`+deep+`}}}`, `"id":4,"result":{"isError":true`)
	send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `"id":3`)
	write.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
