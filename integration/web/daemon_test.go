//go:build web

package web

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	page "github.com/acpd/acpd/internal/app/web"
	"github.com/acpd/acpd/wire"
)

// world is what a daemon answers that a test has written.
type world struct {
	*clitest.FakeDaemon

	mu        sync.Mutex
	status    client.Status
	peers     []client.Peer
	agents    []client.AgentState
	wait      []client.Approval
	tasks     []client.Task
	held      []client.HeldMessage
	files     []client.File
	budget    client.Budget
	spent     client.Spent
	bindings  []client.OACPBinding
	mail      []client.OACPQueued
	entries   []client.TrafficEntry // the first one has the number 2
	open      []client.TrafficEntry
	channels  map[string]string // answers in JSON, by method and path below /api/v1/
	decided   []client.ApproveParams
	muted     []client.MuteAgentParams
	acked     []client.AckParams
	cancelled []wire.MessageID
	calls     int
	more      chan struct{} // closed when there are more entries
}

func newWorld(t *testing.T) *world {
	w := &world{FakeDaemon: clitest.NewFakeDaemon(t, nil), more: make(chan struct{})}
	w.status.Name, w.status.ID, w.status.Version, w.status.State, w.status.Ready, w.status.UptimeSecs = "laptop", clitest.MyID, "0.2.0", client.DaemonIdle, true, 7261
	w.channels = map[string]string{"GET intents": `{"intents":[]}`}
	set := func(method string, answer func() any) {
		w.SetHandler(method, func(*jsonrpc.Request) (any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls++
			return answer(), nil
		})
	}
	set(client.MethodWhoami, func() any { return &w.status.Whoami })
	set(client.MethodStatus, func() any { return &w.status })
	set(client.MethodPeers, func() any { return client.Peers{Peers: w.peers} })
	set(client.MethodAgents, func() any { return client.Agents{Agents: w.agents} })
	set(client.MethodApprovals, func() any { return client.Approvals{Approvals: w.wait} })
	set(client.MethodTasks, func() any { return client.Tasks{Tasks: w.tasks} })
	set(client.MethodInbox, func() any { return client.Inbox{Messages: w.held} })
	set(client.MethodFiles, func() any { return client.Files{Files: w.files} })
	set(client.MethodBudget, func() any { return &w.budget })
	set(client.MethodBudgetSpent, func() any { return &w.spent })
	set(client.MethodOACPBindings, func() any { return client.OACPBindings{Bindings: w.bindings} })
	set(client.MethodOACPQueue, func() any { return client.OACPQueue{Entries: w.mail} })
	set(client.MethodSubscribe, func() any { return struct{}{} })
	w.SetHandler(client.MethodApprove, func(r *jsonrpc.Request) (any, error) {
		var p client.ApproveParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.decided = append(w.decided, p)
		w.wait = nil
		return &client.Approval{ID: p.ID, Message: clitest.SomeID}, nil
	})
	w.SetHandler(client.MethodMuteAgent, func(r *jsonrpc.Request) (any, error) {
		var p client.MuteAgentParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.muted = append(w.muted, p)
		for i := range w.agents {
			if w.agents[i].Name == p.Name && w.agents[i].Woken != nil {
				w.agents[i].Woken.MutedUntil = client.Time{}
				if p.Secs > 0 {
					w.agents[i].Woken.MutedUntil = client.Time{Time: time.Now().Add(time.Duration(p.Secs) * time.Second)}
				}
			}
		}
		return &client.Muted{Name: p.Name}, nil
	})
	set(client.MethodShown, func() any { return struct{}{} })
	w.SetHandler(client.MethodAck, func(r *jsonrpc.Request) (any, error) {
		var p client.AckParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.acked = append(w.acked, p)
		before := len(w.held)
		w.held = slices.DeleteFunc(w.held, func(m client.HeldMessage) bool { return slices.Contains(p.IDs, m.Envelope.ID) })
		return &client.Acked{Removed: before - len(w.held)}, nil
	})
	set(client.MethodTask, func() any { return &w.tasks[0] })
	w.SetHandler(client.MethodCancel, func(r *jsonrpc.Request) (any, error) {
		var p client.CancelParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cancelled = append(w.cancelled, p.Ref)
		return &client.CancelAnswer{Ref: p.Ref}, nil
	})
	w.SetHandler(client.MethodTraffic, w.answerTraffic)
	w.SetHTTPHandler(w.answerChannels)
	return w
}

// answerTraffic answers as a daemon with a history that is long enough.
func (w *world) answerTraffic(r *jsonrpc.Request) (any, error) {
	var p client.TrafficParams
	if err := r.ReadParams(&p); err != nil {
		return nil, err
	}
	w.mu.Lock()
	more := w.more
	if p.WaitMS > 0 && int(p.After) > len(w.entries) {
		w.mu.Unlock()
		select {
		case <-more:
		case <-time.After(time.Duration(p.WaitMS) * time.Millisecond):
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	w.calls++
	from := max(0, int(p.After)-1)
	fresh := w.entries[min(from, len(w.entries)):]
	fresh = fresh[:min(len(fresh), cmp.Or(p.Limit, client.MaxTrafficEntries))]
	a := &client.TrafficAnswer{Entries: fresh, Next: uint64(from + len(fresh) + 1), Open: w.open}
	return a, nil
}

// pass adds messages that have passed.
func (w *world) pass(entries ...client.TrafficEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		e.Seq = uint64(len(w.entries) + 2)
		if e.At.IsZero() {
			e.At = time.Now()
		}
		if e.ID.IsZero() {
			e.ID = wire.NewMessageID()
		}
		w.entries = append(w.entries, e)
	}
	close(w.more)
	w.more = make(chan struct{})
}

func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// answerChannels answers on the daemon's socket of channels.
func (w *world) answerChannels(to http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	answer, ok := w.channels[r.Method+" "+strings.TrimPrefix(r.URL.Path, "/api/v1/")]
	w.mu.Unlock()
	if !ok {
		http.NotFound(to, r)
		return
	}
	to.Header().Set("Content-Type", "application/json")
	io.WriteString(to, answer)
}

// serve serves the page of the world until the test ends, and returns its link.
func (w *world) serve(t *testing.T) (link string) {
	t.Helper()
	s, err := page.Open(t.Context(), page.Options{Socket: w.Home + "/" + client.SocketName, Home: w.Home, Tell: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := await.Receive(t, "the server ends", ended); err != context.Canceled {
			t.Error(err)
		}
	})
	return s.Link()
}

// show opens a link in a new tab and waits until the page is alive.
func show(t *testing.T, b *browser, link string, width, height int, dark bool) *tab {
	t.Helper()
	p := b.openTab(t)
	p.look(width, height, dark)
	p.open(link)
	p.until("the page is alive", `document.getElementById("link-text").textContent === "live" && document.getElementById("about").textContent !== ""`)
	return p
}

func peerID(n int) identity.ID { return identity.ID{byte(n), byte(n >> 8), 0x5c, 31: 1} }

// newPeer returns a peer in one of the states, by its number.
func newPeer(n int, name string) client.Peer {
	rtt := uint64(900 + 1300*n)
	p := client.Peer{ID: peerID(n), Name: name, State: client.PeerConnected, Path: client.PathDirect, RTTUS: &rtt, Addrs: []string{fmt.Sprintf("192.0.2.%d:7117", n)}, Software: "acpd 0.2.0"}
	switch n % 5 {
	case 2:
		p.Path = client.PathRelay
	case 3:
		p.Path = client.PathPipe
	case 4:
		p.State, p.Path, p.RTTUS = client.PeerTrusted, "", nil
		p.LastSeen = client.Time{Time: time.Now().Add(-5 * time.Minute)}
	}
	return p
}
