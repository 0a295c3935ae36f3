//go:build faults

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// cgroup is a group of processes with a bound on memory.
type cgroup struct {
	dir                string
	limit, most, kills string // its files
}

// newCgroup makes one that ends with the test; the test fails where none can be made.
func newCgroup(t *testing.T, bytes int) *cgroup {
	t.Helper()
	name := "acpd-faults-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	var tried []error
	for _, g := range []*cgroup{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"},
		{"/sys/fs/cgroup", "memory.max", "memory.peak", "memory.events"},
	} {
		g.dir = filepath.Join(g.dir, name)
		err := os.Mkdir(g.dir, 0o755)
		if err == nil {
			if err = os.WriteFile(filepath.Join(g.dir, g.limit), []byte(strconv.Itoa(bytes)), 0); err == nil {
				t.Cleanup(func() {
					await.Until(t, "the cgroup is gone", func() bool { return os.Remove(g.dir) == nil })
				})
				return g
			}
			os.Remove(g.dir)
		}
		tried = append(tried, err)
	}
	t.Fatalf("no cgroup with a bound on memory can be made: mount a hierarchy of version 1 with the controller memory on /sys/fs/cgroup/memory, or one of version 2 on /sys/fs/cgroup that delegates it: %v", errors.Join(tried...))
	return nil
}

func (g *cgroup) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// killed returns how many processes the kernel has ended for want of memory.
func (g *cgroup) killed(t *testing.T) string {
	for line := range strings.Lines(g.read(t, g.kills)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n)
		}
	}
	t.Fatalf("%s does not say how many it killed", g.kills)
	return ""
}

// hostile is a trusted peer that does all it can to take the memory of a daemon.
type hostile struct {
	*peer.Node
	at      identity.ID
	intent  string
	channel string
	calls   sync.WaitGroup
	done    [6]atomic.Int64 // what it did of each kind
}

// press goes on until ctx ends, with one kind after the other, each for so long: at the
// same time they would be in each other's way on one connection.
func (h *hostile) press(ctx context.Context, first int, each time.Duration) {
	for i := first; ctx.Err() == nil; i++ {
		within, cancel := context.WithTimeout(ctx, each)
		h.pressWith(within, i%len(h.done))
		cancel()
	}
}

// pressWith does one kind of things until ctx ends.
func (h *hostile) pressWith(ctx context.Context, what int) {
	big := `"` + strings.Repeat("x", 900<<10) + `"`
	repeat := func(kind, together int, once func(context.Context) error) {
		if kind != what {
			return
		}
		for range together {
			h.calls.Go(func() {
				for ctx.Err() == nil {
					within, cancel := context.WithTimeout(ctx, 5*time.Second)
					if err := once(within); err == nil || within.Err() != nil { // what has waited all its time has pressed too
						h.done[kind].Add(1)
					} else { // as a program would that was refused
						time.Sleep(20 * time.Millisecond)
					}
					cancel()
				}
			})
		}
	}
	repeat(0, 8, func(ctx context.Context) error { // large messages that are never acknowledged
		_, err := h.Send(ctx, message(h.Node, h.at, kinds.KindNotify, &kinds.Notify{Topic: "build", Data: []byte(big)}), true)
		return err
	})
	repeat(1, 100, func(ctx context.Context) error { // queries that wait for a slow agent
		_, _, err := h.Exchange(ctx, message(h.Node, h.at, kinds.KindQuery, &kinds.Query{Question: big[1 : 200<<10]}))
		return err
	})
	half := func(kind int, t wire.StreamType, text string) func(context.Context) error {
		return func(ctx context.Context) error { // begun, and never ended
			s, err := h.OpenStream(ctx, h.at, t)
			if err != nil {
				return err
			}
			defer s.Cancel()
			if _, err := s.Write([]byte(text)); err != nil {
				return err
			}
			h.done[kind].Add(1)
			<-ctx.Done()
			return nil
		}
	}
	head := "POST /api/v1/channels/" + h.channel + "/messages HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: worker\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n"
	repeat(2, 100, half(2, wire.StreamHTTP, head+strings.Repeat("x", 50<<10)))
	repeat(3, 50, half(3, wire.StreamMail, strings.Repeat("\x82", 1<<10)))
	repeat(4, 8, func(ctx context.Context) error { // a channel that is flooded
		body := `{"message_type":"notify","payload":{"text":"` + strings.Repeat("x", 200<<10) + `"}}`
		return h.web(ctx, "POST", "channels/"+h.channel+"/messages", body, true)
	})
	repeat(5, 50, func(ctx context.Context) error { // answers that nobody reads
		return h.web(ctx, "GET", "channels/"+h.channel+"/messages?wait=0&limit=200", "", false)
	})
	h.calls.Wait()
}

// web makes a request, and reads its answer or leaves it lying.
func (h *hostile) web(ctx context.Context, method, path, body string, read bool) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://acpd/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Agent-ID", "worker")
	s, err := h.OpenStream(ctx, h.at, wire.StreamHTTP)
	if err != nil {
		return err
	}
	defer s.Cancel()
	if err := errors.Join(r.Write(s), s.CloseWrite()); err != nil {
		return err
	}
	if !read {
		_, err := io.ReadFull(s, make([]byte, 64))
		<-ctx.Done()
		return err
	}
	text, err := io.ReadAll(s)
	if err == nil && !bytes.HasPrefix(text, []byte("HTTP/1.1 201")) {
		err = fmt.Errorf("%.80s", text)
	}
	return err
}

// TestLittleMemory: in a cgroup of 256 MiB, with GOMEMLIMIT below it, three trusted
// peers that take whatever they can do not end the daemon, and another one's calls go
// on; afterwards what it told that one is so, and all is closed again.
func TestLittleMemory(t *testing.T) {
	const bound, hostiles = 256 << 20, 3
	pressed := time.Minute
	if testing.Short() {
		pressed = 15 * time.Second
	}
	g := newCgroup(t, bound)
	desk := newMachine(t, "desk")
	// What lies on a file system in memory would count as the daemon's.
	home, err := os.MkdirTemp("/var/tmp", "acp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	desk.Home = home
	desk.Client = &client.Client{Socket: desk.SocketPath()}
	t.Cleanup(func() { desk.Client.Close() })
	desk.Env = append(desk.Env, "GOMEMLIMIT=220MiB")
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("channels: {open_to: [\"*\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.Acpd = desk.StartProcess(append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, g.dir}, desk.DaemonCommand()...)...)
	desk.AwaitReady()
	slow := func(ctx context.Context, _ *client.Inbound) (any, error) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second / 2):
		}
		return &kinds.Response{Summary: strings.Repeat("y", 100<<10)}, nil
	}
	desk.Attach(client.AttachParams{Name: "reviewer", MaxConcurrent: 64}, client.Handler{Query: slow})

	s := &subject{Machine: desk.Machine}
	intent := between(s.must("planner", "POST", "intents", `{"title":"Ship it"}`), `"id":"`, `"`)
	nodes := []*peer.Node{node(desk.Machine, "laptop")}
	for i := range hostiles {
		nodes = append(nodes, node(desk.Machine, fmt.Sprintf("mill-%d", i)))
	}
	for _, n := range nodes {
		if _, _, err := n.Exchange(await.NewContext(t), message(n, desk.ID, kinds.KindPing, nil)); err != nil {
			t.Fatal(err)
		}
	}
	calm(desk)
	good := nodes[0]
	ctx, cancel := context.WithTimeout(t.Context(), pressed)
	defer cancel()
	var pressing sync.WaitGroup
	var all []*hostile
	for i := range hostiles {
		channel := between(s.must("planner", "POST", "intents/"+intent+"/channels", fmt.Sprintf(`{"name":"build-%d"}`, i)), `"id":"`, `"`)
		h := &hostile{Node: nodes[1+i], at: desk.ID, intent: intent, channel: channel}
		all = append(all, h)
		pressing.Go(func() { h.press(ctx, 2*i, pressed/time.Duration(len(h.done))) })
	}
	var held []wire.MessageID
	calls := 0
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if _, _, err := good.Exchange(within, message(good, desk.ID, kinds.KindPing, nil)); err != nil {
			t.Errorf("ping %d: %v", calls, err)
		}
		note := message(good, desk.ID, kinds.KindNotify, &kinds.Notify{Topic: "build"})
		if o, err := good.Send(within, note, true); err != nil || o != "held" {
			t.Errorf("notify %d: %v %v", calls, o, err)
		} else {
			held = append(held, note.ID)
		}
		cancel()
		calls++
		time.Sleep(50 * time.Millisecond) // the pace of the calls
	}
	pressing.Wait()
	for i := range all[0].done {
		sum := int64(0)
		for _, h := range all {
			sum += h.done[i].Load()
		}
		t.Logf("kind %d: the three did %d", i, sum)
		if sum == 0 {
			t.Errorf("nothing of kind %d got as far as to press anything", i)
		}
	}
	t.Logf("%d rounds of the other peer; memory at most %s of %d bytes, page cache included", calls, g.read(t, g.most), bound)
	if n := g.killed(t); n != "0" || !desk.Acpd.IsRunning() {
		t.Fatalf("the kernel has killed %s processes for want of memory", n)
	}
	desk.hasOnce(held)
	desk.closes()
}

// node is one in this process that a daemon trusts.
func node(m *live.Machine, name string) *peer.Node {
	m.T.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		m.T.Fatal(err)
	}
	trust := identity.NewMemoryTrustStore()
	if _, err := trust.Trust(identity.Peer{ID: m.ID, Name: "desk", Addrs: []string{m.Addr}}); err != nil {
		m.T.Fatal(err)
	}
	n, err := peer.Listen(peer.Config{Key: key, Trust: trust, Listen: "127.0.0.1:0"})
	if err != nil {
		m.T.Fatal(err)
	}
	m.MustOutput("trust", key.ID().String(), "--name", name, "--yes")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Serve(ctx) }()
	m.T.Cleanup(func() { cancel(); <-done })
	return n
}

// message returns a message of a node, checked; without payload if that is nil.
func message(from *peer.Node, to identity.ID, kind string, payload any) kinds.Checked {
	var text wire.Payload
	if payload != nil {
		text = kinds.EncodePayload(payload)
	}
	m, err := kinds.CheckEnvelope(wire.NewEnvelope(from.ID(), to, kind, text))
	if err != nil {
		panic(err)
	}
	return m
}
