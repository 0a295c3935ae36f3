package watch

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// Programs that look who is there are left out, unless that failed or somebody asked for them.
func TestTailLeavesLookingOut(t *testing.T) {
	entry := func(ms int, kind, outcome string) client.TrafficEntry {
		return at(ms, client.TrafficEntry{Direction: client.In, Peer: clitest.DeskID, Name: "desk", Kind: kind, Outcome: outcome})
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "discover rate_limited, query ok, ping ok"},
		{[]string{"--all"}, "discover ok, discover rate_limited, query ok, ping ok"},
		{[]string{"--kind", "discover,query,ping"}, "discover ok, discover rate_limited, query ok, ping ok"},
	} {
		f, _ := tailed(t, &client.TrafficAnswer{Next: 5, Entries: []client.TrafficEntry{
			entry(1, "discover", "ok"), entry(2, "discover", "rate_limited"), entry(3, "query", "ok"), entry(4, "ping", "ok"),
		}})
		ran := f.RunUntil(ui.Terminal{}, strings.Count(c.want, ",")+1, append([]string{"tail"}, c.args...)...)
		var got []string
		for line := range strings.Lines(ran.Out) {
			fields := strings.Split(line, "\t")
			got = append(got, fields[4]+" "+fields[7])
		}
		if strings.Join(got, ", ") != c.want || ran.Code != 0 {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, ran.Code, got, c.want)
		}
	}
}

// A tail ends when nobody reads it any more, before the next message.
func TestTailEndsWithItsReader(t *testing.T) {
	f, _ := tailed(t, &client.TrafficAnswer{Next: 5})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var stderr strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: w, Err: &stderr}, "--home", f.Home, "tail")
	}()
	r.Close()
	if code := <-ended; code != frame.ExitLocal || stderr.String() != "acpctl tail: write to standard output: broken pipe\n" {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

// On a terminal a day that is not that of the line before is told; a script has it in each time.
func TestTailTellsTheDay(t *testing.T) {
	now := time.Now()
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.Local)
	entry := func(at time.Time) client.TrafficEntry {
		return client.TrafficEntry{At: at, ID: clitest.SomeID, Direction: client.In, Peer: clitest.DeskID, Name: "desk", Kind: "query", Outcome: "ok"}
	}
	answer := &client.TrafficAnswer{Next: 5, Entries: []client.TrafficEntry{
		entry(midnight.Add(-48 * time.Hour)), entry(midnight.Add(-time.Minute)), entry(midnight.Add(-time.Second)), entry(midnight),
	}}
	f, _ := tailed(t, answer)
	out := f.RunUntil(ui.Terminal{OutTTY: true}, 7, "tail").Out
	var days []string
	for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if !strings.Contains(line, " query ") {
			days = append(days, line)
		} else if i == 0 {
			t.Error("the first line does not tell its day")
		}
	}
	const day = "Mon Jan 2 2006"
	// Where clocks change, 48 hours before midnight is a day's name that is looked up.
	want := []string{midnight.Add(-48 * time.Hour).Format(day), midnight.Add(-time.Minute).Format(day), midnight.Format(day)}
	if strings.Join(days, ", ") != strings.Join(want, ", ") {
		t.Errorf("%q, want %q\n%s", days, want, out)
	}
	f, _ = tailed(t, answer)
	if out := f.RunUntil(ui.Terminal{}, 4, "tail").Out; strings.Count(out, "\n") != 4 {
		t.Errorf("%q", out)
	}
}

// Events that the daemon could not send are lost as well, and said to be.
func TestTailTellsMissedEvents(t *testing.T) {
	f, _ := tailed(t, &client.TrafficAnswer{Next: 5})
	f.SetHandler(client.MethodSubscribe, func(*jsonrpc.Request) (any, error) {
		go f.SubscribedConn().Notify(client.NotificationEvent, &client.Event{Type: client.EventMissed, At: time.Now(), Details: jsontext.Value(`{"messages":0,"events":12}`)})
		return struct{}{}, nil
	})
	f.WantResult(f.RunUntil(ui.Terminal{}, 1, "tail"), 0, "lost 12\n", "")
}

// A name that nothing proves stands in quotes: no stranger looks like a peer.
func TestTailQuotesClaims(t *testing.T) {
	for typ, want := range map[client.EventType]string{
		client.EventUp: "desk", client.EventTrust: "desk", client.EventDiscovered: `"desk"`, client.EventLost: `"desk"`, client.EventPending: `"desk"`,
	} {
		e := &client.Event{Type: typ, Peer: clitest.DeskID, Name: "desk\x1b[2J"}
		if got := formatPeerOfEvent(e); got != want {
			t.Errorf("%s: %s, want %s", typ, got, want)
		}
		if e.Name = ""; formatPeerOfEvent(e) != clitest.DeskID.Label() {
			t.Errorf("%s without a name: %s", typ, formatPeerOfEvent(e))
		}
	}
	if got := formatPeerOfEvent(&client.Event{Type: client.EventRelay}); got != "" {
		t.Errorf("of no peer: %q", got)
	}
}

func TestTailGreetsAPerson(t *testing.T) {
	f, _ := tailed(t, &client.TrafficAnswer{Next: 5}, &client.TrafficAnswer{Next: 9, Lost: 2})
	f.WantResult(f.RunUntil(ui.Terminal{ErrTTY: true}, 2, "tail"), 0, "lost 2\n", "each message when it has its outcome; ^C ends it; open calls: acpctl waiting\n")
}

func TestFormatTook(t *testing.T) {
	for took, want := range map[time.Duration]string{
		0: "<1µs", 999: "<1µs", time.Microsecond: "1µs", 123_400: "123µs", 1_234_567: "1.23ms", 12_345_678: "12.3ms", 999_900_000: "1s",
		1_250_000_000: "1.25s", 59_940_000_000: "59.9s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h",
	} {
		if got := formatTook(took); got != want {
			t.Errorf("%d: %s, want %s", took, got, want)
		}
	}
}

// The terminal of tail rings its bell when something begins to wait for the owner, and at nothing else.
func TestTailRings(t *testing.T) {
	f, _ := tailed(t, &client.TrafficAnswer{Next: 1})
	var once sync.Once
	f.SetHandler(client.MethodSubscribe, func(*jsonrpc.Request) (any, error) {
		go once.Do(func() {
			for typ, details := range map[client.EventType]string{client.EventApproval: `{"id":"1"}`, client.EventBudget: `{"reason":"r"}`, client.EventUp: `{"needs":"person"}`} {
				f.SubscribedConn().Notify(client.NotificationEvent, &client.Event{Type: typ, Peer: clitest.DeskID, Name: "desk", At: time.Now(), Details: jsontext.Value(details)})
			}
			f.SubscribedConn().Notify(client.NotificationEvent, &client.Event{Type: client.EventBudget, Peer: clitest.DeskID, Name: "desk", At: time.Now(), Details: jsontext.Value(`{"needs":"person"}`)})
		})
		return struct{}{}, nil
	})
	if got := f.RunUntil(ui.Terminal{ErrTTY: true}, 7, "tail"); strings.Count(got.Err, "\a") != 2 {
		t.Errorf("%+v", got)
	}
}
