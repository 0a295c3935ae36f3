package waking

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// holds: security.md#agents-on-this-machine
func TestShares(t *testing.T) {
	for parts := 1; parts <= 30; parts++ {
		for _, sum := range []int{16, 20, 64, 100} {
			held := make(map[identity.ID]int)
			total := 0
			for n := range parts {
				id := identity.ID{byte(n + 1)}
				for hasShare(sum, parts, held, id) {
					held[id]++
					total++
				}
				if held[id] > sum/2 || parts <= sum && held[id] < max(1, min(sum/2, sum/2/parts)) {
					t.Errorf("of %d, %d peers: number %d has %d", sum, parts, n+1, held[id])
				}
			}
			if total > sum {
				t.Errorf("of %d, %d peers have %d", sum, parts, total)
			}
		}
	}
}

// A session whose peer's share is used up is told when that ends: of an hour, or of a day.
func TestWhenAUsedUpShareEnds(t *testing.T) {
	for span, half := range map[time.Duration]int{time.Hour: 50, day: 250} {
		synctest.Test(t, func(t *testing.T) {
			p := play(t, t.TempDir())
			p.permit(desk)
			ago := span - 7*time.Minute
			p.hold(half, charge{cause: desk, peer: laptop, sent: true, at: time.Now().Add(-ago)}, "claude")
			woke, _ := p.notify(desk)
			for _, left := range []time.Duration{7 * time.Minute, time.Minute, time.Nanosecond} {
				time.Sleep(time.Until(p.charges[0].at.Add(span - left)))
				e, ok := errors.AsType[*kinds.Error](p.send(desk, woke.ID, wire.NewMessageID()))
				if !ok || e.Code != kinds.Overloaded || e.Reason() != kinds.ReasonShareUsed {
					t.Fatalf("%v before the end: %v", left, e)
				}
				if said := time.Duration(e.RetryAfterMS) * time.Millisecond; said < left || said > left+time.Millisecond {
					t.Errorf("%v before the end it says %v", left, said)
				}
			}
			if told, lines := p.told(), p.Notices("claude"); len(told) == 0 || told[0].Kind != "send" || len(lines) != 1 || !strings.Contains(lines[0], "claude was not let send more because of") {
				t.Errorf("told %+v, and %q", told, lines)
			}
			time.Sleep(time.Nanosecond)
			if err := p.send(desk, woke.ID, wire.NewMessageID()); err != nil || len(p.Notices("claude")) != 0 {
				t.Errorf("at the end: %v; the owner hears %q", err, p.Notices("claude"))
			}
		})
	}
}

// Each peer that holds some of a bound has a part of it, also if a rule about answers lets it wake
// the session, or its own rule was revoked. So has who asks for more.
func TestWhoHasAPart(t *testing.T) {
	p := play(t, t.TempDir())
	p.permit(desk)
	for who, want := range map[identity.ID]int{desk: 2, laptop: 2, planner: 3} {
		if n := p.countParts(&window{agent: "claude"}, map[identity.ID]int{laptop: 5}, who); n != want {
			t.Errorf("%d have a part, want %d", n, want)
		}
	}
}
