package remote

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type obj = map[string]any

// side is a machine: a node, a database and its Gateway, whose engine is served on
// loopback.
type side struct {
	*Gateway
	t     testing.TB
	name  string
	dir   string
	addr  string
	base  string // of the API
	key   *identity.Key
	trust *identity.TrustStore
	node  *peer.Node
	stop  func()

	mu     sync.Mutex
	denial error // what Admit says; guarded by mu
	opens  bool  // whether open_to is "*"; set before start
}

func newSide(t testing.TB, name string) *side {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s := &side{t: t, name: name, dir: t.TempDir(), addr: "127.0.0.1:0", key: key, trust: identity.NewMemoryTrustStore(), opens: true}
	s.listen()
	return s
}

// listen takes the side's address, the same each time.
func (s *side) listen() {
	s.t.Helper()
	var err error
	s.node, err = peer.Listen(peer.Config{Key: s.key, Trust: s.trust, Listen: s.addr, Event: func(e peer.Event) {
		if e.Type == peer.EventUp || e.Type == peer.EventDown {
			s.SetPeerConnected(e.Peer, e.Type == peer.EventUp)
		}
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = s.node.Addr().String()
}

// start runs the side until stop or the end of the test.
func (s *side) start() {
	s.t.Helper()
	if s.node == nil {
		s.listen()
	}
	db, err := store.OpenDB(s.t.Context(), filepath.Join(s.dir, "state.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	log := slog.DiscardHandler
	if os.Getenv("ACPD_TEST_LOG") != "" {
		log = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}).WithAttrs([]slog.Attr{slog.String("side", s.name)})
	}
	node := s.node
	s.Gateway, err = OpenGateway(s.t.Context(), Config{
		Self: s.key.ID(), Engine: engineOn(db, slog.New(log)), Trusted: s.trust.FindPeer, Peers: s.trust.Peers,
		Hosts: func() (all []identity.ID) {
			for _, p := range node.Peers() {
				all = append(all, p.ID)
			}
			return all
		},
		Open: func(ctx context.Context, to identity.ID) (Stream, error) {
			return node.OpenStream(ctx, to, wire.StreamHTTP)
		},
		OpenTo: func(identity.Peer) bool { return s.opens },
		Admit: func(identity.ID) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.denial
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.Gateway
	node.Handle(wire.StreamHTTP, peer.FeatureChannel, func(ctx context.Context, from identity.ID, stream *peer.Stream) { c.ServeStream(ctx, from, stream) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.base = "http://" + l.Addr().String()
	server := &http.Server{Handler: c.API.NewHandler(api.IdentifyLocalCaller)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for what, run := range map[string]func(context.Context) error{"node": node.Serve, "gateway": c.Run, "engine": c.Engine.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("%s: %s: %v", s.name, what, err)
			}
		})
	}
	running.Go(func() { server.Serve(l) })
	for _, p := range s.trust.Peers() {
		node.Connect(p.ID)
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		server.Close()
		running.Wait()
		s.node = nil
		if err := db.Close(); err != nil {
			s.t.Errorf("%s: %v", s.name, err)
		}
	})
	s.t.Cleanup(s.stop)
}

// engineOn is how a daemon makes its engine whose owner has set nothing.
func engineOn(db *store.DB, log *slog.Logger) openintent.Config {
	book := new(budget.Book)
	return openintent.Config{Store: db, Log: log, Budget: book, PeerLog: book.OpenLog(log)}
}

func (s *side) deny(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denial = why
}

// again starts a side that was stopped.
func (s *side) again() {
	s.t.Helper()
	s.stop()
	s.start()
}

// pair runs two sides that trust each other, with open_to: "*": desk and laptop.
func pair(t testing.TB) (desk, laptop *side) {
	t.Helper()
	desk, laptop = newSide(t, "desk"), newSide(t, "laptop")
	for _, s := range [][2]*side{{desk, laptop}, {laptop, desk}} {
		if _, err := s[0].trust.Trust(identity.Peer{ID: s[1].key.ID(), Name: s[1].name, Addrs: []string{s[1].addr}}); err != nil {
			t.Fatal(err)
		}
	}
	desk.start()
	laptop.start()
	meet(t, desk, laptop)
	return desk, laptop
}

// meet waits until two sides reach each other.
func meet(t testing.TB, a, b *side) {
	t.Helper()
	await.Until(t, "connected", func() bool {
		_, there := a.node.Peer(b.key.ID())
		_, back := b.node.Peer(a.key.ID())
		return there && back
	})
}

// agent is one that speaks HTTP to its home; without a name it is the operator.
type agent struct {
	*side
	name   string
	header http.Header
	http.Client
}

func (s *side) agent(name string) *agent {
	a := &agent{side: s, name: name, header: http.Header{}, Client: http.Client{Transport: &http.Transport{ExpectContinueTimeout: await.Patience}}}
	s.t.Cleanup(a.CloseIdleConnections)
	return a
}

func (a *agent) do(method, path string, body any) *http.Response {
	a.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			a.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+apiPath+path, strings.NewReader(string(text)))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header = a.header.Clone()
	speak(r, a.name)
	answer, err := a.Do(r)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// must makes a request that is answered with the status, and returns its object.
func (a *agent) must(status int, method, path string, body any) obj {
	a.t.Helper()
	answer := a.do(method, path, body)
	defer answer.Body.Close()
	var got obj
	if err := json.UnmarshalRead(answer.Body, &got); err != nil || answer.StatusCode != status {
		a.t.Fatalf("%s %s: %s, want %d: %v: %v", method, path, answer.Status, status, got, err)
	}
	return got
}

// list makes a request that is answered with a list.
func (a *agent) list(path string) (all []obj) {
	a.t.Helper()
	answer := a.do("GET", path, nil)
	defer answer.Body.Close()
	if err := json.UnmarshalRead(answer.Body, &all); err != nil {
		a.t.Fatalf("%s: %s: %v", path, answer.Status, err)
	}
	return all
}

// events follows an event stream and returns what it tells, name and data.
func (a *agent) events(path string) <-chan obj {
	a.t.Helper()
	answer := a.do("GET", path, nil)
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		a.t.Fatalf("%s: %s %s", path, answer.Status, text)
	}
	a.t.Cleanup(func() { answer.Body.Close() })
	all := make(chan obj, 100)
	go func() {
		lines, name := bufio.NewScanner(answer.Body), ""
		for lines.Scan() {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m obj
			if ok && json.Unmarshal([]byte(data), &m) == nil {
				m["event"] = name
				all <- m
			}
		}
	}()
	return all
}

// find returns the object of a list that has the value under the name.
func find(all []obj, name string, value any) obj {
	for _, o := range all {
		if o[name] == value {
			return o
		}
	}
	return nil
}
