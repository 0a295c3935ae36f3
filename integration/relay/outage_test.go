package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/relay"
)

// stopServer ends a server and waits for its end.
func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// A server is away for 2 s; all of 60 daemons are back soon after its return, and a QUIC
// connection through it goes on.
func TestServerRestarted(t *testing.T) {
	conf := "listen: " + live.PickTCPAddr(t) + "\nauthorization { token: s3cret }\n" // which nobody else takes while it is away
	s := startServer(t, conf)
	url := urlOf(s)
	var links []*running
	for range 60 {
		d := newDaemon(t, url)
		d.Credentials.Token = "s3cret"
		links = append(links, start(t, d.Config))
	}
	for _, l := range links {
		l.awaitConnected(t)
	}
	serveEcho(t, links[0])
	c := dial(t, links[1], links[0].LocalAddr())
	if err := echo(c, randomBytes(200)); err != nil {
		t.Fatal(err)
	}

	stopServer(s)
	for _, l := range links {
		l.await(t, "lost", func(s relay.State) bool { return s.Standing == relay.Connecting })
	}
	if _, err := links[2].WriteTo([]byte("x"), links[2].Addr(identity.ID{1})); err != nil || links[2].State().DroppedOut > 0 {
		t.Errorf("without a server a packet is written with %v, and %d are dropped", err, links[2].State().DroppedOut)
	}
	time.Sleep(2 * time.Second) // a time without a server
	startServer(t, conf)
	began := time.Now()
	for _, l := range links {
		l.await(t, "back", func(s relay.State) bool { return s.Standing == relay.Connected && s.Reconnects == 1 })
	}
	back := time.Since(began)
	if err := echo(c, randomBytes(64<<10)); err != nil {
		t.Errorf("the QUIC connection does not go on: %v", err)
	}
	t.Logf("60 links are back %s after the server", back)
	if back > 20*time.Second { // 2 s is the longest pause; the rest is this machine's
		t.Errorf("60 links are back after %s", back)
	}
}

// An outage of more than 3 s is told twice: when it has lasted so long, and when it is over.
func TestInterruptionIsTold(t *testing.T) {
	conf := "listen: " + live.PickTCPAddr(t) + "\nauthorization { token: s3cret }\n"
	s := startServer(t, conf)
	d := newDaemon(t, urlOf(s))
	d.Credentials.Token = "s3cret"
	l := start(t, d.Config)
	l.awaitConnected(t)
	began := time.Now() // the link may hear of the end before all of the server has ended
	stopServer(s)
	for _, what := range []string{"after 3 s", "when it is back"} {
		select {
		case <-l.interrupted:
		case <-time.After(patience):
			t.Fatalf("nothing is told %s", what)
		}
		if what == "after 3 s" {
			if took := time.Since(began); took < 2900*time.Millisecond {
				t.Errorf("told after %s", took)
			}
			startServer(t, conf)
		}
	}
}

// A daemon that is on two relays reaches, on each, peers that are only there.
func TestTwoRelays(t *testing.T) {
	const conf = "listen: 127.0.0.1:-1\nauthorization { token: s3cret }\n"
	first, second := startServer(t, conf), startServer(t, conf)
	on := func(d daemon, name string, s *server.Server) *running {
		d.Name, d.URL, d.Credentials.Token = name, urlOf(s), "s3cret"
		l := start(t, d.Config)
		l.awaitConnected(t)
		return l
	}
	both, left, right := newDaemon(t, ""), newDaemon(t, ""), newDaemon(t, "")
	b1, b2 := on(both, "first", first), on(both, "second", second)
	exchange(t, b1, on(left, "first", first))
	exchange(t, b2, on(right, "second", second))
	b1.awaitNobody(t, right.Self)
	b2.awaitNobody(t, left.Self)
	if b1.Name() == b2.Name() || b1.LocalAddr().String() == b2.LocalAddr().String() {
		t.Error("two relays have one name")
	}
}

// In a cluster, peers on different servers reach each other, and one hears when the other is away.
func TestCluster(t *testing.T) {
	var routes, urls []string
	for i := range 3 {
		s := startServer(t, fmt.Sprintf("server_name: s%d\nlisten: 127.0.0.1:-1\nauthorization { token: s3cret }\ncluster { name: c, listen: 127.0.0.1:-1, routes: [%s] }\n", i, strings.Join(routes, ", ")))
		routes = append(routes, fmt.Sprintf("%q", fmt.Sprintf("nats://127.0.0.1:%d", s.ClusterAddr().Port)))
		urls = append(urls, urlOf(s))
	}
	on := func(url string) *running {
		d := newDaemon(t, url)
		d.Credentials.Token = "s3cret"
		l := start(t, d.Config)
		l.awaitConnected(t)
		return l
	}
	a, b := on(urls[0]), on(urls[2])
	// Interest takes a moment to travel between servers: a packet that comes too early is lost, as on any network.
	awaitPath(t, a, b)
	serveEcho(t, b)
	if err := echo(dial(t, a, b.LocalAddr()), randomBytes(200)); err != nil {
		t.Fatal(err)
	}
	b.stop()
	began := time.Now()
	a.awaitNobody(t, b.Sender(b.LocalAddr()))
	t.Logf("503 %s after the peer left", time.Since(began))
}

// awaitPath sends until something arrives, and reads what came.
func awaitPath(t testing.TB, from, to *running) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		from.send(t, "path", to.Sender(to.LocalAddr()))
		to.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, _, err := to.ReadFrom(make([]byte, 100)); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no packet arrives")
		}
	}
	to.SetReadDeadline(time.Time{})
	for len(from.nobody) > 0 {
		<-from.nobody
	}
}

// A daemon that takes nothing from the server is cut off by it, and comes back: here a reader
// of the network stops.
func TestSlowConsumer(t *testing.T) {
	s := startServer(t, "listen: 127.0.0.1:-1\nmax_pending: 1MB\nwrite_deadline: \"500ms\"\nauthorization { token: s3cret }\n")
	proxy := newStoppable(t, s.Addr().String())
	a, b := newDaemon(t, "nats://"+proxy.addr), newDaemon(t, urlOf(s))
	a.Credentials.Token, b.Credentials.Token = "s3cret", "s3cret"
	la, lb := start(t, a.Config), start(t, b.Config)
	la.awaitConnected(t)
	lb.awaitConnected(t)
	proxy.stopped.Store(true)
	packet := make([]byte, relay.MTU)
	deadline := time.Now().Add(patience)
	for s.NumSlowConsumers() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the server waits for a consumer that takes nothing")
		}
		lb.WriteTo(packet, lb.Addr(a.Self))
	}
	proxy.stopped.Store(false)
	la.await(t, "back", func(s relay.State) bool { return s.Standing == relay.Connected && s.Reconnects > 0 })
	awaitPath(t, lb, la)
	if err := la.State().LastError; err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("the state says %v", err)
	}
}
