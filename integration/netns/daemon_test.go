//go:build netns

package netns

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// daemon is acpd on a host, and one who subscribes to its events.
type daemon struct {
	*process
	h      *host
	name   string
	home   string
	id     identity.ID
	listen string
	client *client.Client

	mu     sync.Mutex // guards events and more
	events []event
	more   chan struct{} // closed at each new event
}

// event is an event and when it came.
type event struct {
	client.Event
	at time.Time
}

// daemon makes a state directory; see start.
func (h *host) daemon(name string) *daemon {
	h.l.t.Helper()
	home, err := os.MkdirTemp("", "acp")
	if err != nil {
		h.l.t.Fatal(err)
	}
	h.l.t.Cleanup(func() { os.RemoveAll(home) })
	return &daemon{h: h, name: name, home: home, client: &client.Client{Socket: filepath.Join(home, client.SocketName)}, more: make(chan struct{})}
}

// acpd starts a daemon that nothing is configured for.
func (h *host) acpd(name string) *daemon {
	h.l.t.Helper()
	d := h.daemon(name)
	d.start()
	return d
}

// start starts the daemon and waits until it is ready and its events are heard.
func (d *daemon) start(args ...string) {
	t := d.h.l.t
	t.Helper()
	d.process = d.h.begin([]string{"HOME=" + d.home}, "", append([]string{"acpd", "--home", d.home, "--name", d.name}, args...)...)
	eventually(t, d.begun, patience, d.name+" is ready", func() bool {
		if !d.running() {
			t.Fatalf("%s ended: %s", d.name, d.stderr.String())
		}
		who, err := d.client.Whoami(t.Context())
		if err != nil {
			return false
		}
		d.id, d.listen = who.ID, who.Listen[0]
		return true
	})
	stream, err := net.Dial("unix", d.client.Socket)
	if err != nil {
		t.Fatal(err)
	}
	conn := client.NewConn(stream, client.Options{Notified: func(method string, params jsontext.Value) {
		e := event{at: time.Now()}
		if method != client.NotifyEvent || json.Unmarshal(params, &e.Event) != nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
		close(d.more)
		d.more = make(chan struct{})
	}})
	var running sync.WaitGroup
	running.Go(func() { conn.Run(context.Background()) })
	t.Cleanup(func() {
		conn.Close()
		running.Wait()
		d.client.Close()
	})
	if err := conn.Call(t.Context(), client.MethodSubscribe, &client.SubscribeParams{Events: client.EventFilter{All: true}}, nil); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
}

// stop ends the daemon as systemd would, and returns when that began.
func (d *daemon) stop() time.Time {
	d.h.l.t.Helper()
	at := time.Now()
	d.signal(syscall.SIGTERM)
	d.exits(0)
	return at
}

// kill ends the daemon as a power cut would.
func (d *daemon) kill() time.Time {
	at := time.Now()
	d.signal(syscall.SIGKILL)
	<-d.ended
	return at
}

// peers is what acpctl peers lists.
func (d *daemon) peers() []client.Peer {
	d.h.l.t.Helper()
	peers, err := d.client.Peers(d.h.l.t.Context())
	if err != nil {
		d.h.l.t.Fatalf("peers of %s: %v", d.name, err)
	}
	return peers
}

// peer is the row of one; zero: there is none.
func (d *daemon) peer(id identity.ID) client.Peer {
	d.h.l.t.Helper()
	for _, p := range d.peers() {
		if p.ID == id {
			return p
		}
	}
	return client.Peer{}
}

// sees waits until another one is listed, at an address if one is given.
func (d *daemon) sees(id identity.ID, addr string, since time.Time, limit time.Duration) time.Duration {
	d.h.l.t.Helper()
	return eventually(d.h.l.t, since, limit, d.name+" sees "+id.Label()+" at "+addr, func() bool {
		p := d.peer(id)
		return !p.ID.IsZero() && (addr == "" || slices.Contains(p.Addrs, addr))
	})
}

// hears waits for an event, and returns how long after since it came.
func (d *daemon) hears(kind string, of identity.ID, since time.Time, limit time.Duration) time.Duration {
	d.h.l.t.Helper()
	deadline := time.After(time.Until(since.Add(limit)))
	for n := 0; ; {
		d.mu.Lock()
		events, more := d.events, d.more
		d.mu.Unlock()
		for ; n < len(events); n++ {
			if e := events[n]; e.Type == kind && e.Peer == of && !e.at.Before(since) {
				return e.at.Sub(since)
			}
		}
		select {
		case <-more:
		case <-deadline:
			d.h.l.t.Fatalf("%s: no event %s of %s within %s", d.name, kind, of.Label(), limit)
		}
	}
}

// heard counts events of one peer, or of all.
func (d *daemon) heard(kind string, of identity.ID) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Type == kind && (of.IsZero() || e.Peer == of) {
			n++
		}
	}
	return n
}

// warnings returns what discovery warns of.
func (d *daemon) warnings() (lines []string) {
	for l := range strings.Lines(d.stderr.String()) {
		if strings.Contains(l, "level=WARN msg=discovery ") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	return lines
}

// warns waits until there are n warnings.
func (d *daemon) warns(n int, since time.Time, limit time.Duration) {
	d.h.l.t.Helper()
	eventually(d.h.l.t, since, limit, d.name+" warns", func() bool { return len(d.warnings()) >= n })
}

// warned expects n warnings, and no more.
func (d *daemon) warned(n int) {
	d.h.l.t.Helper()
	if w := d.warnings(); len(w) != n {
		d.h.l.t.Errorf("%s: %d warnings, want %d:\n%s", d.name, len(w), n, strings.Join(w, "\n"))
	}
}

// acpctl starts a command on the daemon's host.
func (d *daemon) acpctl(stdin string, args ...string) *process {
	d.h.l.t.Helper()
	return d.h.begin([]string{"HOME=" + d.home, "ACP_HOME=" + d.home}, stdin, append([]string{"acpctl"}, args...)...)
}

// trusts makes the daemon trust another one's key, by its full id.
func (d *daemon) trusts(o *daemon, addrs ...string) {
	d.h.l.t.Helper()
	if _, err := d.client.Trust(d.h.l.t.Context(), client.TrustParams{Peer: o.id.String(), Name: o.name, Addrs: addrs}); err != nil {
		d.h.l.t.Fatalf("%s trusts %s: %v", d.name, o.name, err)
	}
}

// befriend makes two daemons trust each other and waits until they are connected.
func befriend(a, b *daemon) {
	a.h.l.t.Helper()
	a.trusts(b)
	b.trusts(a)
	a.connects(b, time.Now(), patience)
	b.connects(a, time.Now(), patience)
}

// connects waits until there is a connection.
func (d *daemon) connects(to *daemon, since time.Time, limit time.Duration) time.Duration {
	d.h.l.t.Helper()
	return eventually(d.h.l.t, since, limit, d.name+" is connected to "+to.name, func() bool { return d.peer(to.id).State == client.PeerConnected })
}
