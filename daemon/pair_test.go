package daemon

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// running is a daemon that runs in this process, on loopback and a real socket.
type running struct {
	*Daemon
	t    testing.TB
	dir  string
	stop func()

	isKilled bool // a test has broken it: Run may fail
}

// reloadConfig reads the daemon's config.yaml again.
func (r *running) reloadConfig() (*client.Reloaded, error) { return r.config.Reload() }

// configure makes settings count.
func (d *running) configure(text string) {
	d.t.Helper()
	writeConfig(d.t, d.dir, text)
	if _, err := d.reloadConfig(); err != nil {
		d.t.Fatal(err)
	}
}

// stateDir makes a state directory with a path that a socket can have.
func stateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acpd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeConfig(t testing.TB, dir, text string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "config.yaml"), text)
}

// start runs a daemon on dir until the test ends or stop is called.
func start(t testing.TB, dir, name string) *running {
	t.Helper()
	return startWith(t, Options{Home: dir, Listen: "127.0.0.1:0", Name: name, NoMDNS: true})
}

// startConfigured runs a daemon with a config.yaml.
func startConfigured(t testing.TB, name, config string) *running {
	t.Helper()
	dir := stateDir(t)
	writeConfig(t, dir, config)
	return start(t, dir, name)
}

func startWith(t testing.TB, o Options) *running {
	t.Helper()
	addTables(t, o.Home)
	if o.Version = "test"; o.Log == nil {
		o.Log = logTo(t)
	}
	d, err := OpenDaemon(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir, name := o.Home, o.Name
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, nil) }()
	r := &running{Daemon: d, t: t, dir: dir}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil && !r.isKilled {
				t.Errorf("%s: Run: %v", name, err)
			}
		case <-time.After(await.Patience):
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			t.Errorf("%s does not end", name)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// addTables gives a state directory that has no state.db one with all tables and no rows. To
// make them anew costs most of what opening a daemon does, under the race detector above all.
func addTables(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, "state.db")
	if _, err := os.Lstat(path); err == nil {
		return
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm() != 0o700 {
		return // open to others: the daemon mends that only if the directory is empty
	}
	tables.Do(func() { tables.db, tables.err = makeTables(live.PickAddr(t)) }) // else all would try to have the port that this one has kept
	if tables.err != nil {
		t.Fatal(tables.err)
	}
	if err := os.WriteFile(path, tables.db, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tables is the state.db that makeTables has made.
var tables struct {
	sync.Once
	db  []byte
	err error
}

// makeTables returns the state.db that a daemon at an address has made and closed.
func makeTables(addr string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "acpd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := OpenDaemon(context.Background(), Options{Home: dir, Listen: addr, Name: "tables", NoMDNS: true, Version: "test"})
	if err != nil {
		return nil, err
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "state.db"))
}

// logTo shows a daemon's log where a test asks for it.
func logTo(t testing.TB) *testLog {
	if os.Getenv("ACPD_TEST_LOG") == "" {
		return nil
	}
	return &testLog{t}
}

type testLog struct{ t testing.TB }

func (l *testLog) Write(b []byte) (int, error) {
	if l == nil {
		return len(b), nil
	}
	os.Stderr.Write(append([]byte(l.t.Name()+": "), b...))
	return len(b), nil
}

// pair runs two daemons that trust each other: desk and laptop.
func pair(t testing.TB) (desk, laptop *running) {
	t.Helper()
	desk, laptop = start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	return desk, laptop
}

// befriend makes two daemons trust each other under the names that they have.
func befriend(t testing.TB, a, b *running) {
	t.Helper()
	a.dial().must("trust", client.TrustParams{Peer: b.ID().String(), Name: b.name, Addrs: []string{b.node.Addr().String()}}, nil)
	b.dial().must("trust", client.TrustParams{Peer: a.ID().String(), Name: a.name, Addrs: []string{a.node.Addr().String()}}, nil)
	await.Until(t, "connected", func() bool {
		_, there := a.node.Peer(b.ID())
		_, back := b.node.Peer(a.ID())
		_, recorded := a.addresses.FindLast(b.ID()) // by the event that follows
		return there && back && !recorded.IsZero()
	})
}

// program is a connection to a daemon's socket.
type program struct {
	*jsonrpc.Conn
	t testing.TB
}

type handler func(ctx context.Context, r *jsonrpc.Request)

func (d *running) dial() *program { return d.dialWith(nil) }

func (d *running) dialWith(h handler) *program {
	d.t.Helper()
	return d.dialAt(d.home.ownerSocketPath(), h)
}

func (d *running) dialAt(path string, h handler) *program {
	d.t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		d.t.Fatal(err)
	}
	o := jsonrpc.Options{}
	if h != nil {
		o.Handler = func(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { h(ctx, r) }
	}
	conn := jsonrpc.NewConn(c, o)
	ended := make(chan struct{})
	go func() { defer close(ended); conn.Run(context.Background()) }()
	l := &program{conn, d.t}
	d.t.Cleanup(func() { conn.Close(); <-ended })
	return l
}

// agent attaches an agent that answers with h.
func (d *running) agent(p client.AttachParams, h handler) *program {
	d.t.Helper()
	l := d.dialWith(h)
	l.must("attach", p, nil)
	return l
}

// awaitLeft waits until no agent of a name is attached.
func (d *running) awaitLeft(name string) {
	d.t.Helper()
	await.Until(d.t, name+" has left", func() bool { return d.registry.FindByName(name) == nil })
}

func (l *program) call(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	return l.Call(ctx, method, params, result)
}

func (l *program) must(method string, params, result any) {
	l.t.Helper()
	if err := l.call(method, params, result); err != nil {
		l.t.Fatalf("%s: %v", method, err)
	}
}

// caller is a program, or an agent that a test plays.
type caller interface {
	must(method string, params, result any)
	tb() testing.TB
}

func (l *program) tb() testing.TB { return l.t }

// get makes a call that must succeed, and returns its result.
func get[T any](l caller, method string, params any) (result T) {
	l.tb().Helper()
	l.must(method, params, &result)
	return result
}

// later makes a call in the background, and returns where its error comes.
func later(l *program, method string, params any) <-chan error {
	failed := make(chan error, 1)
	go func() { failed <- l.call(method, params, nil) }()
	return failed
}

// refused makes a call that must fail with a code.
func (l *program) refused(code kinds.Code, method string, params any, words ...string) *kinds.Error {
	l.t.Helper()
	err := l.call(method, params, nil)
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != code {
		l.t.Fatalf("%s: got %v, want %s", method, err, code)
	}
	for _, word := range words {
		if !strings.Contains(e.Message, word) {
			l.t.Errorf("%s: %q without %q", method, e.Message, word)
		}
	}
	return e
}

func bind(t testing.TB, r *jsonrpc.Request) *client.Inbound {
	t.Helper()
	in := new(client.Inbound)
	if err := r.ReadParams(in); err != nil {
		t.Errorf("%s: %v", r.Method, err)
	}
	return in
}

// say answers every request with one payload.
func say(payload string) handler {
	return func(_ context.Context, r *jsonrpc.Request) { r.Respond(wire.Payload(payload)) }
}

// into passes what comes on, and confirms it.
func into(t testing.TB, got chan<- *client.Inbound, answer string) handler {
	return func(_ context.Context, r *jsonrpc.Request) {
		in := bind(t, r)
		r.Respond(wire.Payload(answer))
		got <- in
	}
}

// raw is a connection that says what it likes.
type raw struct {
	net.Conn
	*bufio.Scanner
	t testing.TB
}

func (d *running) raw() *raw {
	d.t.Helper()
	c, err := net.Dial("unix", d.home.ownerSocketPath())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	s := bufio.NewScanner(c)
	s.Buffer(nil, 4<<20)
	return &raw{c, s, d.t}
}

// line says one and returns the answer.
func (r *raw) line(text string) string {
	r.t.Helper()
	if _, err := r.Write([]byte(text + "\n")); err != nil {
		r.t.Fatal(err)
	}
	if !r.Scan() {
		r.t.Fatalf("%.80s: no answer: %v", text, r.Err())
	}
	return r.Scanner.Text()
}

func query(question string) wire.Payload {
	return kinds.EncodePayload(&kinds.Query{Question: question})
}

func long(n int) string { return strings.Repeat("x", n) }

func parse[T any](t testing.TB, p wire.Payload) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal(p.Object(), v); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return v
}
