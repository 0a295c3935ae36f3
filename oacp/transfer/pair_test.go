package transfer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// side is a machine: a node, a database, an OACP home and its carrier.
type side struct {
	*Mailer
	t     testing.TB
	name  string
	dir   string
	home  string
	key   *identity.Key
	trust *identity.TrustStore
	addr  string
	node  *peer.Node
	db    *store.DB
	stop  func()

	rows   budgetRows // of the budget, unless they are the daemon's
	opened func()     // called when a stream is open, unless nil

	log await.Output

	mu     sync.Mutex // guards what follows
	denial error      // what Admit says
	asked  int        // how often it was asked
	events []Event
}

// logged returns the lines of its log that have some words.
func (s *side) logged(words string) (lines []string) {
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, words) {
			lines = append(lines, line)
		}
	}
	return lines
}

func newSide(t testing.TB, name string) *side {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &side{t: t, name: name, dir: dir, home: filepath.Join(dir, "oacp"), key: key, trust: identity.NewMemoryTrustStore(), addr: "127.0.0.1:0"}
	s.listen()
	t.Cleanup(func() {
		if s.node != nil { // it was never started
			s.node.Close()
		}
	})
	return s
}

// listen takes the side's address, the same each time.
func (s *side) listen() {
	s.t.Helper()
	var err error
	s.node, err = peer.Listen(peer.Config{Key: s.key, Trust: s.trust, Listen: s.addr, Event: func(e peer.Event) {
		switch e.Type {
		case peer.EventUp:
			s.SetConnected(e.Peer, true)
		case peer.EventDown:
			s.SetConnected(e.Peer, false)
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
	var err error
	if s.db, err = store.OpenDB(s.t.Context(), filepath.Join(s.dir, "state.db")); err != nil {
		s.t.Fatal(err)
	}
	var log slog.Handler = slog.NewTextHandler(&s.log, nil)
	if os.Getenv("ACPD_TEST_LOG") != "" {
		loud := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}).WithAttrs([]slog.Attr{slog.String("side", s.name)})
		log = slog.NewMultiHandler(log, loud)
	}
	node := s.node
	s.Mailer, err = OpenMailer(s.t.Context(), Config{
		Home: s.home, DB: s.db, Log: slog.New(log),
		Open: func(ctx context.Context, to identity.ID) (Stream, error) {
			stream, err := node.OpenStream(ctx, to, wire.StreamMail)
			if err != nil {
				return nil, err
			}
			if s.opened != nil {
				s.opened()
			}
			return stream, nil
		},
		Admit: func(identity.ID) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asked++
			return s.denial
		},
		Name: func(id identity.ID) string {
			if p, ok := s.trust.FindPeer(id); ok {
				return p.Name
			}
			return id.Label()
		},
		Trusted: func(id identity.ID) bool { _, ok := s.trust.FindPeer(id); return ok },
		Event:   s.hear, rows: s.rows,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	node.Handle(wire.StreamMail, "mail", func(ctx context.Context, from identity.ID, stream *peer.Stream) { s.Serve(ctx, from, stream) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := node.Serve(ctx); err != nil {
			s.t.Errorf("%s: serve: %v", s.name, err)
		}
	})
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			s.t.Errorf("%s: run: %v", s.name, err)
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		s.node = nil
		if err := s.db.Close(); err != nil {
			s.t.Errorf("%s: %v", s.name, err)
		}
	})
	s.t.Cleanup(s.stop)
}

func (s *side) deny(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denial = why
}

func (s *side) hear(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// arrivedFiles are the files that came, in the order of their arrival.
func (s *side) arrivedFiles() (files []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.State == Arrived {
			files = append(files, e.File)
		}
	}
	return files
}

// desks makes two sides that trust each other and share a project: planner lives at
// the desk, reviewer at the laptop. Neither is started.
func desks(t testing.TB) (desk, laptop *side) {
	t.Helper()
	desk, laptop = newSide(t, "desk"), newSide(t, "laptop")
	for _, s := range [][2]*side{{desk, laptop}, {laptop, desk}} {
		if _, err := s[0].trust.Trust(identity.Peer{ID: s[1].key.ID(), Name: s[1].name, Addrs: []string{s[1].addr}}); err != nil {
			t.Fatal(err)
		}
	}
	desk.makeAgent("demo", "planner")
	laptop.makeAgent("demo", "reviewer")
	return desk, laptop
}

// bound is desks started and bound to each other.
func bound(t testing.TB) (desk, laptop *side) {
	t.Helper()
	desk, laptop = desks(t)
	laptop.start()
	laptop.bind("demo", "planner", desk)
	desk.start()
	desk.bind("demo", "reviewer", laptop)
	return desk, laptop
}

func (s *side) bind(project, agent string, to *side) {
	s.t.Helper()
	if _, err := s.Bind(s.t.Context(), Binding{Project: project, Agent: agent, Peer: to.key.ID()}, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) makeAgent(project, agent string) {
	s.t.Helper()
	for _, dir := range []string{"inbox", "outbox"} {
		if err := os.MkdirAll(filepath.Join(s.folder(project, agent), dir), 0o777); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *side) folder(project, agent string) string {
	return filepath.Join(s.home, "projects", project, "agents", agent)
}

func (s *side) inbox(agent string) string { return filepath.Join(s.folder("demo", agent), "inbox") }

// text is a message as any tool may write it.
func text(from, to, priority, typ, body string) string {
	return fmt.Sprintf("id: msg-20261120130000-%s-ab12\nfrom: %s\nto: %s\ntype: %s\npriority: %s\ncreated_at_utc: \"2026-11-20T13:00:00Z\"\nsubject: s\nbody: %s\n", from, from, to, typ, priority, body)
}

// fileName is a name that no other message has.
func fileName(from, typ string) string {
	return message.NewMessageFileName(time.Now(), from, typ, strings.ToLower(rand.Text()[:12]))
}

// send puts a message into an inbox as the reference does: written under a hidden
// name, then renamed.
func (s *side) send(agent, name, text string) string {
	s.t.Helper()
	deposit(s.t, s.inbox(agent), name, text)
	return name
}

func deposit(t testing.TB, inbox, name, text string) {
	t.Helper()
	temp := filepath.Join(inbox, "."+name+".tmp-77-"+hex.EncodeToString([]byte(rand.Text()[:3])))
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(inbox, name)); err != nil {
		t.Fatal(err)
	}
}

// question sends an ordinary message and returns its file and its text.
func (s *side) question(body string) (name, written string) {
	s.t.Helper()
	written = text("planner", "reviewer", "P2", "question", body)
	return s.send("reviewer", fileName("planner", "question"), written), written
}

// files are the messages in an inbox and what they hold; a name that hints at
// debris fails the test.
func (s *side) files(agent string) map[string]string {
	s.t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(s.inbox(agent))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(s.inbox(agent), e.Name()))
		if errors.Is(err, fs.ErrNotExist) || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		all[e.Name()] = string(data)
	}
	return all
}

// noDebris waits until nothing lies in an inbox that is no message: what is being
// stored has a temporary name for a moment.
func (s *side) noDebris(agent string) {
	s.t.Helper()
	await.Until(s.t, s.name+" has no debris in the inbox of "+agent, func() bool {
		entries, err := os.ReadDir(s.inbox(agent))
		if err != nil {
			s.t.Fatal(err)
		}
		return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".yaml") && e.Name() != "archive" })
	})
}

// queued is a file as the queue shows it; the state is "" if it is not there.
func (s *side) queued(file string) Queued {
	for _, q := range s.ListQueue("demo") {
		if q.File == file {
			return q
		}
	}
	return Queued{}
}

// examined waits until the queue holds so many files and each was read.
func (s *side) examined(n int) {
	s.t.Helper()
	await.Until(s.t, "all are examined", func() bool {
		q := s.ListQueue("")
		return len(q) == n && !slices.ContainsFunc(q, func(q Queued) bool { return q.Hash == [32]byte{} })
	})
}

// storedArrival returns what came under a name, as the store has it; nil if nothing did.
func (s *side) storedArrival(file string) (found *arrival, err error) {
	err = s.db.Read(s.t.Context(), func(tx *store.Tx) error {
		all, err := sqlListArrivals(tx, "file = ?", file)
		if len(all) > 0 {
			found = all[0]
		}
		return err
	})
	return found, err
}

func (s *side) becomes(file string, state State) Queued {
	s.t.Helper()
	await.Until(s.t, file+" is "+string(state), func() bool { return s.queued(file).State == state })
	return s.queued(file)
}

func (s *side) holds(agent, file, text string) {
	s.t.Helper()
	await.Until(s.t, s.name+" holds "+file, func() bool { _, ok := s.files(agent)[file]; return ok })
	if got := s.files(agent)[file]; got != text {
		s.t.Errorf("%s: %s holds %q, want %q", s.name, file, got, text)
	}
}
