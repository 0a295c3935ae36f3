//go:build netns

package netns

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/live"
)

// daemon is a machine on a host, and one who subscribes to its daemon's events.
type daemon struct {
	*live.Machine

	mu     sync.Mutex // guards events and more
	events []event
	more   chan struct{} // closed at each new event
}

// event is an event and when it came.
type event struct {
	client.Event
	at time.Time
}

// daemon makes a state directory; see start. Nothing is configured: it listens
// everywhere, and finds others by mDNS.
func (h *host) daemon(name string) *daemon {
	h.l.t.Helper()
	d := &daemon{Machine: live.NewMachine(h.l.t, name), more: make(chan struct{})}
	d.Flags, d.In = nil, h.in
	return d
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
	t := d.T
	t.Helper()
	d.StartDaemon(args...)
	stream, err := net.Dial("unix", d.SocketPath())
	if err != nil {
		t.Fatal(err)
	}
	conn := jsonrpc.NewConn(stream, jsonrpc.Options{Notified: func(method string, params jsontext.Value) {
		e := event{at: time.Now()}
		if method != client.NotificationEvent || json.Unmarshal(params, &e.Event) != nil {
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
	})
	if err := conn.Call(t.Context(), client.MethodSubscribe, &client.SubscribeParams{Events: client.EventFilter{All: true}}, nil); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
}

// sees waits until another one is listed, at an address if one is given.
func (d *daemon) sees(id identity.ID, addr string, since time.Time, limit time.Duration) time.Duration {
	d.T.Helper()
	return eventually(d.T, since, limit, d.Name+" sees "+id.Label()+" at "+addr, func() bool {
		p := d.FindPeer(id)
		return !p.ID.IsZero() && (addr == "" || slices.Contains(p.Addrs, addr))
	})
}

// hears waits for an event, and returns how long after since it came.
func (d *daemon) hears(kind client.EventType, of identity.ID, since time.Time, limit time.Duration) time.Duration {
	d.T.Helper()
	return d.awaitEvent(kind, of, since, limit).at.Sub(since)
}

// awaitEvent waits for an event that comes within limit of since, and returns the first one.
func (d *daemon) awaitEvent(kind client.EventType, of identity.ID, since time.Time, limit time.Duration) event {
	d.T.Helper()
	deadline := time.After(time.Until(since.Add(limit)))
	for n := 0; ; {
		d.mu.Lock()
		events, more := d.events, d.more
		d.mu.Unlock()
		for ; n < len(events); n++ {
			if e := events[n]; e.Type == kind && e.Peer == of && !e.at.Before(since) {
				return e
			}
		}
		select {
		case <-more:
		case <-deadline:
			d.T.Fatalf("%s: no event %s of %s within %s", d.Name, kind, of.Label(), limit)
		}
	}
}

// heard counts events of one peer, or of all.
func (d *daemon) heard(kind client.EventType, of identity.ID) (n int) {
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
	for l := range strings.Lines(d.Acpd.Stderr.String()) {
		if strings.Contains(l, "level=WARN msg=discovery ") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	return lines
}

// warns waits until there are n warnings.
func (d *daemon) warns(n int, since time.Time, limit time.Duration) {
	d.T.Helper()
	eventually(d.T, since, limit, d.Name+" warns", func() bool { return len(d.warnings()) >= n })
}

// warned expects n warnings, and no more.
func (d *daemon) warned(n int) {
	d.T.Helper()
	if w := d.warnings(); len(w) != n {
		d.T.Errorf("%s: %d warnings, want %d:\n%s", d.Name, len(w), n, strings.Join(w, "\n"))
	}
}

// told starts acpctl, which reads a text.
func (d *daemon) told(text string, args ...string) *live.Process {
	d.T.Helper()
	p := d.PrepareProcess(append([]string{live.ProgramPath(d.T, "acpctl"), "--home", d.Home}, args...)...)
	p.Cmd.Stdin = strings.NewReader(text)
	if err := d.In(p.Start); err != nil {
		d.T.Fatal(err)
	}
	return p
}

// befriend makes two daemons trust each other and waits until they are connected.
func befriend(a, b *daemon) {
	a.T.Helper()
	a.Trust(b.Machine)
	b.Trust(a.Machine)
	live.AwaitConnection(a.Machine, b.Machine)
}

// connects waits until there is a connection.
func (d *daemon) connects(to *daemon, since time.Time, limit time.Duration) time.Duration {
	d.T.Helper()
	return eventually(d.T, since, limit, d.Name+" is connected to "+to.Name, func() bool { return d.FindPeer(to.ID).State == client.PeerConnected })
}
