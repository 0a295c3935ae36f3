//go:build faults

package faults

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// initials makes the first packets of handshakes that never go on (RFC 9000 and
// RFC 9001, section 5.2), with the token by which their source was proved.
type initials struct {
	socket net.Conn
	hello  []byte
	scid   [8]byte
	token  atomic.Pointer[[]byte] // of the last Retry
	heard  atomic.Int64           // packets of the daemon
}

func newInitials(t *testing.T, addr string) *initials {
	t.Helper()
	socket, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	i := &initials{socket: socket}
	rand.Read(i.scid[:])
	q := tls.QUICClient(&tls.QUICConfig{TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{identity.ALPN},
		CurvePreferences: []tls.CurveID{tls.X25519}, // so that it fits a packet
	}})
	defer q.Close()
	q.SetTransportParameters(append([]byte{0x0f, byte(len(i.scid))}, i.scid[:]...)) // initial_source_connection_id
	if err := q.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for e := q.NextEvent(); e.Kind != tls.QUICNoEvent; e = q.NextEvent() {
		if e.Kind == tls.QUICWriteData && e.Level == tls.QUICEncryptionLevelInitial {
			i.hello = append(i.hello, e.Data...)
		}
	}
	return i
}

// packet makes one, for a connection id that was never used.
func (i *initials) packet(token []byte) []byte {
	var dcid [8]byte
	rand.Read(dcid[:])
	salt := []byte{0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a}
	expand := func(secret []byte, label string, n int) []byte {
		label = "tls13 " + label
		info := append([]byte{0, byte(n), byte(len(label))}, label...)
		b, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
		if err != nil {
			panic(err)
		}
		return b
	}
	initial, err := hkdf.Extract(sha256.New, dcid[:], salt)
	if err != nil {
		panic(err)
	}
	secret := expand(initial, "client in", 32)
	block, _ := aes.NewCipher(expand(secret, "quic key", 16))
	aead, _ := cipher.NewGCM(block)
	mask, _ := aes.NewCipher(expand(secret, "quic hp", 16))

	head := append([]byte{0xc3, 0, 0, 0, 1, byte(len(dcid))}, dcid[:]...)
	head = append(append(head, byte(len(i.scid))), i.scid[:]...)
	head = binary.BigEndian.AppendUint16(head, 0x4000|uint16(len(token)))
	head = append(head, token...)
	body := binary.BigEndian.AppendUint16([]byte{0x06, 0}, 0x4000|uint16(len(i.hello)))
	body = append(body, i.hello...)
	const numberSize, size = 4, 1200
	body = append(body, make([]byte, size-len(head)-2-numberSize-len(body)-aead.Overhead())...)
	head = binary.BigEndian.AppendUint16(head, 0x4000|uint16(numberSize+len(body)+aead.Overhead()))
	number := len(head)
	head = append(head, 0, 0, 0, 0)
	p := aead.Seal(head, expand(secret, "quic iv", 12), body, head)
	var m [16]byte
	mask.Encrypt(m[:], p[number+4:number+20])
	p[0] ^= m[0] & 0x0f
	for k := range numberSize {
		p[number+k] ^= m[1+k]
	}
	return p
}

// send sends so many a second until ctx ends, each tenth to be asked for a proof.
func (i *initials) send(ctx context.Context, perSecond int) (sent int) {
	go func() {
		b := make([]byte, 2048)
		for {
			n, err := i.socket.Read(b)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				continue
			}
			i.heard.Add(1)
			if p := b[:n]; n > 40 && p[0]&0xf0 == 0xf0 { // Retry: the token stands between the connection ids and 16 bytes
				at := 6 + int(p[5])
				at += 1 + int(p[at])
				token := slices.Clone(p[at : n-16])
				i.token.Store(&token)
			}
		}
	}()
	defer i.socket.Close()
	const batch = 10
	tick := time.NewTicker(time.Second * batch / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
		for k := range batch {
			var token []byte
			if got := i.token.Load(); k > 0 && got != nil {
				token = *got
			}
			if _, err := i.socket.Write(i.packet(token)); err == nil {
				sent++
			}
		}
	}
}

// node is one in this process that a daemon trusts.
func node(m *live.Machine, name string) *peer.Node {
	m.T.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		m.T.Fatal(err)
	}
	trust := identity.NewMemoryTrustStore()
	if _, err := trust.Trust(identity.Peer{ID: m.ID, Name: "desk", Addrs: []string{m.Addr}}); err != nil {
		m.T.Fatal(err)
	}
	n, err := peer.Listen(peer.Config{Key: key, Trust: trust, Listen: "127.0.0.1:0"})
	if err != nil {
		m.T.Fatal(err)
	}
	m.MustOutput("trust", key.ID().String(), "--name", name, "--yes")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Serve(ctx) }()
	m.T.Cleanup(func() { cancel(); <-done })
	return n
}

// rss returns the memory of the daemon in KiB.
func rss(m *live.Machine) (kib int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Acpd.Cmd.Process.Pid))
	if err != nil {
		m.T.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib
		}
	}
	m.T.Fatal("no VmRSS")
	return 0
}

// message returns a message of a node, checked; without payload if that is nil.
func message(from *peer.Node, to identity.ID, kind string, payload any) kinds.Checked {
	var text wire.Payload
	if payload != nil {
		text = kinds.EncodePayload(payload)
	}
	m, err := kinds.CheckEnvelope(wire.NewEnvelope(from.ID(), to, kind, text))
	if err != nil {
		panic(err)
	}
	return m
}

// pings makes exchanges for so long and returns their 99th percentile.
func pings(t *testing.T, n *peer.Node, to identity.ID, d time.Duration) time.Duration {
	t.Helper()
	var all []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // the pace of the pings
		start := time.Now()
		if _, _, err := n.Exchange(t.Context(), message(n, to, kinds.KindPing, nil)); err != nil {
			t.Errorf("ping: %v", err)
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// TestFloodOfHandshakes begins 2,000 handshakes a second from one host that has
// proved its address, for a minute, against a daemon on one core: its memory, a
// known peer's calls and its new dials hardly notice, and nothing of them stays open. It
// has the machine to itself.
func TestFloodOfHandshakes(t *testing.T) {
	const perSecond = 2000
	rounds, dials := 11, 100
	if testing.Short() {
		rounds, dials = 3, 25
	}
	late := dials / 10                                          // a machine on which others compute may have them late too
	const round, busy = 5 * time.Second, 100 * time.Millisecond // a call may take that where others compute
	desk := newMachine(t, "desk")
	desk.Acpd = desk.StartProcess(append([]string{"taskset", "-c", "0"}, desk.DaemonCommand()...)...)
	desk.AwaitReady()
	known, comes := node(desk.Machine, "laptop"), node(desk.Machine, "planner")
	pings(t, known, desk.ID, 2*time.Second)
	pings(t, comes, desk.ID, time.Second)
	var still []time.Duration
	for range 3 {
		still = append(still, pings(t, known, desk.ID, round))
	}
	slices.Sort(still)
	desk.before = desk.open()
	quiet, before := still[len(still)/2], rss(desk.Machine)

	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds+1)*round)
	defer cancel()
	flood := newInitials(t, desk.Addr)
	sent, most := make(chan int, 1), 0
	go func() { sent <- flood.send(ctx, perSecond) }()
	slow := make(chan int, 1)
	go func() {
		n := 0
		for range dials {
			comes.Disconnect(desk.ID)
			call, stop := context.WithTimeout(t.Context(), 3*time.Second)
			if _, _, err := comes.Exchange(call, message(comes, desk.ID, kinds.KindPing, nil)); err != nil {
				t.Logf("a new dial: %v", err)
				n++
			}
			stop()
			time.Sleep(450 * time.Millisecond) // the pace of the new dials
		}
		slow <- n
	}()
	var p99 []time.Duration
	for range rounds {
		p99 = append(p99, pings(t, known, desk.ID, round))
		most = max(most, rss(desk.Machine))
	}
	slices.Sort(p99)
	loud := p99[len(p99)/2]
	slowly := <-slow
	cancel()
	n := <-sent
	t.Logf("%d handshakes begun, %d packets back; p99 %v quiet, %v in the flood, each the median of rounds of 5 s; RSS %d KiB, %d at most; %d of %d new dials late", n, flood.heard.Load(), quiet, loud, before, most, slowly, dials)
	switch {
	case flood.token.Load() == nil:
		t.Error("the source was never asked for a proof")
	case loud > max(5*quiet, busy):
		t.Errorf("a known peer's p99 is %v, %v when it is quiet", loud, quiet)
	case most-before > 32<<10:
		t.Errorf("RSS grew by %d KiB", most-before)
	case slowly > late:
		t.Errorf("%d of %d new dials took longer than 3 s", slowly, dials)
	}
	pings(t, comes, desk.ID, time.Second) // who is away is waited for
	desk.closes()
}
