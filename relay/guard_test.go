package relay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// frame returns a WebSocket frame of a server.
func frame(first byte, payload string) string {
	switch n := len(payload); {
	case n < 126:
		return string([]byte{first, byte(n)}) + payload
	case n < 1<<16:
		return string([]byte{first, 126, byte(n >> 8), byte(n)}) + payload
	default:
		return string([]byte{first, 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + payload
	}
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

func TestGuard(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for name, c := range map[string]struct {
		webSocket bool
		text      string
		want      string // of the error
	}{
		"session":              {false, plainInfo + "PONG\r\n+OK\r\nMSG a 1 5\r\nhello\r\nMSG a 1 r 0\r\n\r\nHMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n-ERR 'x'\r\nPING\r\n", ""},
		"payload like a line":  {false, "MSG a 1 28\r\nMSG b 2 999999999999999999\r\n\r\nPING\r\n", ""},
		"large message":        {false, "MSG a 1 70000\r\n" + long + "\r\nPING\r\n", ""},
		"long INFO":            {false, "INFO " + long[:60_000] + "\r\n", ""},
		"longer INFO":          {false, "INFO " + long + "\r\n", "line of more"},
		"long reply subject":   {false, "MSG a 1 " + long[:5000] + " 5\r\nhello\r\n", ""}, // a member of the account chooses it
		"longer reply subject": {false, "MSG a 1 " + long + " 5\r\nhello\r\n", "line of more"},
		"unknown":              {false, "FOO\r\n", "no line of NATS"},
		"lower case":           {false, "msg a 1 5\r\nhello\r\n", "no line of NATS"},
		"tab":                  {false, "MSG a\t1 1 5\r\nhello\r\n", "malformed"},
		"two blanks":           {false, "MSG a  1 5\r\nhello\r\n", "malformed"},
		"few words":            {false, "MSG a 5\r\nhello\r\n", "malformed"},
		"many words":           {false, "MSG a 1 r r 5\r\nhello\r\n", "malformed"},
		"sign":                 {false, "MSG a 1 +5\r\nhello\r\n", "expected digits"},
		"huge":                 {false, "MSG a 1 8388609\r\n", "are the most"},
		"overflow":             {false, "MSG a 1 18446744073709551617\r\n", "are the most"},
		"header over all":      {false, "HMSG a 1 6 5\r\nhello\r\n", "malformed"},
		"message too long":     {false, "MSG a 1 5\r\nhelloMSG b 2 9\r\n", "longer than it announced"},
		"web socket":           {true, switching + frame(0x82, "MSG a 1 5\r\nhel") + frame(0x89, "ping") + frame(0x82, "lo\r\n") + frame(0x88, "bye"), ""},
		"large frame":          {true, switching + frame(0x82, "MSG a 1 70000\r\n"+long+"\r\n"), ""},
		"fragments":            {true, switching + frame(0x02, "PI") + frame(0x80, "NG\r\n"), ""},
		"unknown in a frame":   {true, switching + frame(0x82, "FOO\r\n"), "no line of NATS"},
		"huge across frames":   {true, switching + frame(0x02, "MSG a 1 99") + frame(0x80, "999999\r\n"), "are the most"},
		"masked":               {true, switching + "\x82\x85", "masked"},
		"compressed":           {true, switching + "\xc2\x05", "masked"},
		"long control frame":   {true, switching + frame(0x89, long[:200]), "malformed WebSocket"},
		"unknown frame":        {true, switching + frame(0x83, ""), "malformed WebSocket"},
		"endless head":         {true, "HTTP/1.1 200 OK\r\n" + long, "head of more"},
		"refused, not NATS":    {true, "HTTP/1.1 403 Forbidden\r\n\r\n" + frame(0x81, "PING\r\n"), ""},
		"errors":               {false, strings.Repeat("-ERR 'x'\r\n", maxErrorLines), ""},
		"many errors":          {false, strings.Repeat("-ERR 'x'\r\n", maxErrorLines+1), "more than 64 errors"},
		"no line end anywhere": {false, long, "line of more"},
	} {
		for _, step := range []int{1, 7, len(c.text)} {
			if _, err := checkInSteps(c.webSocket, []byte(c.text), step); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %d bytes at a time: %v, want %q", name, step, err, c.want)
			}
		}
	}
}

// checkInSteps has a guard check b so many bytes at a time, and returns what it lets through.
func checkInSteps(webSocket bool, b []byte, step int) ([]byte, error) {
	g := newGuard(webSocket)
	through := bytes.Clone(b)
	for left := through; len(left) > 0; {
		n := min(step, len(left))
		if err := g.check(left[:n]); err != nil {
			return nil, err
		}
		left = left[n:]
	}
	return through, nil
}

// A header that is too long is spoilt, and nothing else is.
func TestLongHeader(t *testing.T) {
	header := "NATS/1.0\r\n" + strings.Repeat("x", maxHeader) + ":\r\n\r\n"
	long := fmt.Sprintf("HMSG a 1 %d %d\r\n%shello\r\n", len(header), len(header)+5, header)
	rest := "HMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nMSG a 1 5\r\nhello\r\n"
	spoilt := strings.Replace(long, "NATS/1.0", "\x00ATS/1.0", 1)
	for _, c := range []struct {
		webSocket  bool
		text, want string
	}{
		{false, long + rest, spoilt + rest},
		{true, switching + frame(0x82, long+rest), switching + frame(0x82, spoilt+rest)},
		{true, switching + frame(0x02, long[:30]) + frame(0x80, long[30:]+rest), switching + frame(0x02, spoilt[:30]) + frame(0x80, spoilt[30:]+rest)},
	} {
		for _, step := range []int{1, 7, len(c.text)} {
			if got, err := checkInSteps(c.webSocket, []byte(c.text), step); err != nil || string(got) != c.want {
				t.Errorf("%d bytes at a time: %v, %.80q", step, err, got)
			}
		}
	}
	if _, err := nats.DecodeHeadersMsg([]byte(spoilt[strings.IndexByte(spoilt, '\n')+1:])); !errors.Is(err, nats.ErrBadHeaderMsg) {
		t.Errorf("nats.go reads a spoilt header: %v", err)
	}
}

// What the guard says does not depend on how the bytes come, and it keeps little of them.
func FuzzGuard(f *testing.F) {
	f.Add(false, []byte(plainInfo+"MSG a 1 5\r\nhello\r\nHMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n"))
	f.Add(true, []byte(switching+frame(0x82, "MSG a 1 5\r\nhel")+frame(0x89, "ping")+frame(0x82, "lo\r\n")))
	f.Add(true, []byte(switching+"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, webSocket bool, b []byte) {
		whole := newGuard(webSocket)
		through := bytes.Clone(b)
		err := whole.check(through)
		pieces, stepErr := checkInSteps(webSocket, b, 1)
		if (err == nil) != (stepErr == nil) || err == nil && !bytes.Equal(pieces, through) {
			t.Errorf("%q: whole %v, in pieces %v", b, err, stepErr)
		}
		if len(whole.line) > max(maxLine, len(b)) || whole.skip > maxMessage+2 {
			t.Errorf("%d bytes kept, %d to skip", len(whole.line), whole.skip)
		}
	})
}

func FuzzConnectAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\nINFO"))
	f.Add([]byte("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := readConnectAnswer(readerConn{Reader: bytes.NewReader(b)})
		if (conn == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", b, conn, err)
		}
	})
}

// The line of a message, which comes with each packet, costs no memory.
func TestGuardTakesNoMemory(t *testing.T) {
	for _, text := range []string{
		"MSG acp1.9f86 1 acp1.9f86.0123456789abcdef 3\r\nabc\r\n",
		"HMSG acp1.9f86.0123456789abcdef 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
	} {
		g, message := newGuard(false), []byte(text)
		if n := testing.AllocsPerRun(100, func() {
			if err := g.check(message); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}
