package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/ownwords"
)

// dialer connects to one endpoint, and to nothing else: the address that nats.go hands it is
// not looked at. It goes through the proxy, does TLS itself and bounds what the server
// sends. nats.go calls Dial once.
type dialer struct {
	ctx      context.Context
	endpoint endpoint
	proxy    Proxy
	roots    *x509.CertPool
	dialTCP  dialFunc
	dropped  *atomic.Uint64 // messages that are too long to be read

	mu     sync.Mutex
	raw    net.Conn // to the server or the proxy
	via    string   // host and port of the proxy
	err    error
	closed bool
}

// dialFunc opens a TCP connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (l *Link) newDialer(ctx context.Context) *dialer {
	return &dialer{ctx: ctx, endpoint: l.endpoint, proxy: l.config.Proxy, roots: l.config.Roots, dialTCP: l.dialTCP, dropped: &l.counts.droppedIn}
}

// SkipTLSHandshake tells nats.go that the connection is encrypted as far as it is to be.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial connects within [connectTime], after the proxy's command if there is one.
func (d *dialer) Dial(_, _ string) (net.Conn, error) {
	conn, err := d.connect()
	if err == nil {
		// nats.go reads the head of a WebSocket without a deadline of its own.
		err = conn.SetDeadline(time.Now().Add(connectTime))
	}
	if err != nil {
		d.mu.Lock()
		d.err = err
		d.mu.Unlock()
		d.close()
		return nil, err
	}
	return conn, nil
}

func (d *dialer) connect() (net.Conn, error) {
	proxy, err := d.proxy.find(d.ctx, d.endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(d.ctx, connectTime)
	defer cancel()
	address := d.endpoint.hostPort()
	if proxy != nil {
		address = proxy.address
	}
	raw, err := d.dialTCP(ctx, "tcp", address)
	if err != nil {
		if proxy != nil {
			err = ownwords.Errorf("proxy %s: %w", proxy.address, err)
		}
		return nil, err
	}
	if !d.keep(raw, proxy) {
		return nil, net.ErrClosed
	}
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn := raw
	if proxy != nil {
		if conn, err = proxy.connect(ctx, raw, d.endpoint.hostPort(), d.roots); err != nil {
			return nil, ownwords.Errorf("proxy %s: %w", proxy.address, err)
		}
	}
	return d.beginServer(ctx, conn)
}

// beginServer does TLS with the server if the endpoint has it. A NATS server says INFO first,
// in the clear: that line is read here and handed on.
func (d *dialer) beginServer(ctx context.Context, conn net.Conn) (net.Conn, error) {
	server := &serverConn{Conn: conn, guard: newGuard(d.endpoint.isWebSocket(), d.dropped)}
	if !d.endpoint.isEncrypted() {
		server.begins = !d.endpoint.isWebSocket()
		return server, nil
	}
	if !d.endpoint.isWebSocket() {
		info, rest, err := readInfo(conn)
		if err != nil {
			return nil, err
		}
		server.replay = info
		conn = &replayConn{Conn: conn, replay: rest}
	}
	encrypted := tls.Client(conn, &tls.Config{ServerName: d.endpoint.host, RootCAs: d.roots, MinVersion: tls.VersionTLS12})
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, explainTLS(err)
	}
	server.Conn = encrypted
	return server, nil
}

var (
	errSilent   = ownwords.New("the server said nothing")
	errWantsTLS = ownwords.New("the server takes only connections with TLS")
)

// wantsTLS reports whether a server whose words begin so takes no connection without TLS.
func wantsTLS(begin []byte) bool {
	info, _, _ := bytes.Cut(begin, []byte{'\n'})
	var said struct {
		Required bool `json:"tls_required"`
	}
	return json.Unmarshal(bytes.TrimPrefix(info, []byte("INFO ")), &said) == nil && said.Required
}

// readInfo returns the line with which a NATS server begins, and what came behind it.
func readInfo(conn net.Conn) (info, rest []byte, err error) {
	r := bufio.NewReaderSize(conn, maxLine)
	info, err = r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, nil, ownwords.Errorf("the server's first line has more than %d bytes", maxLine)
	case err != nil && len(info) == 0:
		return nil, nil, ownwords.Errorf("%w: %w", errSilent, err)
	case err != nil:
		return nil, nil, err
	case !bytes.HasPrefix(info, []byte("INFO ")):
		return nil, nil, errNoNATS
	}
	info = bytes.Clone(info)
	rest, _ = r.Peek(r.Buffered())
	return info, bytes.Clone(rest), nil
}

// keep records the connection, so that close can end it; false: close was called before.
func (d *dialer) keep(raw net.Conn, proxy *httpProxy) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		raw.Close()
		return false
	}
	d.raw = raw
	if proxy != nil {
		d.via = proxy.address
	}
	return true
}

// close ends the connection at once, whatever is under way on it.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.raw != nil {
		d.raw.Close()
	}
}

// failure returns why Dial failed; nil: it did not.
func (d *dialer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *dialer) proxyInUse() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.via
}

// remoteIP returns the address of the server; invalid behind a proxy.
func (d *dialer) remoteIP() netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.raw == nil || d.via != "" {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddrPort(d.raw.RemoteAddr().String())
	return a.Addr().Unmap()
}

// replayConn reads what was read too early first.
type replayConn struct {
	net.Conn
	replay []byte
}

func (c *replayConn) Read(p []byte) (int, error) {
	if len(c.replay) > 0 {
		n := copy(p, c.replay)
		c.replay = c.replay[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// serverConn is a connection of whose bytes nats.go reads what a guard lets through.
type serverConn struct {
	net.Conn
	replay []byte
	guard  guard
	begins bool // the INFO of a server without TLS has not come
	broken bool // a write has failed

	passed []byte // what the guard has let through
	read   int    // bytes of it that were read
	err    error  // of the connection, behind that
}

func (c *serverConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for c.read == len(c.passed) {
		if c.err != nil {
			return 0, c.err
		}
		var n int
		if len(c.replay) > 0 {
			n = copy(p, c.replay)
			c.replay = c.replay[n:]
		} else {
			n, c.err = c.Conn.Read(p)
		}
		if c.begins && c.err != nil && n == 0 && len(c.guard.line) == 0 {
			c.err = ownwords.Errorf("%w: %w", errSilent, c.err)
		}
		var bad error
		if c.passed, bad = c.guard.filter(c.passed[:0], p[:n]); bad != nil {
			c.passed, c.err = nil, bad
		} else if c.begins && len(c.passed) > 0 {
			if c.begins = false; wantsTLS(c.passed) {
				c.passed, c.err = nil, errWantsTLS
			}
		}
		c.read = 0
	}
	n := copy(p, c.passed[c.read:])
	c.read += n
	return n, nil
}

// Write says nothing of a connection that has ended: Read does, behind what the server said before it ended it.
// nats.go stops reading when a write fails, and writes to a server that has refused the login. It calls Write
// from one goroutine at a time.
func (c *serverConn) Write(p []byte) (int, error) {
	if c.broken {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if err == nil || isTimeout(err) {
		return n, err
	}
	c.broken = true
	return len(p), nil
}
