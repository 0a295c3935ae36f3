package relays

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// host is a daemon as far as relays need one.
type host struct {
	*Service
	t      *testing.T
	events chan client.Event
	log    *bytes.Buffer // to be read after stop
	stop   func()
	reach  atomic.Pointer[config.Reach]
	own    atomic.Pointer[certificate]
}

// certificate is what a host shows to others.
type certificate struct {
	raw  []byte
	says *identity.Certificate
}

// start opens the relays of a state directory, with settings, and runs them until the test ends or stop
// is called.
func start(t *testing.T, dir string, reach config.Reach) *host {
	t.Helper()
	h := &host{t: t, events: make(chan client.Event, 64), log: new(bytes.Buffer)}
	h.reach.Store(&reach)
	h.own.Store(new(certificate))
	trust, _, err := identity.OpenTrustStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := identity.LoadOrCreateKey(filepath.Join(dir, "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	node, err := peer.Listen(peer.Config{
		Key: key, Trust: trust, Name: "desk", Software: "test", Listen: "127.0.0.1:0",
		STUN: reach.STUN, NoUpgrade: reach.Direct == config.Off, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Service = Open(Deps{
		Dir: dir, Name: "desk", Key: key, Trust: trust, Node: node, Reserve: new(disk.Reserve), Log: log,
		Start: reach, Reach: func() config.Reach { return *h.reach.Load() },
		Certificate: func() ([]byte, *identity.Certificate) { own := h.own.Load(); return own.raw, own.says },
		Publish:     h.publish,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := node.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	parts.Go(func() { _ = h.Run(ctx) })
	h.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		h.Close()
		node.Close()
	})
	t.Cleanup(h.stop)
	return h
}

func (h *host) publish(typ client.EventType, id identity.ID, name string, at time.Time, details any) {
	text, err := json.Marshal(details)
	if err != nil {
		h.t.Error(err)
	}
	h.events <- client.Event{Type: typ, Peer: id, Name: name, At: at, Details: text}
}

// configure replaces the relays of config.yaml, and has them used.
func (h *host) configure(all ...config.Relay) {
	h.reach.Store(&config.Reach{Relays: all})
	h.Reload()
}

// joinFleet gives the host a certificate of an authority that it accepts.
func (h *host) joinFleet(a *authority.Authority, d time.Duration) {
	h.t.Helper()
	raw := a.Sign(h.Key.ID(), d, "acp:desk")
	says, err := identity.InspectCertificate(raw)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Trust.SetAuthorities([]identity.Authority{{Name: "corp", Key: a.Key}})
	h.own.Store(&certificate{raw, says})
	h.UpdateNames()
}

// add adds a relay without a try.
func (h *host) add(p client.RelayAddParams) client.Relay {
	h.t.Helper()
	p.NoCheck = true
	added, err := h.serveAdd(h.t.Context(), nil, &p)
	if err != nil {
		h.t.Fatal(err)
	}
	return added.(*client.RelayAdded).Relay
}

// refuseToAdd tries to add a relay, and returns the error.
func (h *host) refuseToAdd(code kinds.Code, p client.RelayAddParams) *kinds.Error {
	h.t.Helper()
	_, err := h.serveAdd(h.t.Context(), nil, &p)
	return h.want(code, err)
}

// want checks the code of an error.
func (h *host) want(code kinds.Code, err error) *kinds.Error {
	h.t.Helper()
	if err == nil || kinds.AsError(err).Code != code {
		h.t.Fatalf("%v, want %s", err, code)
	}
	return kinds.AsError(err)
}

// remove removes a relay, and waits until it is gone.
func (h *host) remove(name string) {
	h.t.Helper()
	if _, err := h.serveRemove(h.t.Context(), nil, &client.RelayRemoveParams{Name: name}); err != nil {
		h.t.Fatal(err)
	}
	await.Until(h.t, "the relay is gone", func() bool {
		return !slices.ContainsFunc(h.List(), func(r client.Relay) bool { return r.Name == name })
	})
}

// readKept returns the text of relays.yaml.
func (h *host) readKept() string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.Dir, "relays.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// deadURL is the URL of a relay whose host refuses connections.
func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "nats://" + l.Addr().String()
}

// tokenServer speaks as much of NATS as a link needs to be up, with those who have one of the tokens, and hands the
// lines of clients to heard. It returns its URL.
func tokenServer(t *testing.T, heard func(line string), tokens ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveTokens(t, l, heard, tokens...)
	return "nats://" + l.Addr().String()
}

// serveTokens is the server of tokenServer, at l.
func serveTokens(t *testing.T, l net.Listener, heard func(line string), tokens ...string) {
	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		fmt.Fprint(c, `INFO {"server_id":"FAKE","server_name":"fake","version":"2.15.2","headers":true,"max_payload":1048576,"proto":1,"nonce":"abcdefghijk","auth_required":true}`+"\r\n")
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			line := lines.Text()
			heard(line)
			switch {
			case strings.HasPrefix(line, "CONNECT ") && !slices.ContainsFunc(tokens, func(token string) bool { return strings.Contains(line, `"auth_token":"`+token+`"`) }):
				fmt.Fprint(c, "-ERR 'Authorization Violation'\r\n")
				return
			case line == "PING":
				fmt.Fprint(c, "PONG\r\n")
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
}
