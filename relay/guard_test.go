package relay

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
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

// holds: security.md#against-a-relay-and-those-who-share-it
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
		"long header":          {false, "HMSG a 1 69999 70000\r\n" + long + "\r\nPING\r\n", ""},
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
		"sign":                 {false, "MSG a 1 +5\r\nhello\r\n", "is no number"},
		"huge":                 {false, "MSG a 1 1073741824\r\n", "length is no number"},
		"overflow":             {false, "MSG a 1 18446744073709551617\r\n", "length is no number"},
		"header over all":      {false, "HMSG a 1 6 5\r\nhello\r\n", "malformed"},
		"message too long":     {false, "MSG a 1 5\r\nhelloMSG b 2 9\r\n", "longer than it announced"},
		"large one too long":   {false, "MSG a 1 69999\r\n" + long + "\r\n", "longer than it announced"},
		"web socket":           {true, switching + frame(0x82, "MSG a 1 5\r\nhel") + frame(0x89, "ping") + frame(0x82, "lo\r\n") + frame(0x88, "bye"), ""},
		"large frame":          {true, switching + frame(0x82, "MSG a 1 70000\r\n"+long+"\r\n"), ""},
		"fragments":            {true, switching + frame(0x02, "PI") + frame(0x80, "NG\r\n"), ""},
		"unknown in a frame":   {true, switching + frame(0x82, "FOO\r\n"), "no line of NATS"},
		"huge across frames":   {true, switching + frame(0x02, "MSG a 1 9999") + frame(0x80, "999999\r\n"), "length is no number"},
		"masked":               {true, switching + "\x82\x85", "masked"},
		"compressed":           {true, switching + "\xc2\x05", "masked"},
		"long control frame":   {true, switching + frame(0x89, long[:200]), "malformed WebSocket"},
		"unknown frame":        {true, switching + frame(0x83, ""), "malformed WebSocket"},
		"head with a lone \\n": {true, strings.Replace(switching, "\r\n\r\n", "\n\r\n", 1) + frame(0x82, "MSG a 1 99999999999999999\r\nx"), "length is no number"},
		"head of lone \\n":     {true, strings.ReplaceAll(switching, "\r\n", "\n") + frame(0x82, "MSG a 1 99999999999999999\r\nx"), "length is no number"},
		"endless head":         {true, switching[:len(switching)-2] + long, "head of more"},
		"NATS in clear":        {true, plainInfo, "begins with INFO"},
		"errors":               {false, strings.Repeat("-ERR 'x'\r\n", maxErrorLines), ""},
		"many errors":          {false, strings.Repeat("-ERR 'x'\r\n", maxErrorLines+1), "more than 1024 errors"},
		"no line end anywhere": {false, long, "line of more"},
	} {
		for _, step := range []int{1, 7, len(c.text)} {
			if _, _, err := filterInSteps(c.webSocket, []byte(c.text), step); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %d bytes at a time: %v, want %q", name, step, err, c.want)
			}
		}
	}
}

// An answer with another status than 101 is told as such, wherever it is split: what stands behind its head
// is not taken for frames.
func TestAnswerThatIsNoWebSocket(t *testing.T) {
	l := mustOpen(t, testConfig())
	for _, answer := range []string{
		"HTTP/1.0 501 Unsupported method\r\nContent-Type: text/html\r\n\r\n<!DOCTYPE HTML>\n<html>\xff\xff</html>\n",
		"HTTP/1.1 403 Forbidden\r\n\r\n" + frame(0x81, "PING\r\n"),
		"HTTP/1.1 1\n\n\x82\x85",
		"400\r\n\r\nno",
	} {
		for i := range len(answer) {
			g := newGuard(true, new(atomic.Uint64))
			_, err := g.filter(nil, []byte(answer[:i]))
			if err == nil {
				_, err = g.filter(nil, []byte(answer[i:]))
			}
			const want = "no WebSocket of a NATS server answers there, and a redirect is not followed: check host and port"
			if err == nil || !strings.HasSuffix(l.describeError(err).Error(), want) {
				t.Errorf("%q, split at %d: %v", answer, i, err)
			}
		}
	}
}

// filterInSteps hands b to a guard so many bytes at a time. It returns what the guard lets through, and
// how many messages it drops.
func filterInSteps(webSocket bool, b []byte, step int) (through []byte, dropped uint64, err error) {
	var count atomic.Uint64
	g := newGuard(webSocket, &count)
	for len(b) > 0 {
		n := min(step, len(b))
		if through, err = g.filter(through, b[:n]); err != nil {
			return nil, 0, err
		}
		b = b[n:]
	}
	return through, count.Load(), nil
}

// cutHead returns what comes behind an HTTP answer's head for nats.go. It returns false if that is none yet, or
// no HTTP: then nats.go reads no frames.
func cutHead(b []byte) (frames []byte, ok bool) {
	unread := bytes.NewReader(b)
	r := bufio.NewReader(unread)
	if _, err := http.ReadResponse(r, nil); err != nil {
		return nil, false
	}
	return b[len(b)-unread.Len()-r.Buffered():], true
}

// unframe returns the payloads of data frames in what a guard has let through of a WebSocket, and the length of
// the longest: none if nats.go reads no frames.
func unframe(t *testing.T, b []byte) (payloads []byte, longest int) {
	t.Helper()
	b, ok := cutHead(b)
	for ok && len(b) > 0 {
		if b[0]&0x0f >= 8 { // a control frame
			b = b[min(2+int(b[1]), len(b)):]
			continue
		}
		if len(b) < 10 || b[0] != 0x82 || b[1] != 127 {
			t.Fatalf("no frame as guards make them: %.20x", b)
		}
		n := int(binary.BigEndian.Uint64(b[2:]))
		payloads, b, longest = append(payloads, b[10:10+n]...), b[10+n:], max(longest, n)
	}
	return payloads, longest
}

// A message that is longer than anybody reads is dropped, or whose header is, and nothing else is.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestLongMessages(t *testing.T) {
	header := "NATS/1.0\r\n" + strings.Repeat("x", maxHeader) + ":\r\n\r\n"
	longHeader := fmt.Sprintf("HMSG a 1 %d %d\r\n%shello\r\n", len(header), len(header)+5, header)
	long := fmt.Sprintf("MSG a 1 r %d\r\n%s\r\n", maxRead+1, strings.Repeat("\n", maxRead+1))
	longest := fmt.Sprintf("MSG a 1 r %d\r\n%s\r\n", maxRead, strings.Repeat("\n", maxRead))
	rest := "HMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nMSG a 1 5\r\nhello\r\n"
	all, want := "PING\r\n"+longHeader+longest+long+long+rest+longHeader, "PING\r\n"+longest+rest
	half := len(all) / 2
	for _, text := range []string{all, switching + frame(0x82, all), switching + frame(0x02, all[:half]) + frame(0x89, "ping") + frame(0x80, all[half:])} {
		for _, step := range []int{1, 7, len(text)} {
			webSocket := len(text) > len(all)
			got, dropped, err := filterInSteps(webSocket, []byte(text), step)
			if webSocket {
				if bytes.Contains([]byte(text), []byte("\x89")) != bytes.Contains(got, []byte("\x89\x04ping")) {
					t.Error("no control frame comes through")
				}
				got, _ = unframe(t, got)
			}
			if err != nil || string(got) != want || dropped != 4 {
				t.Errorf("%d bytes at a time: %v, %d dropped, %.80q", step, err, dropped, got)
			}
		}
	}
}

// What the guard says does not depend on how the bytes come, it keeps little of them, and lets through what it
// lets through a second time.
// holds: security.md#against-a-relay-and-those-who-share-it
func FuzzGuard(f *testing.F) {
	f.Add(false, []byte(plainInfo+"MSG a 1 5\r\nhello\r\nHMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n"))
	f.Add(false, []byte("MSG a 1 5121\r\n"+strings.Repeat("x", 5121)+"\r\nPING\r\n"))
	f.Add(true, []byte(switching+frame(0x82, "MSG a 1 5\r\nhel")+frame(0x89, "ping")+frame(0x82, "lo\r\n")))
	f.Add(true, []byte("HTTP/1.1 101 x\r\na: b\n\r\n"+frame(0x82, "PING\r\n")))
	f.Add(true, []byte(switching+"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, webSocket bool, b []byte) {
		var dropped atomic.Uint64
		whole := newGuard(webSocket, &dropped)
		through, err := whole.filter(nil, b)
		pieces, stepDropped, stepErr := filterInSteps(webSocket, b, 1)
		if (err == nil) != (stepErr == nil) {
			t.Fatalf("%q: whole %v, in pieces %v", b, err, stepErr)
		}
		if len(whole.line) > max(maxLine, len(b)) || whole.skip > 1<<30+2 {
			t.Errorf("%d bytes kept, %d to skip", len(whole.line), whole.skip)
		}
		if err != nil {
			return
		}
		if webSocket && whole.frames.head >= 0 {
			if _, ok := cutHead(b); ok {
				t.Errorf("%q: nats.go reads frames where the guard takes all for the head", b)
			}
			return
		}
		if webSocket {
			through, _ = unframe(t, through)
			pieces, _ = unframe(t, pieces)
		}
		if !bytes.Equal(pieces, through) || stepDropped != dropped.Load() {
			t.Errorf("%q: whole %q, in pieces %q", b, through, pieces)
		}
		again, stillDropped, err := filterInSteps(false, through, len(through)+1)
		if err != nil || stillDropped > 0 || !bytes.Equal(again, through) {
			t.Errorf("%q: %q comes through, and of that %q, %v", b, through, again, err)
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

// What comes with each packet costs no memory, nor what is dropped.
func TestGuardTakesNoMemory(t *testing.T) {
	for _, text := range []string{
		"MSG acp1.9f86 1 acp1.9f86.0123456789abcdef 3\r\nabc\r\n",
		"HMSG acp1.9f86.0123456789abcdef 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
		"MSG acp1.9f86 1 6000\r\n" + strings.Repeat("x", 6000) + "\r\n",
	} {
		for _, webSocket := range []bool{false, true} {
			g, message := newGuard(webSocket, new(atomic.Uint64)), []byte(text)
			if webSocket {
				message = []byte(frame(0x82, text))
				g.filter(nil, []byte(switching))
			}
			var out []byte
			if n := testing.AllocsPerRun(100, func() {
				var err error
				if out, err = g.filter(out[:0], message); err != nil {
					t.Fatal(err)
				}
			}); n > 0 {
				t.Errorf("%q, WebSocket %t: %v allocations", text, webSocket, n)
			}
		}
	}
}
