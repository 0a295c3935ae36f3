package relay

import (
	"fmt"
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

// TestSeveralServers: where several servers make one relay, peers on different ones reach each other, and one hears when
// the other is away.
func TestSeveralServers(t *testing.T) {
	var at [5]string
	for i := range at {
		at[i] = live.PickTCPAddr(t)
	}
	cluster := func(i int) string {
		return fmt.Sprintf(`cluster { name: hub, listen: %q, routes: [ "nats://%s", "nats://%s", "nats://%s" ] }`, at[i], at[0], at[1], at[2])
	}
	gateway := func(i int) string {
		return fmt.Sprintf(`gateway { name: g%d, listen: %q, gateways: [ { name: g3, url: "nats://%s" }, { name: g4, url: "nats://%s" } ] }`, i, at[i], at[3], at[4])
	}
	leaves := live.PickTCPAddr(t)
	for name, parts := range map[string][]string{
		"cluster":  {cluster(0), cluster(1), cluster(2)},
		"gateways": {gateway(3), gateway(4)},
		"leaf": {
			fmt.Sprintf(`leafnodes { listen: %q, authorization { user: leaf, password: "a-password" } }`, leaves),
			fmt.Sprintf(`leafnodes { remotes: [ { url: "nats-leaf://leaf:a-password@%s" } ] }`, leaves),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ends []*running
			for i, part := range parts {
				s := startServer(t, fmt.Sprintf("server_name: %s-%d\nlisten: 127.0.0.1:-1\nauthorization { token: s3cret }\n%s\n", name, i, part))
				d := newDaemon(t, urlOf(s))
				d.Credentials.Token = "s3cret"
				l := start(t, d.Config)
				l.awaitConnected(t)
				ends = append(ends, l)
			}
			a, b := ends[0], ends[len(ends)-1]
			// Interest takes a moment to travel between servers: a packet that comes too early is lost, as on any network.
			awaitPath(t, a, b)
			serveEcho(t, b)
			if err := echo(dial(t, a, b.LocalAddr()), randomBytes(200)); err != nil {
				t.Fatal(err)
			}
			b.stop()
			a.awaitNobody(t, b.Sender(b.LocalAddr()))
		})
	}
}
