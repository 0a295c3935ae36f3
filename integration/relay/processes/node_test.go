package processes

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/relay"
	"github.com/acpd/acpd/wire"
)

// relayLink is a relay as a link of a node, as package daemon makes it.
type relayLink struct{ *relay.Link }

func (relayLink) Path() peer.Path { return peer.ViaRelay }

func (l relayLink) Run(ctx context.Context, n peer.LinkObserver) error { return l.Link.Run(ctx, n) }

// node is one in this process, on a relay.
type node struct {
	*peer.Node
	key    *identity.Key
	trust  *identity.TrustStore
	link   *relay.Link
	events [3]atomic.Int64 // up, moved, down
	stop   func()
}

// roots returns the authority of the server's certificate.
func (s *server) roots() *x509.CertPool {
	s.t.Helper()
	text, err := os.ReadFile(s.cert)
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// newNode makes a node and has it serve until the test ends. It stays on the relay.
func newNode(t *testing.T, s *server, roots *x509.CertPool, token string) *node {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{key: key, trust: identity.NewMemoryTrustStore()}
	n.link, err = relay.Open(relay.Config{
		Name: "hub", URL: s.url(), Roots: roots, Credentials: relay.Credentials{Token: token},
		Self: key.ID(), Key: key.DeriveSecret(relay.KeyLabel),
		Admit: func(id identity.ID) relay.Admission {
			if _, trusted := n.trust.FindPeer(id); trusted {
				return relay.Trusted
			}
			return relay.Refused
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Node, err = peer.Listen(peer.Config{
		Key: key, Trust: n.trust, Listen: "127.0.0.1:0", Links: []peer.Link{relayLink{n.link}}, NoUpgrade: true,
		Exchange: n.answer, Event: n.count, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.stop)
	return n
}

func (n *node) count(e peer.Event) {
	for i, kind := range []peer.EventType{peer.EventUp, peer.EventMoved, peer.EventDown} {
		if e.Type == kind {
			n.events[i].Add(1)
		}
	}
}

// answer answers a query with what was asked, and by whom.
func (n *node) answer(_ context.Context, request *peer.Passing) (*wire.Envelope, error) {
	if request.Kind == kinds.KindPing {
		return wire.NewReply(request.Envelope, kinds.KindPong, kinds.EncodePayload(&kinds.Pong{Status: "idle"})), nil
	}
	q, err := kinds.ParsePayload[kinds.Query](request.Payload)
	if err != nil {
		return nil, err
	}
	answer := kinds.EncodePayload(&kinds.Response{Summary: request.From.String() + " asks: " + q.Question})
	return wire.NewReply(request.Envelope, kinds.KindResponse, answer), nil
}

// trusts enters a peer into the trust store.
func (n *node) trusts(t *testing.T, id identity.ID, name string) {
	t.Helper()
	if _, err := n.trust.Trust(identity.Peer{ID: id, Name: name}); err != nil {
		t.Fatal(err)
	}
}

// newRequest returns a request of a node, checked.
func newRequest(from *node, to identity.ID, kind string, payload wire.Payload) kinds.Checked {
	request, err := kinds.CheckEnvelope(wire.NewEnvelope(from.ID(), to, kind, payload))
	if err != nil {
		panic(err)
	}
	return request
}

// ask asks another node, whose answer must say what was asked, and by whom.
func (n *node) ask(ctx context.Context, to identity.ID, question string) error {
	reply, _, err := n.Exchange(ctx, newRequest(n, to, kinds.KindQuery, kinds.EncodePayload(&kinds.Query{Question: question})))
	if err != nil {
		return err
	}
	answer, err := kinds.ParsePayload[kinds.Response](reply.Payload)
	if err != nil {
		return err
	}
	if want := n.ID().String() + " asks: " + question; answer.Summary != want {
		return fmt.Errorf("the answer is %q, want %q", answer.Summary, want)
	}
	return nil
}

// ping returns how long an exchange with a daemon took.
func (n *node) ping(ctx context.Context, to identity.ID) (time.Duration, error) {
	began := time.Now()
	_, _, err := n.Exchange(ctx, newRequest(n, to, kinds.KindPing, nil))
	return time.Since(began), err
}

// awaitUp waits until the node is on the relay.
func (n *node) awaitUp(t *testing.T) {
	t.Helper()
	await.Until(t, "a node is on the relay", func() bool { return n.link.State().Standing == relay.Connected })
}

// readKiB returns a value of /proc/PID/status.
func readKiB(t *testing.T, pid int, name string) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib
		}
	}
	t.Fatalf("%d has no %s", pid, name)
	return 0
}
