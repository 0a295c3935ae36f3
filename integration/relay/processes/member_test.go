package processes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// member is a client of the relay's server that follows no rule of this project: it has an account there,
// and speaks the protocol of NATS by itself.
type member struct {
	t    *testing.T
	conn net.Conn
	out  *bufio.Writer

	maxPayload int           // of the server, in bytes
	ended      chan struct{} // closed when the server has ended the connection

	mu      sync.Mutex
	heard   []heardMessage // at most maxHeard
	refusal string         // the server's last -ERR
}

const maxHeard = 4096

type heardMessage struct{ subject, reply, payload string }

// newMember connects one, which ends with the test.
func newMember(t *testing.T, s *server, roots *x509.CertPool, token string) *member {
	t.Helper()
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, ended: make(chan struct{})}
	r := bufio.NewReader(raw)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		MaxPayload int `json:"max_payload"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	m.maxPayload = info.MaxPayload
	m.conn = tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	m.out = bufio.NewWriterSize(m.conn, 64<<10)
	fmt.Fprintf(m.out, `CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"echo":false,"auth_token":%q}`+"\r\nPING\r\n", token)
	if err := m.out.Flush(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(m.conn)
	if line, err := in.ReadString('\n'); err != nil || line != "PONG\r\n" {
		t.Fatalf("the server says %q, %v", line, err)
	}
	go func() { defer close(m.ended); m.listen(in) }()
	t.Cleanup(func() { m.conn.Close(); <-m.ended })
	return m
}

// listen keeps what comes, until the connection ends.
func (m *member) listen(in *bufio.Reader) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if text, ok := strings.CutPrefix(line, "-ERR "); ok {
			m.mu.Lock()
			m.refusal = text
			m.mu.Unlock()
		}
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "MSG" && words[0] != "HMSG" {
			continue
		}
		size, _ := strconv.Atoi(words[len(words)-1])
		payload := make([]byte, size+2)
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		h := heardMessage{subject: words[1], payload: string(payload[:size])}
		if len(words) == 5 && words[0] == "MSG" {
			h.reply = words[3]
		}
		m.mu.Lock()
		if len(m.heard) < maxHeard {
			m.heard = append(m.heard, h)
		}
		m.mu.Unlock()
	}
}

// listenTo subscribes to a subject.
func (m *member) listenTo(subject string) {
	fmt.Fprintf(m.out, "SUB %s 1\r\n", subject)
	if err := m.out.Flush(); err != nil {
		m.t.Error(err)
	}
}

// findHeard returns what came to a subject.
func (m *member) findHeard(subject string) (all []heardMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.heard {
		if h.subject == subject {
			all = append(all, h)
		}
	}
	return all
}

// findRefusal returns the server's last error.
func (m *member) findRefusal() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusal
}

// publish queues a message; a header comes as it is, whatever it says.
func (m *member) publish(subject, reply, header string, payload []byte) {
	if reply != "" {
		reply = " " + reply
	}
	if header == "" {
		fmt.Fprintf(m.out, "PUB %s%s %d\r\n", subject, reply, len(payload))
	} else {
		fmt.Fprintf(m.out, "HPUB %s%s %d %d\r\n%s", subject, reply, len(header), len(header)+len(payload), header)
	}
	m.out.Write(payload)
	m.out.WriteString("\r\n")
}

// flood calls send for each message until ctx ends, so many a second, and returns how many.
func (m *member) flood(ctx context.Context, perSecond int, send func(i int)) (sent int) {
	const batches = 100 // a second
	tick := time.NewTicker(time.Second / batches)
	defer tick.Stop()
	for {
		for range perSecond / batches {
			send(sent)
			sent++
		}
		if err := m.out.Flush(); err != nil {
			m.t.Errorf("the server has ended the member's connection after %d messages: %v", sent, err)
			return sent
		}
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
	}
}

// claim makes a payload of a packet and the id that its sender claims.
func claim(id identity.ID, packet []byte) []byte { return slices.Concat(id[:], packet) }

// captured is a packet connection that keeps what is written, and hears nothing.
type captured struct {
	mu      sync.Mutex
	packets [][]byte
	closed  chan struct{}
	once    sync.Once
}

func (c *captured) ReadFrom([]byte) (int, net.Addr, error) { <-c.closed; return 0, nil, net.ErrClosed }
func (c *captured) WriteTo(p []byte, _ net.Addr) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packets = append(c.packets, bytes.Clone(p))
	return len(p), nil
}
func (c *captured) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *captured) LocalAddr() net.Addr              { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c *captured) SetDeadline(time.Time) error      { return nil }
func (c *captured) SetReadDeadline(time.Time) error  { return nil }
func (c *captured) SetWriteDeadline(time.Time) error { return nil }
func (c *captured) SetReadBuffer(int) error          { return nil }
func (c *captured) SetWriteBuffer(int) error         { return nil }
func (c *captured) count() int                       { return len(c.list()) }

func (c *captured) list() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.packets)
}

// newInitials returns the first packets of so many handshakes with a daemon, which never go on.
func newInitials(t *testing.T, key *identity.Key, to identity.ID, handshakes int) [][]byte {
	t.Helper()
	config, err := key.ClientTLS(to, false, identity.ALPN)
	if err != nil {
		t.Fatal(err)
	}
	sink := &captured{closed: make(chan struct{})}
	transport := &quic.Transport{Conn: sink}
	ctx, cancel := context.WithCancel(t.Context())
	var dials sync.WaitGroup
	for range handshakes {
		before := sink.count()
		dials.Go(func() {
			transport.Dial(ctx, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2}, config, &quic.Config{InitialPacketSize: 1200})
		})
		for end := time.Now().Add(await.Patience); sink.count() == before; time.Sleep(50 * time.Microsecond) { // between looks
			if time.Now().After(end) {
				t.Fatalf("no first packet of a handshake within %s", await.Patience)
			}
		}
	}
	initials := sink.list()
	cancel()
	dials.Wait()
	sink.Close() // first, as the transport waits for its reader
	transport.Close()
	return initials
}
