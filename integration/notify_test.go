package integration

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestNotifyIsHandedToAnAgentThatConfirms(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	got := make(chan *client.Inbound, 1)
	desk.attach(client.AttachParams{Name: "reviewer", Topics: []string{"build"}}, client.Handler{
		Notify: func(_ context.Context, in *client.Inbound) error {
			got <- in
			return nil
		},
	})
	if said := laptop.MustOutput("notify", "desk", "build.done", `{"ok": true}`); said != "handed\n" {
		t.Errorf("notify says %q", said)
	}
	if in := await.Receive(t, "message", got); in.Name != "laptop" || string(in.Payload) != `{"topic":"build.done","data":{"ok":true}}` {
		t.Errorf("the agent has %s from %s", in.Payload, in.Name)
	}
	// A topic that no agent wants is held.
	if said := laptop.MustOutput("notify", "desk", "weather", "rain"); said != "held\n" {
		t.Errorf("notify says %q", said)
	}
	if said := desk.MustOutput("inbox"); !strings.Contains(said, "weather") || strings.Contains(said, "build") {
		t.Errorf("inbox: %s", said)
	}
}

// TestHeldSurvivesKill: what was told to be held is in the inbox after a power cut
// right after the receipt, until it is acknowledged.
func TestHeldSurvivesKill(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	for i := range 3 {
		if said := laptop.MustOutput("notify", "desk", "build.done", fmt.Sprint(i)); said != "held\n" {
			t.Fatalf("notify says %q", said)
		}
	}
	desk.KillDaemon()
	desk.StartDaemon()
	before := desk.MustOutput("inbox")
	for i := range 3 {
		if !strings.Contains(before, fmt.Sprintf("build.done %d\n", i)) {
			t.Errorf("message %d is not in the inbox: %s", i, before)
		}
	}
	if said := desk.MustOutput("inbox", "--ack", "2"); said != "2 removed\n" {
		t.Errorf("ack says %q", said)
	}
	desk.StopDaemon()
	desk.StartDaemon()
	if said := desk.MustOutput("inbox"); !strings.HasPrefix(said, "3\t") || strings.Count(said, "\n") != 1 {
		t.Errorf("inbox after the ack: %s", said)
	}
}

// TestNotifyIsHeldWithoutAWord: an agent that does not confirm within 4 s, or says
// no, is as good as none.
func TestNotifyIsHeldWithoutAWord(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "sleeper", Topics: []string{"sleep"}}, client.Handler{
		Notify: func(ctx context.Context, _ *client.Inbound) error {
			<-ctx.Done()
			return ctx.Err()
		},
	})
	desk.attach(client.AttachParams{Name: "refuser", Topics: []string{"refuse"}}, client.Handler{
		Notify: func(context.Context, *client.Inbound) error { return io.ErrUnexpectedEOF },
	})
	for topic, atLeast := range map[string]time.Duration{"sleep": 4 * time.Second, "refuse": 0} {
		p := laptop.RunAcpctl(0, "notify", "desk", topic, "now")
		if p.Stdout.String() != "held\n" || p.Took < atLeast {
			t.Errorf("%s: notify says %q after %s", topic, p.Stdout.String(), p.Took)
		}
		await.CheckDuration(t, topic, p.Took, atLeast+3*time.Second+slack)
		if said := desk.MustOutput("inbox"); !strings.Contains(said, topic+` "now"`) {
			t.Errorf("%s is not in the inbox: %s", topic, said)
		}
	}
}

// TestNotifySeveral: each has a receipt of its own, in the order that was given.
func TestNotifySeveral(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	p := laptop.RunAcpctl(5, "notify", "desk,nobody,"+desk.ID.String()[:8]+",desk", "build.done", "1", "--json")
	lines := strings.Split(strings.TrimSpace(p.Stdout.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], `"to":"nobody",`) || !strings.Contains(lines[1], `"error":{"code":"unknown_peer"`) {
		t.Fatalf("got %s", p.Stdout.String())
	}
	for _, i := range []int{0, 2, 3} {
		if !strings.Contains(lines[i], `"state":"held"`) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
	if said := desk.MustOutput("inbox"); strings.Count(said, "\n") != 3 {
		t.Errorf("inbox: %s", said)
	}
}

// TestInboxSaysThatThereIsMore than it shows, also to a script.
func TestInboxSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	c := laptop.Client
	for i := range 120 {
		if _, err := c.Notify(await.NewContext(t), client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(fmt.Sprintf(`{"topic":"x","data":%d}`, i))}); err != nil {
			t.Fatal(err)
		}
	}
	p := desk.RunAcpctl(0, "inbox")
	if n := strings.Count(p.Stdout.String(), "\n"); n != 100 || !strings.Contains(p.Stderr.String(), "acpctl inbox --ack 100") {
		t.Errorf("%d messages are shown, and said is %q", n, p.Stderr.String())
	}
	if p := desk.RunAcpctl(0, "inbox", "--after", "100"); strings.Count(p.Stdout.String(), "\n") != 20 || p.Stderr.String() != "" {
		t.Errorf("the second page: %q %q", p.Stdout.String(), p.Stderr.String())
	}
	if said := desk.MustOutput("inbox", "--ack", "100"); said != "100 removed\n" {
		t.Errorf("ack says %q", said)
	}
	if p := desk.RunAcpctl(0, "inbox"); strings.Count(p.Stdout.String(), "\n") != 20 || p.Stderr.String() != "" {
		t.Errorf("the rest: %q %q", p.Stdout.String(), p.Stderr.String())
	}
}

// TestBurst: 10,000 notifications, or 1,000 where tests are to be short, at once over one connection to the socket. Each
// has a receipt, and what was said of it is what became of it. On a slow machine the
// inbox may be full for the peer before the agent has caught up.
func TestBurst(t *testing.T) {
	t.Parallel()
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	desk, laptop := friends(t)
	var mu sync.Mutex
	heard := make(map[wire.MessageID]int)
	desk.attach(client.AttachParams{Name: "listener"}, client.Handler{
		Notify: func(_ context.Context, in *client.Inbound) error {
			mu.Lock()
			defer mu.Unlock()
			heard[in.ID]++
			return nil
		},
	})

	s := laptop.dial()
	begun := time.Now()
	go func() {
		for i := range n {
			fmt.Fprintf(s, `{"jsonrpc":"2.0","id":%d,"method":"notify","params":{"to":"desk","payload":{"topic":"build.step","data":%d}}}`+"\n", i, i)
		}
	}()
	said := make(map[wire.MessageID]client.ReceiptState)
	answered := make(map[int]bool)
	refused := 0
	for range n {
		var answer struct {
			ID     int             `json:"id"`
			Result *client.Receipt `json:"result"`
			Error  struct {
				Data kinds.Error `json:"data"`
			} `json:"error"`
		}
		line := s.hear()
		if err := json.Unmarshal([]byte(line), &answer); err != nil || answered[answer.ID] || answer.Result == nil && answer.Error.Data.Code != kinds.Overloaded {
			t.Fatalf("answer %s, %v", line, err)
		}
		answered[answer.ID] = true
		if answer.Result == nil {
			refused++
			continue
		}
		said[answer.Result.ID] = answer.Result.State
	}
	t.Logf("%d notifications in %s", n, time.Since(begun).Round(time.Millisecond))
	if len(said)+refused != n || refused > 0 && len(said) < int(budget.Inbox.Peer) {
		t.Errorf("%d receipts with an id of their own and %d refusals, want %d", len(said), refused, n)
	}

	inbox := desk.inbox()
	mu.Lock()
	defer mu.Unlock()
	handed, held := 0, 0
	for id, state := range said {
		switch {
		case state == client.Handed && heard[id] == 1 && inbox[id] == 0:
			handed++
		case state == client.Held && heard[id] == 0 && inbox[id] == 1:
			held++
		default:
			t.Errorf("%s: said to be %s; the agent has it %d times, the inbox %d times", id, state, heard[id], inbox[id])
		}
	}
	t.Logf("%d handed, %d held, %d refused", handed, held, refused)
	if len(heard) != handed || len(inbox) != held {
		t.Errorf("the agent has %d and the inbox %d: some were never sent", len(heard), len(inbox))
	}
}

// TestHeldIsKeptThroughCrashes: the receiver is killed in the middle of a burst,
// several times. Whatever was said to be held is in its inbox, once.
func TestHeldIsKeptThroughCrashes(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	c := laptop.Client
	held := make(map[wire.MessageID]bool)
	for round := range 3 {
		receipts := make(chan wire.MessageID, 100_000)
		ctx, crash := context.WithCancel(await.NewContext(t))
		var crowd sync.WaitGroup
		for range 16 {
			crowd.Go(func() {
				for ctx.Err() == nil {
					r, err := c.Notify(ctx, client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"x"}`)})
					if err == nil && r.State == client.Held {
						receipts <- r.ID
					}
				}
			})
		}
		await.Until(t, "some are held", func() bool { return len(receipts) > 100 })
		desk.KillDaemon()
		crash() // or those in flight would wait until the connection is found dead
		crowd.Wait()
		close(receipts)
		for id := range receipts {
			held[id] = true
		}
		t.Logf("round %d: %d held", round, len(held))
		desk.StartDaemon()
		laptop.connected(desk)
		desk.connected(laptop)
	}
	inbox := desk.inbox()
	for id := range held {
		if inbox[id] != 1 {
			t.Errorf("%s was said to be held and is in the inbox %d times", id, inbox[id])
		}
	}
}

// TestWaitOnlineThroughCrashes: commands wait for a receiver that is killed again and again, and send
// when it is back. What they print as held is in its inbox once, and what they do not know of is
// there at most once.
func TestWaitOnlineThroughCrashes(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	type outcome struct {
		ID    wire.MessageID `json:"id"`
		State string         `json:"state"`
		Error kinds.Error    `json:"error"`
	}
	var mu sync.Mutex
	var all []outcome
	var over atomic.Bool
	var crowd sync.WaitGroup
	for range 3 {
		crowd.Go(func() {
			for !over.Load() {
				id := wire.NewMessageID()
				p := laptop.StartAcpctl("notify", "desk", "build.step", "now", "--id", id.String(), "--wait-online", "20s", "--json")
				p.AwaitEnd()
				o := outcome{ID: id}
				if err := json.Unmarshal([]byte(p.Stdout.String()), &o); err != nil || o.ID != id && o.State != "" {
					t.Errorf("%q: %v", p.Stdout.String(), err)
				}
				o.ID = id
				mu.Lock()
				all = append(all, o)
				mu.Unlock()
			}
		})
	}
	countHeld := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range all {
			if o.State == string(client.Held) {
				n++
			}
		}
		return n
	}
	for range 4 {
		before := countHeld()
		await.Until(t, "some are held", func() bool { return countHeld() > before+5 })
		desk.KillDaemon()
		desk.StartDaemon()
	}
	over.Store(true)
	crowd.Wait()
	inbox := desk.inbox()
	held, unknown := 0, 0
	for _, o := range all {
		n := inbox[o.ID]
		switch {
		case o.State == string(client.Held) && n == 1:
			held++
		case o.Error.Delivered() == kinds.DeliveredUnknown && n <= 1:
			unknown++
		case o.Error.Delivered() == kinds.DeliveredNo && n == 0:
		default:
			t.Errorf("%s, of which was said %q, is in the inbox %d times (%v)", o.ID, o.State, n, &o.Error)
		}
	}
	t.Logf("of %d, %d are held; of %d nothing is known", len(all), held, unknown)
}

// inbox counts the held messages by their ids.
func (m *machine) inbox() map[wire.MessageID]int {
	m.T.Helper()
	all := make(map[wire.MessageID]int)
	for after, more := uint64(0), true; more; more = after != 0 {
		page, err := m.Client.Inbox(await.NewContext(m.T), client.InboxParams{Limit: 1000, After: after})
		if err != nil {
			m.T.Fatalf("inbox of %s: %v", m.Name, err)
		}
		for _, message := range page.Messages {
			all[message.Envelope.ID]++
		}
		after = page.Next
	}
	return all
}
