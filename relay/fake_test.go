package relay

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/pace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const plainInfo = `INFO {"server_id":"FAKE","server_name":"fake","version":"2.15.2","headers":true,"max_payload":1048576,"proto":1,"nonce":"abcdefghijk"}` + "\r\n"

// fakeNetwork has servers that do what a test says, at connections without sockets, so that
// time in a bubble passes by itself.
type fakeNetwork struct {
	serve func(*fakeConn) // each connection, until it returns

	mu     sync.Mutex
	dialed []string
	last   net.Conn
	server netip.AddrPort // of the servers, from the next connection on; zero: they have no address
	wg     sync.WaitGroup
}

// hangUp ends the last connection.
func (n *fakeNetwork) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last.Close()
}

func (n *fakeNetwork) dial(_ context.Context, _, address string) (net.Conn, error) {
	client, server := net.Pipe()
	n.mu.Lock()
	n.dialed, n.last = append(n.dialed, address), server
	at := n.server
	n.mu.Unlock()
	n.wg.Go(func() {
		defer server.Close()
		in := newInbox()
		n.wg.Go(func() { io.Copy(in, server); in.close() })
		n.serve(&fakeConn{Conn: server, r: bufio.NewReader(in), network: n})
	})
	if at.IsValid() {
		return addressedConn{client, net.TCPAddrFromAddrPort(at)}, nil
	}
	return client, nil
}

// addressedConn is a connection to a server that has an address.
type addressedConn struct {
	net.Conn
	server net.Addr
}

func (c addressedConn) RemoteAddr() net.Addr { return c.server }

func (n *fakeNetwork) countDials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.dialed)
}

// inbox keeps what the client wrote, so that its writes never wait: it would hold a lock
// meanwhile, and in a bubble time stands while a goroutine waits for a lock.
type inbox struct {
	mu     sync.Mutex
	more   *sync.Cond
	data   []byte
	closed bool
}

func newInbox() *inbox {
	b := new(inbox)
	b.more = sync.NewCond(&b.mu)
	return b
}

func (b *inbox) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	b.more.Signal()
	return len(p), nil
}

func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 {
		if b.closed {
			return 0, io.EOF
		}
		b.more.Wait()
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.more.Broadcast()
}

// fakeConn is the server's end of a connection.
type fakeConn struct {
	net.Conn
	r       *bufio.Reader
	network *fakeNetwork
	connect string // the client's CONNECT
	mu      sync.Mutex

	unsubscribed func(sid string) // by follow; nil: nobody is told
}

func (c *fakeConn) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.Conn, format, args...)
}

// message hands the client a message to one of its subscriptions.
func (c *fakeConn) message(subject, sid, payload string) {
	c.say("MSG %s %s %d\r\n%s\r\n", subject, sid, len(payload), payload)
}

// nobody hands the client a 503, as the server makes one.
func (c *fakeConn) nobody(subject, sid string) {
	const header = "NATS/1.0 503\r\n\r\n"
	c.say("HMSG %s %s %d %d\r\n%s\r\n", subject, sid, len(header), len(header), header)
}

// accept introduces the server and answers the client's CONNECT and PING.
func (c *fakeConn) accept(info string) error {
	c.say("%s", info)
	line, err := c.readLine()
	if err != nil {
		return err
	}
	c.connect = line
	if line, err = c.readLine(); err != nil || line != "PING" {
		return fmt.Errorf("expected PING: %q, %v", line, err)
	}
	c.say("PONG\r\n")
	return nil
}

func (c *fakeConn) readLine() (string, error) {
	line, err := c.r.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

// publication is what a client published.
type publication struct{ subject, reply, payload string }

// follow answers pings until the client leaves, and hands on what it publishes and to what it
// subscribes. Either may be nil.
func (c *fakeConn) follow(published func(publication), subscribed func(subject, sid string)) {
	for {
		line, err := c.readLine()
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch {
		case line == "PING":
			c.say("PONG\r\n")
		case len(words) >= 3 && words[0] == "SUB":
			if subscribed != nil {
				subscribed(words[1], words[len(words)-1])
			}
		case len(words) >= 2 && words[0] == "UNSUB":
			if c.unsubscribed != nil {
				c.unsubscribed(words[1])
			}
		case len(words) >= 3 && words[0] == "PUB":
			size, _ := strconv.Atoi(words[len(words)-1])
			payload := make([]byte, size+2)
			if _, err := io.ReadFull(c.r, payload); err != nil {
				return
			}
			p := publication{subject: words[1], payload: string(payload[:size])}
			if len(words) == 4 {
				p.reply = words[2]
			}
			if published != nil {
				published(p)
			}
		}
	}
}

// testObserver keeps what a link tells.
type testObserver struct {
	mu          sync.Mutex
	nobody      []string
	interrupted []time.Time
}

func (o *testObserver) NobodyAt(a net.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nobody = append(o.nobody, a.String())
}

func (o *testObserver) Interrupted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.interrupted = append(o.interrupted, time.Now())
}

func (o *testObserver) told() (nobody []string, interrupted []time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nobody, o.interrupted
}

var (
	self     = identity.ID{0xaa, 1}
	trusted1 = identity.ID{0xbb, 1}
	trusted2 = identity.ID{0xbb, 2}
	invited1 = identity.ID{0xcc, 1}
	stranger = identity.ID{0xdd, 1}
)

// admit says of ids what their first byte says.
func admit(id identity.ID) Admission {
	switch id[0] {
	case 0xbb:
		return Trusted
	case 0xcc:
		return Invited
	}
	return Refused
}

func testConfig() Config {
	return Config{Name: "vps", URL: "nats://127.0.0.1", Self: self, Key: [32]byte{7}, Admit: admit}
}

func mustOpen(t *testing.T, c Config) *Link {
	t.Helper()
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// withLink runs a link in a bubble against servers that serve describes, and then test.
// The clock is virtual: a sleep ends when all else waits, so what is due by then has happened.
func withLink(t *testing.T, c Config, serve func(*fakeConn), test func(*testing.T, *Link, *fakeNetwork, *testObserver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, c)
		network := &fakeNetwork{serve: serve}
		l.dialTCP = network.dial
		observer := new(testObserver)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := l.Run(ctx, observer); err != nil {
				t.Errorf("run: %v", err)
			}
		})
		test(t, l, network, observer)
		cancel()
		wg.Wait()
		network.wg.Wait()
		if s := l.State(); s.Standing != Closed {
			t.Errorf("standing %s after Run", s.Standing)
		}
		if _, err := l.WriteTo([]byte("x"), l.Addr(trusted1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after the end: %v", err)
		}
	})
}

// readAll returns what waits.
func readAll(t *testing.T, l *Link) (packets []string) {
	t.Helper()
	return readFor(t, l, time.Millisecond)
}

// readFor has packets read for so long, and returns them.
func readFor(t *testing.T, l *Link, d time.Duration) (packets []string) {
	t.Helper()
	p := make([]byte, MTU)
	l.SetReadDeadline(time.Now().Add(d))
	for {
		n, from, err := l.ReadFrom(p)
		if err != nil {
			return packets
		}
		packets = append(packets, describePacket(l, from, p[:n]))
	}
}

// describePacket returns a packet behind the begin of the id that its sender claims.
func describePacket(l *Link, from net.Addr, packet []byte) string {
	sender := l.Sender(from)
	return hex.EncodeToString(sender[:2]) + " " + string(packet)
}

// newFakeConn returns the server's end of a connection outside of a bubble.
func newFakeConn(c net.Conn) *fakeConn { return &fakeConn{Conn: c, r: bufio.NewReader(c)} }

// liveLink is a link that runs outside of a bubble.
type liveLink struct {
	*Link
	changed pace.Signal
	stop    func() // ends Run and waits for it
}

// runLink runs a link until the test ends.
func runLink(t *testing.T, l *Link, o Observer) *liveLink {
	t.Helper()
	live := &liveLink{Link: l, changed: pace.NewSignal()}
	l.config.Changed = live.changed.Set
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx, o) })
	live.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(live.stop)
	return live
}

// await waits until the link's state is as wanted.
func (l *liveLink) await(t *testing.T, want func(State) bool) State {
	t.Helper()
	deadline := time.After(await.Patience)
	for {
		s := l.State()
		if want(s) {
			return s
		}
		select {
		case <-l.changed:
		case <-deadline:
			t.Fatalf("the state is still %+v", s)
		}
	}
}
