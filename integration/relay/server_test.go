// Package relay tests the link of package relay with real NATS servers, which are embedded
// here. It is a module of its own, so that the server is in no go.mod of the product.
package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/relay"
)

const patience = await.Patience // for what takes milliseconds

// startServer starts a server with a configuration, as a file has it. It ends with the test.
func startServer(t testing.TB, conf string) *server.Server {
	t.Helper()
	return runServer(t, parseConf(t, conf))
}

func parseConf(t testing.TB, conf string) *server.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	// Unless told otherwise, it hangs up on who has not logged in after 2 s, which a busy machine may need.
	o.AuthTimeout, o.TLSTimeout, o.Websocket.HandshakeTimeout = 60, 60, time.Minute
	o.ConfigFile = "" // a reload wants the same
	return o
}

// reload gives a server another configuration, as nats-server --signal reload does.
func reload(t testing.TB, s *server.Server, conf string) {
	t.Helper()
	o := parseConf(t, conf)
	o.Port = portOf(s)
	if err := s.ReloadOptions(o); err != nil {
		t.Fatal(err)
	}
}

func webSocketAddr(t testing.TB, s *server.Server) string {
	t.Helper()
	_, hostPort, _ := strings.Cut(s.WebsocketURL(), "://")
	return hostPort
}

func runServer(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return s
}

func portOf(s *server.Server) int { return s.Addr().(*net.TCPAddr).Port }

func urlOf(s *server.Server) string { return fmt.Sprintf("nats://127.0.0.1:%d", portOf(s)) }

// daemon is what a link needs of one.
type daemon struct {
	key *identity.Key
	relay.Config
}

func newDaemon(t testing.TB, url string) daemon {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return daemon{key, relay.Config{
		Name: "vps", URL: url, Self: key.ID(), Key: key.DeriveSecret(relay.KeyLabel),
		Admit: func(identity.ID) relay.Admission { return relay.Trusted },
	}}
}

func (d daemon) nkey(t testing.TB) string {
	t.Helper()
	public, err := relay.PublicKey(d.Config.Key)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// heard is an observer.
type heard struct {
	nobody      chan net.Addr
	interrupted chan struct{}
}

func (h *heard) NobodyAt(a net.Addr) {
	select {
	case h.nobody <- a:
	default:
	}
}

func (h *heard) Interrupted() {
	select {
	case h.interrupted <- struct{}{}:
	default:
	}
}

// running is a link while it runs.
type running struct {
	*relay.Link
	*heard
	changed chan struct{}
	stop    func()
}

// start runs a link until the test ends.
func start(t testing.TB, c relay.Config) *running {
	t.Helper()
	r := &running{heard: &heard{make(chan net.Addr, 64), make(chan struct{}, 64)}, changed: make(chan struct{}, 1)}
	c.Changed = func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	link, err := relay.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	r.Link = link
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { link.Run(ctx, r.heard) })
	r.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(r.stop)
	return r
}

// await waits until the link's state is as wanted.
func (r *running) await(t testing.TB, what string, want func(relay.State) bool) relay.State {
	t.Helper()
	deadline := time.After(patience)
	for {
		s := r.State()
		if want(s) {
			return s
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("%s: it is not so after %s; the state is %+v", what, patience, s)
		}
	}
}

func (r *running) awaitConnected(t testing.TB) relay.State {
	t.Helper()
	return r.await(t, "connected", func(s relay.State) bool { return s.Standing == relay.Connected })
}

// receive reads one packet.
func (r *running) receive(t testing.TB) (string, net.Addr) {
	t.Helper()
	p := make([]byte, 2000)
	r.SetReadDeadline(time.Now().Add(patience))
	n, from, err := r.ReadFrom(p)
	if err != nil {
		t.Fatalf("read: %v; the state is %+v", err, r.State())
	}
	return string(p[:n]), from
}

func (r *running) send(t testing.TB, text string, to identity.ID) {
	t.Helper()
	if _, err := r.WriteTo([]byte(text), r.Addr(to)); err != nil {
		t.Fatal(err)
	}
}

// awaitNobody sends to an id that nobody has, and waits until the link tells that
// nobody is there.
func (r *running) awaitNobody(t testing.TB, absent identity.ID) {
	t.Helper()
	for len(r.nobody) > 0 { // what was told before
		<-r.nobody
	}
	for deadline := time.Now().Add(patience); ; {
		r.send(t, "anybody?", absent)
		select {
		case addr := <-r.nobody:
			if addr.String() != r.Addr(absent).String() {
				t.Errorf("nobody is at %s, which was %s", addr, r.Addr(absent))
			}
			return
		case <-time.After(200 * time.Millisecond): // of several servers, one may not know yet who has left
		}
		if time.Now().After(deadline) {
			t.Fatalf("no 503; the state is %+v", r.State())
		}
	}
}

// exchange sends a packet each way.
func exchange(t testing.TB, a, b *running) {
	t.Helper()
	for _, way := range [][2]*running{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		text := fmt.Sprintf("packet %x", sha256.Sum256([]byte(from.LocalAddr().String())))
		from.send(t, text, to.Sender(to.LocalAddr()))
		if got, sender := to.receive(t); got != text || sender.String() != from.LocalAddr().String() {
			t.Fatalf("%s got %q from %s, sent was %q by %s", to.Name(), got, sender, text, from.LocalAddr())
		}
	}
}
