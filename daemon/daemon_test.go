package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestOpenSaysWhatIsInTheWay: each obstacle is an error that names it and what to
// do, and is left as it was.
func TestOpenSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	key := func(t *testing.T, dir string) string {
		d, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "identity.key")
	}
	write := func(t *testing.T, path, text string) {
		writeFile(t, path, text)
	}
	for _, c := range []struct {
		name  string
		given func(t *testing.T, o *Options)
		want  []string
	}{
		{"a corrupt key", func(t *testing.T, o *Options) { write(t, key(t, o.Home), "no key") }, []string{"identity.key"}},
		{"a key open to others", func(t *testing.T, o *Options) {
			if err := os.Chmod(key(t, o.Home), 0o644); err != nil {
				t.Fatal(err)
			}
		}, []string{"identity.key", "chmod 600"}},
		{"a socket path too long", func(t *testing.T, o *Options) { o.Home = filepath.Join(o.Home, long(100)) }, []string{"http.sock", "shorter", "--home"}},
		{"an unknown configuration key", func(t *testing.T, o *Options) { writeConfig(t, o.Home, "name: desk\nlisen: x\n") }, []string{"config.yaml:2", `"lisen"`, `"listen"`}},
		{"a port that is taken", func(t *testing.T, o *Options) {
			c, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			o.Listen = c.LocalAddr().String()
		}, []string{"taken by another program: stop that, or choose another port with listen in config.yaml or --listen\n"}},
		{"a directory open to others", func(t *testing.T, o *Options) {
			key(t, o.Home)
			if err := os.Chmod(o.Home, 0o755); err != nil {
				t.Fatal(err)
			}
		}, []string{"chmod 700 "}},
		{"a file for the directory", func(t *testing.T, o *Options) {
			o.Home = filepath.Join(o.Home, "file")
			write(t, o.Home, "")
		}, []string{"file", "--home"}},
		{"something else for the socket", func(t *testing.T, o *Options) { write(t, filepath.Join(o.Home, "acp.sock"), "") }, []string{"acp.sock", "no socket"}},
		{"a corrupt database", func(t *testing.T, o *Options) { write(t, filepath.Join(o.Home, "state.db"), long(4096)) }, []string{"state.db", "damaged"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Home: stateDir(t), Listen: "127.0.0.1:0"}
			c.given(t, &o)
			before := snapshot(t, o.Home)
			d, err := OpenDaemon(t.Context(), o)
			if err == nil {
				d.Close()
				t.Fatal("it opens")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error()+"\n", want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			for name, was := range before {
				if now := snapshot(t, o.Home)[name]; now != was {
					t.Errorf("%s was %.40q and is %.40q", name, was, now)
				}
			}
		})
	}
}

// snapshot returns the files that a failed start may not change.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range []string{"identity.key", "config.yaml", "acp.sock"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			all[name] = string(b)
		}
	}
	return all
}

func TestSecondDaemonNamesTheFirst(t *testing.T) {
	t.Parallel()
	first := start(t, stateDir(t), "desk")
	ctx := await.NewContext(t)
	if _, err := lockHome(ctx, first.home, 2*await.Patience); !isHeld(err) || ctx.Err() != nil {
		t.Errorf("the first lives, which is not seen before the patience is over: %v", err)
	}
	_, err := OpenDaemon(t.Context(), Options{Home: first.dir, Listen: "127.0.0.1:0"})
	locked, ok := errors.AsType[*statedir.HeldError](err)
	if !ok || locked.PID != os.Getpid() || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Fatalf("%v", err)
	}
	first.dial().must("whoami", nil, nil) // nothing happened to the first
	first.stop()
	start(t, first.dir, "desk")
}

// The lock of a daemon that was killed is waited for; one that stays is not.
func TestDyingDaemonIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	dying, err := lockHome(t.Context(), home(dir), dyingTime)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0"})
	if _, ok := errors.AsType[*statedir.HeldError](err); !ok {
		t.Fatalf("%v", err)
	}
	time.AfterFunc(dyingTime/10, func() { dying.Close() })
	start(t, dir, "desk")
}

func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	if err := os.Chmod(dir, 0o755); err != nil { // empty: made for us by a careless hand
		t.Fatal(err)
	}
	d := start(t, dir, "desk")
	if !d.HasNewIdentity() {
		t.Error("a new identity is not called new")
	}
	for name, want := range map[string]fs.FileMode{"": 0o700, "acp.sock": 0o600, "http.sock": 0o600, "identity.key": 0o600, "state.db": 0o600, "lock": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}
	d.stop()
	if _, err := os.Stat(d.home.ownerSocketPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	if again := start(t, dir, "desk"); again.HasNewIdentity() || again.ID() != d.ID() {
		t.Errorf("new: %v, %s and %s", again.HasNewIdentity(), again.ID(), d.ID())
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "acp.sock")})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	start(t, dir, "desk").dial().must("whoami", nil, nil)
}

// It runs alone: a daemon of another test could take the port meanwhile.
func TestChosenPortIsKept(t *testing.T) {
	d := start(t, stateDir(t), "desk")
	first := d.node.Addr().String()
	d.stop()
	d = start(t, d.dir, "desk")
	if again := d.node.Addr().String(); again != first {
		t.Errorf("listens on %s, before on %s", again, first)
	}
	d.stop()
	c, err := net.ListenPacket("udp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d = start(t, d.dir, "desk")
	if again := d.node.Addr().String(); again == first {
		t.Error("two listen on one port")
	}
}

// A key that has gone while its peers are still listed is an accident, and told.
func TestLostKeyIsTold(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	for want, lost := range []bool{false, true} {
		if lost {
			os.Remove(filepath.Join(dir, "identity.key"))
		}
		var log bytes.Buffer
		d, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0", NoMDNS: true, Log: &log})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.trust.Trust(identity.Peer{ID: identity.ID{7}, Name: "planner"}); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "restore the key from a backup"); got != want {
			t.Errorf("lost: %v: %s", lost, log.String())
		}
	}
}

func TestBadLinesAndWrongNames(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	c := desk.raw()
	for _, step := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,"method"`, `-32700`},
		{`[]`, `-32600`},
		{`{"id":1,"method":"whoami"}`, `-32600`},
		{`{"jsonrpc":"2.0","id":2,"method":"no such thing"}`, `-32601`},
		{`{"jsonrpc":"2.0","id":3,"method":"query","params":{"to":1}}`, `-32602`},
		{`{"jsonrpc":"2.0","id":3,"method":"query","params":{"tos":"laptop"}}`, `tos`},
		{`{"jsonrpc":"2.0","id":4,"method":"query","params":{"to":"laptop","id":"17","payload":{"question":"?"}}}`, `id`},
		{`{"jsonrpc":"2.0","id":5,"method":"query","params":{"to":"laptop","payload":{}}}`, `question`},
		{`{"jsonrpc":"2.0","id":6,"method":"query","params":{"to":"laptop","payload":{"question":"?","question":"?"}}}`, `"invalid"`},
		{`{"jsonrpc":"2.0","id":7,"method":"query","params":{"to":"laptob","payload":{"question":"?"}}}`, `"unknown_peer"`},
		{`{"jsonrpc":"2.0","id":8,"method":"query","params":{"to":"` + desk.ID().String() + `","payload":{"question":"?"}}}`, `itself`},
		{`{"jsonrpc":"2.0","id":9,"method":"query","params":{"to":"","payload":{"question":"?"}}}`, `"unknown_peer"`},
		{`{"jsonrpc":"2.0","id":10,"method":"result","params":{"ref":"3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b","payload":{}}}`, `"not_found"`},
		{`{"jsonrpc":"2.0","id":11,"method":"ack","params":{}}`, `"invalid"`},
		{`{"jsonrpc":"2.0","id":12,"method":"attach","params":{"name":"a/b"}}`, `"invalid"`},
		{`{"jsonrpc":"2.0","id":13,"method":"attach","params":{"name":"a","kinds":["pong"]}}`, `"invalid"`},
		{`{"jsonrpc":"2.0","id":14,"method":"notify","params":{"to":[],"payload":{"topic":"t"}}}`, `to`},
		{`{"jsonrpc":"2.0","id":15,"method":"trust","params":{"peer":"` + desk.ID().String() + `"}}`, `itself`},
		{`{"jsonrpc":"2.0","id":16,"method":"trust","params":{"peer":"` + strings.Repeat("ab", 32) + `","name":"laptop"}}`, `laptop`},
		{`{"jsonrpc":"2.0","id":"last","method":"ping","params":{"to":"laptop"}}`, `"id":"last"`},
	} {
		if got := c.line(step.line); !strings.Contains(got, step.want) {
			t.Errorf("%s\n gives %s\n without %s", step.line, got, step.want)
		}
	}
	for _, name := range []string{"planner", "reviewer"} { // two ids that begin alike
		id := strings.Repeat("0", 62) + map[string]string{"planner": "01", "reviewer": "02"}[name]
		desk.dial().must("trust", client.TrustParams{Peer: id, Name: name}, nil)
	}
	desk.dial().refused(kinds.UnknownPeer, "ping", client.PingParams{To: "000000"}, "planner", "reviewer")
	e := desk.dial().refused(kinds.TooLarge, "query", client.QueryParams{To: "laptop", Payload: query(long(wire.DefaultMaxMessage))})
	if e.Delivered() != kinds.DeliveredNo {
		t.Errorf("%+v", e)
	}
	if _, err := c.Write([]byte(long(wire.DefaultMaxMessage + jsonrpc.LineMargin + 2))); err != nil {
		t.Fatal(err)
	}
	if !c.Scan() || !strings.Contains(c.Scanner.Text(), "too_large") || c.Scan() {
		t.Errorf("a line too long gives %q, and then the connection lives: %v", c.Scanner.Text(), c.Err())
	}
	laptop.dial().must("whoami", nil, nil)
}

func TestStatusAndWhoami(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	desk.agent(client.AttachParams{Name: "planner", Domains: []string{"plans"}}, nil)
	asker := desk.dial()
	asker.must("ping", client.PingParams{To: "laptop"}, nil)
	s := get[client.Status](asker, "status", nil)
	if s.ID != desk.ID() || s.Name != "desk" || s.State != "idle" || s.PeersConnected != 1 || s.Home != desk.dir || s.Version != "test" ||
		len(s.Agents) != 1 || s.Agents[0].MaxConcurrent != 4 || s.Messages.Out["ping"] != 1 || s.Messages.In["pong"] != 1 || len(s.Listen) == 0 {
		t.Errorf("%+v", s)
	}
	laptop.dial().must("status", nil, &s)
	if s.Messages.In["ping"] != 1 || s.Messages.Out["pong"] != 1 {
		t.Errorf("%+v", s.Messages)
	}
}

// holds: security.md#agents-on-this-machine
func TestAgentNamesAreUnique(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	first := desk.agent(client.AttachParams{Name: "planner"}, nil)
	second := desk.dial()
	second.refused(kinds.Invalid, "attach", client.AttachParams{Name: "planner"})
	second.must("attach", client.AttachParams{Name: "planner", TakeOver: true}, nil)
	select {
	case <-first.Done():
	case <-t.Context().Done():
	}
	second.must("attach", client.AttachParams{Name: "reviewer"}, nil) // a new one replaces the connection's own
	if all := desk.registry.ListAgents(); len(all) != 1 || all[0].Name != "reviewer" {
		t.Errorf("%+v", all)
	}
}
