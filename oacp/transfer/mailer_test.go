package transfer

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMirror follows one message from the send to its end: the copy at the sender
// stays until the recipient is done with its own.
func TestMirror(t *testing.T) {
	for _, done := range []string{"archive", "delete"} {
		t.Run(done, func(t *testing.T) {
			desk, laptop := bound(t)
			file, text := desk.question("ready?")
			laptop.holds("reviewer", file, text)
			q := desk.becomes(file, Delivered)
			if q.Agent != "reviewer" || q.Peer != laptop.key.ID() || q.Size != int64(len(text)) || q.Reason != "" {
				t.Errorf("queue: %+v", q)
			}
			if desk.files("reviewer")[file] != text {
				t.Error("the sender's copy went before its time")
			}
			path := filepath.Join(laptop.inbox("reviewer"), file)
			if done == "delete" {
				os.Remove(path)
			} else {
				archive := filepath.Join(laptop.inbox("reviewer"), "archive")
				if err := os.Mkdir(archive, 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(path, filepath.Join(archive, file)); err != nil {
					t.Fatal(err)
				}
			}
			await.Until(t, "the copy goes", func() bool { return len(desk.files("reviewer")) == 0 })
			await.Until(t, "the queue is empty", func() bool { return len(desk.ListQueue("")) == 0 })
			if got := laptop.arrivedFiles(); len(got) != 1 {
				t.Errorf("arrived: %v", got)
			}
			// And back, so that a reply finds its way.
			answer := text1("reviewer", "planner", "go")
			back := laptop.send("planner", fileName("reviewer", "notification"), answer)
			desk.holds("planner", back, answer)
			laptop.becomes(back, Delivered)
			desk.noDebris("planner")
			laptop.noDebris("reviewer")
		})
	}
}

func text1(from, to, body string) string { return text(from, to, "P2", "notification", body) }

// TestOrder: mail that waited for the other side arrives once, the urgent first.
func TestOrder(t *testing.T) {
	desk, laptop := bound(t)
	laptop.stop()
	const each = 25
	want := make(map[string]string)
	rank := make(map[string]int)
	for i := range each {
		for p := range 4 {
			for k, typ := range []string{"task_request", "notification"} {
				body := text("planner", "reviewer", fmt.Sprintf("P%d", p), typ, fmt.Sprint(i))
				name := desk.send("reviewer", fileName("planner", typ), body)
				want[name], rank[name] = body, 2*p+k
			}
		}
	}
	desk.examined(len(want))
	laptop.start()
	await.Until(t, "all arrive", func() bool { return len(laptop.arrivedFiles()) == len(want) })
	if got := laptop.files("reviewer"); !maps.Equal(got, want) {
		t.Errorf("%d files arrived, want %d", len(got), len(want))
	}
	ranks := make([]int, 0, len(want))
	for _, file := range laptop.arrivedFiles() {
		ranks = append(ranks, rank[file])
	}
	if !slices.IsSorted(ranks) {
		t.Errorf("arrived in the order of ranks %v", ranks)
	}
	await.Until(t, "the sender knows", func() bool {
		return !slices.ContainsFunc(desk.ListQueue(""), func(q Queued) bool { return q.State != Delivered })
	})
	laptop.noDebris("reviewer")
}

// TestParked puts into a bound inbox what cannot be carried. Each file stays where
// it is, with its reason, and none holds up what comes after it.
func TestParked(t *testing.T) {
	desk, laptop := bound(t)
	inbox := desk.inbox("reviewer")
	plain := func(name, text string) { deposit(t, inbox, name, text) }
	good := text1("planner", "reviewer", "x")
	plain("a-big.yaml", good+"#"+strings.Repeat("x", 2<<20))
	plain("a-empty.yaml", "")
	plain("a-broken.yaml", "id: [")
	plain("a-list.yaml", "- from: planner\n")
	plain("a-stranger.yaml", strings.ReplaceAll(good, "planner", "_planner"))
	plain("a-twice.yaml", "from: ceo\n"+good)
	plain("a name.yaml", good)
	plain(".hidden.yaml", good)
	plain(strings.Repeat("n", 196)+".yaml", good)
	if err := os.Symlink("/etc/hostname", filepath.Join(inbox, "a-link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a-broken.yaml", filepath.Join(inbox, "a-near-link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(inbox, "a-fifo.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(inbox, "a-folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain("a-note.txt", good)
	desk.send("reviewer", "b-foreign.yaml", text1("intruder", "reviewer", "x"))

	file, written := desk.question("and now?")
	laptop.holds("reviewer", file, written)
	for name, reason := range map[string]string{
		"a-big.yaml": "a message may have", "a-empty.yaml": "empty", "a-broken.yaml": "YAML", "a-list.yaml": "mapping", "a-twice.yaml": "field \"from\" is there twice",
		"a-stranger.yaml": "'from'", "a name.yaml": "its name", ".hidden.yaml": "its name", strings.Repeat("n", 196) + ".yaml": "its name",
		"a-link.yaml": "a link", "a-near-link.yaml": "a link", "a-fifo.yaml": "not a regular file",
		"b-foreign.yaml": "laptop says: from: intruder of project demo is not bound to you",
	} {
		if q := desk.becomes(name, Parked); !strings.Contains(q.Reason, reason) {
			t.Errorf("%s is parked with %q, want %q", name, q.Reason, reason)
		}
	}
	if got := laptop.files("reviewer"); len(got) != 1 {
		t.Errorf("the laptop holds %v", slices.Collect(maps.Keys(got)))
	}
	if n := len(desk.ListQueue("demo")); n != 14 {
		t.Errorf("%d files in the queue", n)
	}
	// What is mended is carried.
	if err := os.Rename(filepath.Join(inbox, "a name.yaml"), filepath.Join(inbox, "a_name.yaml")); err != nil {
		t.Fatal(err)
	}
	laptop.holds("reviewer", "a_name.yaml", good)
	// What is dropped lies in dead_letter, and nothing there is overwritten.
	for i := range 2 {
		plain("a-broken.yaml", fmt.Sprintf("id: [%d", i))
		desk.becomes("a-broken.yaml", Parked)
		if _, err := desk.DropFile(t.Context(), "demo", "reviewer", "a-broken.yaml"); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "it is out of the queue", func() bool { return desk.queued("a-broken.yaml").State == "" })
	}
	for i, name := range []string{"a-broken.yaml", "a-broken_2.yaml"} {
		got, err := os.ReadFile(filepath.Join(desk.folder("demo", "reviewer"), "dead_letter", name))
		if want := fmt.Sprintf("id: [%d", i); err != nil || string(got) != want {
			t.Errorf("dead letter %s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"a-broken.yaml", "../outbox", "", "a-folder.yaml", "x/../b-foreign.yaml"} {
		if _, err := desk.DropFile(t.Context(), "demo", "reviewer", name); kinds.AsError(err).Code != kinds.NotFound {
			t.Errorf("drop %q: %v", name, err)
		}
	}
}

// TestOnce: the same file again, after the recipient was done with it, is the same
// message; and names that clash are both kept.
func TestOnce(t *testing.T) {
	desk, laptop := bound(t)
	file, text := desk.question("once")
	laptop.holds("reviewer", file, text)
	desk.becomes(file, Delivered)
	os.Remove(filepath.Join(laptop.inbox("reviewer"), file))
	await.Until(t, "the copy goes", func() bool { return len(desk.files("reviewer")) == 0 })
	desk.send("reviewer", file, text)
	await.Until(t, "the copy goes again", func() bool { return len(desk.files("reviewer")) == 0 })
	if got := laptop.files("reviewer"); len(got) != 0 || len(laptop.arrivedFiles()) != 1 {
		t.Errorf("it came twice: %v, %v", got, laptop.arrivedFiles())
	}

	other := text1("planner", "reviewer", "another")
	laptop.send("reviewer", "clash.yaml", "mine")
	desk.send("reviewer", "clash.yaml", other)
	laptop.holds("reviewer", "clash_2.yaml", other)
	if got := laptop.files("reviewer")["clash.yaml"]; got != "mine" {
		t.Errorf("overwritten with %q", got)
	}
	desk.becomes("clash.yaml", Delivered)
	// Consuming the clashing one removes the sender's, whose name is another.
	os.Remove(filepath.Join(laptop.inbox("reviewer"), "clash_2.yaml"))
	await.Until(t, "the copy goes", func() bool { return len(desk.files("reviewer")) == 0 })
}

// eventuallyReported waits until the side has nothing more to tell.
func (s *side) eventuallyReported() {
	s.t.Helper()
	await.Until(s.t, "everything is reported", func() (over bool) {
		err := s.db.Read(s.t.Context(), func(tx *store.Tx) error {
			open, err := sqlListArrivals(tx, "state != ?", reported)
			over = len(open) == 0
			return err
		})
		return err == nil && over
	})
}

// TestBothWays: an agent that each side believes to live at the other gets nothing,
// and nothing circles; and what came from the network is not sent on.
func TestBothWays(t *testing.T) {
	desk, laptop := bound(t)
	file, written := desk.question("here?")
	laptop.holds("reviewer", file, written)
	desk.becomes(file, Delivered)
	// The reviewer moves: now the laptop believes that it lives at the desk.
	if _, err := laptop.Bind(t.Context(), Binding{Project: "demo", Agent: "reviewer", Peer: desk.key.ID()}, true); err != nil {
		t.Fatal(err)
	}
	if q := laptop.becomes(file, Parked); !strings.Contains(q.Reason, "came from another machine") {
		t.Errorf("reason %q", q.Reason)
	}
	second, _ := desk.question("and now?")
	if q := desk.becomes(second, Parked); !strings.Contains(q.Reason, "is not hosted there: by its bindings it lives with you") {
		t.Errorf("reason %q", q.Reason)
	}
	// Once that is undone, what was refused goes by itself.
	if _, err := laptop.Unbind(t.Context(), "demo", "reviewer"); err != nil {
		t.Fatal(err)
	}
	desk.SetConnected(laptop.key.ID(), false)
	desk.SetConnected(laptop.key.ID(), true)
	desk.becomes(second, Delivered)
}

// TestRefusals are the receiver's, each with its reason in the sender's queue.
func TestRefusals(t *testing.T) {
	desk, laptop := desks(t)
	laptop.start()
	desk.start()
	desk.bind("demo", "reviewer", laptop)
	file, text := desk.question("may I?")
	if q := desk.becomes(file, Parked); !strings.Contains(q.Reason, "no agent of project demo is bound to you") {
		t.Errorf("unbound sender: %q", q.Reason)
	}
	// The laptop binds the sender, says so, and the message comes without further ado.
	laptop.bind("demo", "planner", desk)
	laptop.holds("reviewer", file, text)

	desk.makeAgent("demo", "tester")
	desk.bind("demo", "tester", laptop)
	lost := desk.send("tester", fileName("planner", "question"), text1("planner", "tester", "x"))
	if q := desk.becomes(lost, Parked); !strings.Contains(q.Reason, "no agent tester in project demo") {
		t.Errorf("unknown agent: %q", q.Reason)
	}
	laptop.deny(kinds.Errorf(kinds.NotAuthorized, "policy says no"))
	denied, _ := desk.question("and now?")
	if q := desk.becomes(denied, Parked); !strings.Contains(q.Reason, "laptop says: policy says no (not_authorized)") {
		t.Errorf("policy: %q", q.Reason)
	}
}

// TestBind: who may be bound, and what binding makes.
func TestBind(t *testing.T) {
	desk, laptop := desks(t)
	desk.start()
	ctx := t.Context()
	peer := laptop.key.ID()
	for name, b := range map[string]Binding{
		"../demo":   {Project: "../demo", Agent: "reviewer"},
		".demo":     {Project: ".demo", Agent: "reviewer"},
		"agent ../": {Project: "demo", Agent: "../x"},
		"mode":      {Project: "demo", Agent: "reviewer", Mode: "later"},
		"linger":    {Project: "demo", Agent: "reviewer", Linger: time.Second},
		"negative":  {Project: "demo", Agent: "reviewer", Mode: onStored, Linger: -time.Second},
	} {
		b.Peer = peer
		if _, err := desk.Bind(ctx, b, false); kinds.AsError(err).Code != kinds.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := desk.Bind(ctx, Binding{Project: "nowhere", Agent: "reviewer", Peer: peer}, false); kinds.AsError(err).Code != kinds.NotFound {
		t.Errorf("no project: %v", err)
	}
	deposit(t, filepath.Join(desk.folder("demo", "planner"), "outbox"), "sent.yaml", "x")
	if _, err := desk.Bind(ctx, Binding{Project: "demo", Agent: "planner", Peer: peer}, false); err == nil || !strings.Contains(err.Error(), "--take") {
		t.Errorf("an agent that has sent from here: %v", err)
	}
	if _, err := desk.Bind(ctx, Binding{Project: "demo", Agent: "planner", Peer: peer}, true); err != nil {
		t.Errorf("with take: %v", err)
	}
	b, err := desk.Bind(ctx, Binding{Project: "demo", Agent: "reviewer", Peer: peer, Mode: onStored}, false)
	if err != nil || b.Linger != defaultLinger {
		t.Errorf("%+v, %v", b, err)
	}
	for _, dir := range []string{"inbox", "outbox"} {
		if _, err := os.Stat(filepath.Join(desk.folder("demo", "reviewer"), dir)); err != nil {
			t.Error(err)
		}
	}
	desk.stop()
	desk.start()
	want := []Binding{{"demo", "planner", peer, mirror, 0}, {"demo", "reviewer", peer, onStored, defaultLinger}}
	if got := desk.Bindings("demo"); !slices.Equal(got, want) {
		t.Errorf("after a restart %+v", got)
	}
	if _, err := desk.Unbind(ctx, "demo", "planner"); err != nil {
		t.Error(err)
	}
	if _, err := desk.Unbind(ctx, "demo", "planner"); kinds.AsError(err).Code != kinds.NotFound {
		t.Errorf("twice: %v", err)
	}
	if got := desk.Bindings(""); len(got) != 1 {
		t.Errorf("bindings %+v", got)
	}
}

// TestLinger: in mode on-stored the copy goes some time after it is stored.
func TestLinger(t *testing.T) {
	desk, laptop := desks(t)
	laptop.start()
	laptop.bind("demo", "planner", desk)
	desk.start()
	if _, err := desk.Bind(t.Context(), Binding{Project: "demo", Agent: "reviewer", Peer: laptop.key.ID(), Mode: onStored, Linger: 2 * time.Second}, false); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	file, text := desk.question("soon gone")
	laptop.holds("reviewer", file, text)
	await.Until(t, "the copy goes", func() bool { return len(desk.files("reviewer")) == 0 })
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("it went after %s", took)
	}
	if len(laptop.files("reviewer")) != 1 {
		t.Error("the other copy went too")
	}
}
