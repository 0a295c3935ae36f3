package budget

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// holds: security.md#the-budget
func TestLogSumsUpOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			b    Book
			text await.Output
			mu   sync.Mutex
			told []uint64
		)
		l := b.OpenLog(slog.New(slog.NewTextHandler(&text, nil)))
		for range 10 * LogLines.Peer {
			l.WriteLimited(Strangers, slog.LevelInfo, "refused")
			l.WriteLimited(Strangers, slog.LevelDebug, "not enabled, so it costs nothing")
		}
		for range 5 {
			l.NotifyLimited(Strangers, func(left uint64) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, left)
			})
		}
		l.WriteLimited(id(1), slog.LevelInfo, "another peer has its own lines")
		if n := int64(strings.Count(text.String(), "refused")); n != LogLines.Peer || len(told) > 0 {
			t.Errorf("%d lines and %d events, want %d and none", n, len(told), LogLines.Peer)
		}
		if !strings.Contains(text.String(), "another peer") {
			t.Error("strangers took another peer's lines")
		}
		time.Sleep(time.Minute + time.Second) // on the virtual clock
		synctest.Wait()
		if want := "peer=strangers lines=90 "; strings.Count(text.String(), "left out") != 1 || !strings.Contains(text.String(), want) {
			t.Errorf("got %s, want one line with %q", text.String(), want)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || told[0] != 5 {
			t.Errorf("told of %v events left out, want one that says 5", told)
		}
		for _, u := range b.ListUsage() {
			if u.Held != 0 {
				t.Errorf("after the minute %d lines count", u.Held)
			}
		}
		before := len(text.String())
		l.WriteLimited(Strangers, slog.LevelInfo, "refused")
		if len(text.String()) == before {
			t.Error("the next minute has no lines")
		}
		l.Close()
	})
}

// holds: security.md#the-budget
func TestLogOfAllPeersTogetherIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text await.Output
		b := Book{Peers: func() int { return 1000 }}
		l := b.OpenLog(slog.New(slog.NewTextHandler(&text, nil)))
		for n := range 1000 {
			for range 10 * LogLines.Peer {
				l.WriteLimited(id(n), slog.LevelInfo, "connected")
			}
		}
		if n := int64(strings.Count(text.String(), "connected")); n > LogLines.All {
			t.Errorf("%d lines, want at most %d", n, LogLines.All)
		}
		l.Close()
	})
}

// slow is a log that takes its time.
type slow struct{ writing, goOn chan struct{} }

func (s slow) Write(p []byte) (int, error) {
	s.writing <- struct{}{}
	<-s.goOn
	return len(p), nil
}

// What is being told when the log is closed has been told when that returns.
func TestCloseWaitsForWhatIsBeingTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := slow{make(chan struct{}), make(chan struct{})}
		l := (&Book{}).OpenLog(slog.New(slog.NewTextHandler(out, nil)))
		left := make(chan uint64, 1)
		for range LogLines.Peer + 1 {
			l.NotifyLimited(Strangers, func(n uint64) {
				if n > 0 {
					out.writing <- struct{}{}
					<-out.goOn
					left <- n
				}
			})
		}
		<-out.writing // the minute is over
		closed := make(chan struct{})
		go func() { defer close(closed); l.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("the log is closed while something is told")
		default:
		}
		close(out.goOn)
		<-closed
		if n := <-left; n != 1 {
			t.Errorf("%d events were left out", n)
		}
	})
}

func TestStrangersOn(t *testing.T) {
	udp, corp, home := StrangersOn(""), StrangersOn("relay:corp"), StrangersOn("relay:home")
	if udp != Strangers || corp == udp || corp == home || corp != StrangersOn("relay:corp") {
		t.Errorf("%v, %v, %v", udp, corp, home)
	}
	if !AreStrangers(udp) || !AreStrangers(corp) || AreStrangers(id(1)) {
		t.Error("peers are taken for strangers, or strangers for peers")
	}
}
