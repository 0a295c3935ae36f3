package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// server is the least of a daemon: it serves one path, remembers who attached and
// leaves the methods to the test.
type server struct {
	t        *testing.T
	path     string
	serve    func(ctx context.Context, c *jsonrpc.Conn, r *jsonrpc.Request)
	attached chan attachment
	l        net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []*jsonrpc.Conn
}

type attachment struct {
	params AttachParams
	conn   *jsonrpc.Conn
}

func newServer(t *testing.T, serve func(ctx context.Context, c *jsonrpc.Conn, r *jsonrpc.Request)) *server {
	s := &server{t: t, path: filepath.Join(t.TempDir(), SocketName), serve: serve, attached: make(chan attachment, 16)}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	l, err := net.Listen("unix", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.l = l
	s.running.Go(func() {
		for {
			socket, err := l.Accept()
			if err != nil {
				return
			}
			c := jsonrpc.NewConn(socket, jsonrpc.Options{Handler: s.handle, PushBack: true})
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.running.Go(func() { c.Run(context.Background()) })
		}
	})
}

// stop is a daemon's end: the socket goes, and all connections.
func (s *server) stop() {
	s.l.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.running.Wait()
}

func (s *server) handle(ctx context.Context, c *jsonrpc.Conn, r *jsonrpc.Request) {
	if r.Method == MethodAttach {
		var p AttachParams
		if err := r.ReadParams(&p); err != nil {
			r.RespondError(err)
			return
		}
		if p.Name == "taken" {
			r.RespondError(kinds.Errorf(kinds.Invalid, "name: %q is attached already", p.Name))
			return
		}
		r.Respond(&Attached{Key: cmp.Or(p.Key, "key of "+p.Name)})
		s.attached <- attachment{p, c}
		return
	}
	s.serve(ctx, c, r)
}

func wantUnavailable(t *testing.T, err error, words string) *kinds.Error {
	t.Helper()
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != kinds.DaemonUnavailable || !strings.Contains(e.Message, words) {
		t.Fatalf("got %v, want daemon_unavailable with %q", err, words)
	}
	return e
}

// Each method sends the params and reads the result that its types say.
func TestMethods(t *testing.T) {
	id := wire.NewMessageID()
	payload := wire.Payload(`{"question":"why","n":12345678901234567890}`)
	answer := `{"id":"` + id.String() + `","from":"` + identity.ID{1}.String() + `","kind":"response","rtt_us":7,"payload":{"summary":"so"}}`
	idText, text := `"`+id.String()+`"`, string(payload)
	task := `{"id":` + idText + `,"peer":"desk","direction":"given","task":"x","state":"completed"}`
	var gotMethod, gotParams, reply string
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		gotMethod, gotParams = r.Method, string(r.Params)
		r.Respond(jsontext.Value(reply))
	})
	c := &Client{Socket: s.path}
	defer c.Close()
	ctx := t.Context()
	tests := []struct {
		method, params, reply string
		call                  func() (any, error)
		good                  func(any) bool
	}{
		{"ping", `{"to":"desk","timeout_ms":5}`, answer,
			func() (any, error) { return c.Ping(ctx, PingParams{To: "desk", TimeoutMS: 5}) },
			func(r any) bool { return r.(*PingAnswer).RTTUS == 7 }},
		{"discover", `{"to":"desk","fresh":true}`, answer,
			func() (any, error) { return c.Discover(ctx, DiscoverParams{To: "desk", Fresh: true}) },
			func(r any) bool { return r.(*Answer).From == identity.ID{1} }},
		{"query", `{"thread":"t","parent":` + idText + `,"to":"desk","payload":` + text + `}`, answer,
			func() (any, error) {
				return c.Query(ctx, QueryParams{Head: Head{Thread: "t", Parent: id}, To: "desk", Payload: payload})
			},
			func(r any) bool { return string(r.(*Answer).Payload) == `{"summary":"so"}` && r.(*Answer).ID == id }},
		{"delegate", `{"id":` + idText + `,"to":"desk","payload":` + text + `}`, `{"id":` + idText + `,"payload":{"accepted":true}}`,
			func() (any, error) {
				return c.Delegate(ctx, DelegateParams{Head: Head{ID: id}, To: "desk", Payload: payload})
			},
			func(r any) bool { return r.(*DelegateAnswer).ID == id }},
		{"cancel", `{"ref":` + idText + `,"payload":{}}`, `{"ref":` + idText + `,"payload":{"accepted":true}}`,
			func() (any, error) { return c.Cancel(ctx, CancelParams{Ref: id}) },
			func(r any) bool { return r.(*CancelAnswer).Ref == id }},
		{"notify", `{"to":"desk","payload":` + text + `}`, `{"id":` + idText + `,"state":"handed"}`,
			func() (any, error) { return c.Notify(ctx, NotifyParams{To: To("desk"), Payload: payload}) },
			func(r any) bool { return r.(*Receipt).State == Handed }},
		{"notify", `{"to":["desk","laptop"],"payload":` + text + `,"wait":false}`,
			`[{"to":"desk","id":` + idText + `,"state":"sent"},{"to":"laptop","error":{"code":"unreachable","message":"m","retryable":true}}]`,
			func() (any, error) {
				return c.NotifyAll(ctx, NotifyParams{To: ToAll("desk", "laptop"), Payload: payload, Wait: new(bool)})
			},
			func(r any) bool {
				l := r.([]Receipt)
				return len(l) == 2 && l[0].State == Sent && l[1].Error.Code == kinds.Unreachable
			}},
		{"result", `{"ref":` + idText + `,"payload":` + text + `}`, `{"id":` + idText + `,"state":"held"}`,
			func() (any, error) { return c.SendResult(ctx, ResultParams{Ref: id, Payload: payload}) },
			func(r any) bool { return r.(*Receipt).State == Held }},
		{"error", `{"ref":` + idText + `,"payload":` + text + `}`, `{"id":` + idText + `,"state":"held"}`,
			func() (any, error) { return c.SendError(ctx, ResultParams{Ref: id, Payload: payload}) },
			func(r any) bool { return r.(*Receipt).ID == id }},
		{"status", ``, `{"name":"desk","state":"idle","agents":[{"name":"reviewer","since":"2026-11-20T10:00:00Z"}],"messages":{"in":{"query":3}}}`,
			func() (any, error) { return c.Status(ctx) },
			func(r any) bool { s := r.(*Status); return s.Name == "desk" && s.Messages.In["query"] == 3 }},
		{"peers", ``, `{"peers":[{"name":"desk","state":"pending","name_conflict":true}]}`,
			func() (any, error) { return c.Peers(ctx) },
			func(r any) bool { return r.([]Peer)[0].NameConflict }},
		{"tasks", `{}`, `{"tasks":[` + task + `]}`,
			func() (any, error) { return c.Tasks(ctx) },
			func(r any) bool { return r.([]Task)[0].State.IsFinal() }},
		{"task", `{"id":` + idText + `}`, task,
			func() (any, error) { return c.Task(ctx, id) },
			func(r any) bool { return r.(*Task).Direction == Given }},
		{"wait", `{"id":` + idText + `,"timeout_ms":9,"after_partials":0}`, task,
			func() (any, error) { return c.Wait(ctx, WaitParams{ID: id, TimeoutMS: 9, AfterPartials: new(uint64)}) },
			func(r any) bool { return r.(*Task).ID == id }},
		{"inbox", `{"limit":3,"kinds":["notify"]}`, `{"messages":[{"seq":4,"envelope":{"v":1,"kind":"notify","payload":` + text + `}}],"next":4}`,
			func() (any, error) { return c.Inbox(ctx, InboxParams{Limit: 3, Kinds: []string{"notify"}}) },
			func(r any) bool {
				in := r.(*Inbox)
				return in.Next == 4 && string(in.Messages[0].Envelope.Payload) == text
			}},
		{"ack", `{"up_to":4}`, `{"removed":1}`,
			func() (any, error) { return c.Ack(ctx, AckParams{UpTo: 4}) },
			func(r any) bool { return r.(*Acked).Removed == 1 }},
		{"invite", `{"expires_secs":60}`, `{"uri":"acp://x","expires":"2026-11-20T10:00:00Z"}`,
			func() (any, error) { return c.Invite(ctx, InviteParams{ExpiresSecs: 60}) },
			func(r any) bool { return r.(*Invitation).Expires.Year() == 2026 }},
		{"invitations", ``, `{"invitations":[{"id":"0badcafe","expires":"2026-11-20T10:00:00Z","used_by":{"name":"laptop"}}]}`,
			func() (any, error) { return c.Invitations(ctx) },
			func(r any) bool { return r.([]OpenInvitation)[0].UsedBy.Name == "laptop" }},
		{"revoke", `{"id":"0badcafe"}`, `{"revoked":1}`,
			func() (any, error) { return c.Revoke(ctx, RevokeParams{ID: "0badcafe"}) },
			func(r any) bool { return r.(*Revoked).Revoked == 1 }},
		{"join", `{"uri":"acp://x"}`, `{"name":"desk"}`,
			func() (any, error) { return c.Join(ctx, "acp://x") },
			func(r any) bool { return r.(*NamedPeer).Name == "desk" }},
		{"trust", `{"peer":"abc","name":"desk","addrs":["desk.example:7117"]}`, `{"name":"desk"}`,
			func() (any, error) {
				return c.Trust(ctx, TrustParams{Peer: "abc", Name: "desk", Addrs: []string{"desk.example:7117"}})
			},
			func(r any) bool { return r.(*NamedPeer).Name == "desk" }},
		{"untrust", `{"peer":"desk"}`, `{"name":"desk"}`,
			func() (any, error) { return c.Untrust(ctx, "desk") },
			func(r any) bool { return r.(*Untrusted).Name == "desk" }},
		{"pending", ``, `{"pending":[{"claim":"desk"}]}`,
			func() (any, error) { return c.Pending(ctx) },
			func(r any) bool { return r.([]PendingPeer)[0].Claim == "desk" }},
		{"policy", `{"peer":"desk","kind":"query","domain":"code"}`, `{"allowed":true,"rule":"default"}`,
			func() (any, error) { return c.Policy(ctx, PolicyParams{Peer: "desk", Kind: "query", Domain: "code"}) },
			func(r any) bool { return r.(*Policy).Allowed }},
	}
	for _, test := range tests {
		reply = test.reply
		r, err := test.call()
		if gotMethod != test.method || gotParams != test.params {
			t.Errorf("sent %s %s\nwant %s %s", gotMethod, gotParams, test.method, test.params)
		}
		if err != nil || !test.good(r) {
			t.Errorf("%s: got %+v, %v", test.method, r, err)
		}
	}
}

func TestBrokenPayloadIsNotSent(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { t.Errorf("%s was sent", r.Params) })
	c := &Client{Socket: s.path}
	defer c.Close()
	for _, payload := range []string{`{`, `{}}`, `{},"to":"laptop"`, `[]`, `"x"`, `{"a":"}`, `{} {}`, ` `} {
		if _, err := c.Query(t.Context(), QueryParams{To: "desk", Payload: wire.Payload(payload)}); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("%s: got %v", payload, err)
		}
	}
}

func TestReconnect(t *testing.T) {
	calls := make(chan string, 100)
	s := newServer(t, func(ctx context.Context, c *jsonrpc.Conn, r *jsonrpc.Request) {
		calls <- r.Method
		if r.Method == MethodQuery || r.Method == MethodInvite {
			<-ctx.Done()
			return
		}
		r.Respond(nil)
	})
	c := &Client{Socket: s.path}
	defer c.Close()
	if _, err := c.Whoami(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-calls
	failed, inviteFailed := make(chan error), make(chan error)
	go func() {
		_, err := c.Query(t.Context(), QueryParams{To: "desk"})
		failed <- err
	}()
	go func() {
		_, err := c.Invite(t.Context(), InviteParams{})
		inviteFailed <- err
	}()
	<-calls
	<-calls
	s.stop()
	if e := wantUnavailable(t, <-failed, "repeat it with the same id"); e.Delivered() != kinds.DeliveredUnknown || !e.Retryable {
		t.Errorf("got %v, delivered %q", e, e.Delivered())
	}
	wantUnavailable(t, <-inviteFailed, "unknown; repeat this") // it has no id
	_, err := c.Whoami(t.Context())
	wantUnavailable(t, err, "no daemon at")
	s.start()
	if _, err := c.Whoami(t.Context()); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if m := <-calls; m != MethodWhoami || len(calls) > 0 {
		t.Errorf("the daemon was asked %s, and %d more: something was repeated", m, len(calls))
	}
}

// Many first calls share one connection.
func TestOneConnection(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
	c := &Client{Socket: s.path}
	defer c.Close()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := c.Whoami(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) != 1 {
		t.Errorf("%d connections", len(s.conns))
	}
}
