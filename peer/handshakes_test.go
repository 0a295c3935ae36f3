package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// deaf is a socket that, once it is deaf, hears nothing.
type deaf struct {
	net.PacketConn
	now atomic.Bool
}

func (d *deaf) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := d.PacketConn.ReadFrom(p)
		if err != nil || !d.now.Load() {
			return n, from, err
		}
	}
}

// oneToken gives the last token again and again.
type oneToken struct {
	mu    sync.Mutex
	token *quic.ClientToken
}

func (o *oneToken) Pop(string) *quic.ClientToken {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.token
}

func (o *oneToken) Put(_ string, t *quic.ClientToken) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.token = t
}

// TestHandshakesOfAProvenSource has a host that has proved its address begin many
// handshakes, with the same token, and continue none: few of them count, it is
// refused from then on, and another host, that of a known peer, notices nothing.
// holds: security.md#against-strangers
func TestHandshakesOfAProvenSource(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, other := w.side(nil), w.side(nil)
		other.trusts(b, "reviewer")
		b.trusts(other, "planner")
		socket := &deaf{PacketConn: w.conn(w.addr())}
		h := newHost(t, socket)
		w.start()
		b.serve()
		other.serve()
		other.ask(b, "before")

		key := newKey(t)
		conf, err := key.ClientTLS(b.ID(), false, identity.ALPN)
		if err != nil {
			t.Fatal(err)
		}
		tokens := new(oneToken)
		begin := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			qc, err := h.tr.Dial(ctx, b.Addr(), conf, &quic.Config{TokenStore: tokens})
			if err == nil {
				<-qc.Context().Done()
			}
			return err
		}
		if err := begin(time.Second); err != nil || tokens.Pop("") == nil {
			t.Fatalf("no token: %v", err)
		}
		time.Sleep(10 * time.Second)

		socket.now.Store(true)
		var flood sync.WaitGroup
		for range 10 * maxHalfOpen {
			flood.Go(func() { begin(100 * time.Millisecond) })
			time.Sleep(time.Millisecond / 2)
		}
		if n := b.udp.gates.handshakes.open.Load(); n > 3*provedPerSourcePerSecond {
			t.Errorf("%d handshakes of one source are half open", n)
		}
		other.Disconnect(b.ID())
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		other.ask(b, "in the flood")
		if took := time.Since(start); took > 20*latency {
			t.Errorf("a known peer's new dial took %v", took)
		}
		flood.Wait()
		socket.now.Store(false)
		var refused atomic.Int32
		for range 3 * provedPerSourcePerSecond {
			flood.Go(func() {
				if te, ok := errors.AsType[*quic.TransportError](begin(time.Second)); ok && te.ErrorCode == quic.ConnectionRefused {
					refused.Add(1)
				}
			})
			time.Sleep(latency)
		}
		flood.Wait()
		if n := refused.Load(); n < provedPerSourcePerSecond {
			t.Errorf("%d of %d handshakes were refused", n, 3*provedPerSourcePerSecond)
		}
		time.Sleep(10 * time.Second)
		if n := b.udp.gates.handshakes.open.Load(); n != 0 {
			t.Errorf("%d handshakes still count", n)
		}
		if err := begin(time.Second); err != nil {
			t.Errorf("a moment later: %v", err)
		}
	})
}

// TestHalfOpenHandshakesOfManySources has many sources fill the room for half-open
// handshakes: a known peer still comes in, at the address where it proved its key.
// holds: security.md#against-strangers
func TestHalfOpenHandshakesOfManySources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var proved provedAddrs
		h := newHandshakeLimits(newHandshakeSource, proved.knownPeer)
		from := func(n int, proved bool) *quic.ClientInfo {
			return &quic.ClientInfo{RemoteAddr: &net.UDPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n)), Port: 7117}, AddrVerified: proved}
		}
		known := from(9999, true)
		proved.replace(identity.ID{1}, toAddrPort(nil), toAddrPort(known.RemoteAddr))
		var all []context.CancelFunc
		begun := func(i *quic.ClientInfo) bool {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := h.beginHandshake(ctx, i); err != nil {
				cancel()
				return false
			}
			all = append(all, cancel)
			return true
		}
		for n := range maxUnproved {
			if h.mustProveAddr(from(n, false).RemoteAddr) || !begun(from(n, false)) {
				t.Fatalf("the source %d was not let in", n)
			}
		}
		if !h.mustProveAddr(from(5000, false).RemoteAddr) {
			t.Error("addresses need not be proved though many handshakes are half open")
		}
		for n := range 10 * maxHalfOpen {
			begun(from(6000+n, true))
		}
		if n := h.open.Load(); n != maxHalfOpen {
			t.Errorf("%d half open, want %d", n, maxHalfOpen)
		}
		if begun(from(1, true)) || !begun(known) {
			t.Error("a known peer was not let in, or another was")
		}
		for range 10 * maxHalfOpen {
			begun(known)
		}
		if n := h.open.Load(); n > maxHalfOpen+provedPerSourcePerSecond+1 {
			t.Errorf("a known peer that floods: %d half open", n)
		}
		if proved.replace(identity.ID{1}, toAddrPort(known.RemoteAddr), toAddrPort(nil)); begun(known) {
			t.Error("an address is known though its peer is not trusted any more")
		}
		for _, end := range all {
			end()
		}
	})
}
