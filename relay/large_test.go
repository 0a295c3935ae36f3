package relay

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Messages that are longer than packets, which any member of the account can send if the server lets it, cost
// this daemon no memory, and are counted. Packets come on.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestLargeMessagesTakeNoMemory(t *testing.T) {
	const size, count = 1 << 20, 64
	header := "NATS/1.0\r\n" + strings.Repeat("x:y\r\n", size/8) + "\r\n"
	taken := make(chan uint64, 1)
	withLink(t, testConfig(), func(c *fakeConn) {
		if c.accept(plainInfo) != nil {
			return
		}
		c.follow(nil, func(subject, sid string) {
			if strings.HasSuffix(subject, ".*") {
				return
			}
			c.network.wg.Go(func() {
				messages := fmt.Appendf(nil, "MSG %s %s %d\r\n%s\r\nHMSG %s %s %d %d\r\n%s%s\r\n", subject, sid, size, strings.Repeat("\n", size),
					subject, sid, len(header), size, header, strings.Repeat("x", size-len(header)))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range count / 2 {
					c.Write(messages)
				}
				c.message(subject, sid, string(trusted1[:])+"packet")
				runtime.ReadMemStats(&after)
				taken <- after.TotalAlloc - before.TotalAlloc
			})
		})
	}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		if got := readAll(t, l); len(got) != 1 || !strings.HasSuffix(got[0], " packet") {
			t.Errorf("%q came", got)
		}
		if bytes := <-taken; bytes > size {
			t.Errorf("%d bytes of memory were taken for %d messages of %d", bytes, count, size)
		}
		if s := l.State(); s.DroppedIn != count || s.LastError != nil || s.Reconnects > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A server of a WebSocket puts all that waits into one frame, however small its max_payload is. All of it comes.
func TestLargeFrames(t *testing.T) {
	for _, maxPayload := range []int{8192, 2048} {
		testLargeFrame(t, maxPayload)
	}
}

func testLargeFrame(t *testing.T, maxPayload int) {
	t.Helper()
	const packets = 200
	c := testConfig()
	c.URL = "ws://127.0.0.1"
	withLink(t, c, func(c *fakeConn) {
		if err := c.acceptWebSocket(); err != nil {
			t.Error(err)
			return
		}
		if c.accept(strings.Replace(plainInfo, "1048576", strconv.Itoa(maxPayload), 1)) != nil {
			return
		}
		c.follow(nil, func(subject, sid string) {
			if strings.HasSuffix(subject, ".*") {
				return
			}
			var all bytes.Buffer
			for range packets {
				fmt.Fprintf(&all, "MSG %s %s %d\r\n%s%s\r\n", subject, sid, headerLen+MTU, trusted1[:], bytes.Repeat([]byte("x"), MTU))
			}
			c.say("%s", all.String())
		})
	}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		if got := readAll(t, l); len(got) != packets {
			t.Errorf("with max_payload %d, %d packets came of %d", maxPayload, len(got), packets)
		}
		if s := l.State(); s.LastError != nil || s.Reconnects > 0 {
			t.Errorf("with max_payload %d: %+v", maxPayload, s)
		}
	})
}

// However the head of a WebSocket ends for nats.go, what follows is read as frames: a message that no memory
// holds ends the connection, not the process.
func TestHugeMessageBehindTheHead(t *testing.T) {
	for _, end := range []string{"\r\n\r\n", "\n\r\n", "\r\n\n", "\n\n"} {
		c := testConfig()
		c.URL = "ws://127.0.0.1"
		withLink(t, c, func(c *fakeConn) {
			request, err := http.ReadRequest(c.r)
			if err != nil {
				t.Error(err)
				return
			}
			c.switchToWebSocket(request, end)
			if c.accept(plainInfo) == nil {
				c.follow(nil, func(subject, sid string) {
					if !strings.HasSuffix(subject, ".*") {
						c.say("MSG %s %s 99999999999999999\r\nx", subject, sid)
					}
				})
			}
		}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
			time.Sleep(time.Second)
			if s := l.State(); s.LastError == nil { // the guard's, or of what goes on when the connection ends
				t.Errorf("%q: %+v", end, s)
			}
		})
	}
}

// acceptWebSocket answers the client's request for a WebSocket (RFC 6455, section 4.2.2). From then on the
// connection takes the client's frames apart, and puts what is said into one.
func (c *fakeConn) acceptWebSocket() error {
	request, err := http.ReadRequest(c.r)
	if err != nil {
		return err
	}
	c.switchToWebSocket(request, "\r\n\r\n")
	return nil
}

// switchToWebSocket answers a request for a WebSocket with a head that ends like that.
func (c *fakeConn) switchToWebSocket(request *http.Request, end string) {
	accept := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s%s", base64.StdEncoding.EncodeToString(accept[:]), end)
	c.Conn = framedConn{c.Conn}
	c.r = bufio.NewReader(&unmaskedReader{r: c.r})
}

// framedConn writes frames.
type framedConn struct{ net.Conn }

func (c framedConn) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.Conn, frame(0x82, string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unmaskedReader reads the payloads of a client's frames.
type unmaskedReader struct {
	r       *bufio.Reader
	payload []byte
}

func (u *unmaskedReader) Read(p []byte) (int, error) {
	for len(u.payload) == 0 {
		var head [8]byte
		if _, err := io.ReadFull(u.r, head[:2]); err != nil {
			return 0, err
		}
		size := uint64(head[1] & 0x7f)
		if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
			clear(head[:])
			if _, err := io.ReadFull(u.r, head[8-more:]); err != nil {
				return 0, err
			}
			size = binary.BigEndian.Uint64(head[:])
		}
		var key [4]byte
		if _, err := io.ReadFull(u.r, key[:]); err != nil {
			return 0, err
		}
		u.payload = make([]byte, size)
		if _, err := io.ReadFull(u.r, u.payload); err != nil {
			return 0, err
		}
		for i := range u.payload {
			u.payload[i] ^= key[i%4]
		}
	}
	n := copy(p, u.payload)
	u.payload = u.payload[n:]
	return n, nil
}
