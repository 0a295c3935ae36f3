package discovery

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

// driven is a browser driven as Run does it, without a network.
type driven struct {
	*browser
	*recorder
	t     *testing.T
	start time.Time
	asked []string // when and what since the last look
}

func drive(t *testing.T) *driven {
	r := newRecorder()
	d := &driven{newBrowser(identity.ID{7}, 7117, r.Table), r, t, time.Now(), nil}
	d.own = []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	d.restartSchedule(time.Now())
	return d
}

// run lets time pass.
func (d *driven) run(for_ time.Duration) {
	d.t.Helper()
	for end := time.Now().Add(for_); ; {
		e, next := d.takeDueWork(time.Now())
		for _, q := range e.questions {
			var msg dns.Msg
			if err := msg.Unpack(q); err != nil {
				d.t.Fatal(err)
			}
			what := "one"
			if msg.Question[0].Name == service {
				what = "all"
			}
			d.asked = append(d.asked, what)
		}
		if e.loud {
			d.asked = append(d.asked, "loud")
		}
		if !next.IsZero() && !next.After(time.Now()) {
			d.t.Fatal("something is due that was just done")
		}
		if next.IsZero() || next.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(next))
	}
}

func (d *driven) expectAsked(what ...string) {
	d.t.Helper()
	if !slices.Equal(d.asked, what) {
		d.t.Errorf("asked %q, want %q", d.asked, what)
	}
	d.asked = nil
}

func (d *driven) hear(src string, data []byte) netip.AddrPort {
	return d.recordPacket(packet{data, netip.MustParseAddr(src), eth0})
}

func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		if wait := time.Until(d.nextAskTime()); wait < 20*time.Millisecond || wait >= 120*time.Millisecond {
			t.Errorf("first question after %v", wait)
		}
		first := d.nextAskTime()
		var at []int
		for time.Since(first) < 200*time.Second {
			time.Sleep(time.Until(d.nextAskTime()))
			at = append(at, int(time.Since(first)/time.Second))
			if e, _ := d.takeDueWork(time.Now()); !e.everybody || len(e.questions) != 1 {
				t.Fatal("not due")
			}
		}
		if want := []int{0, 1, 3, 9, 27, 60, 120, 180, 240}; !slices.Equal(at, want) {
			t.Errorf("asked at %v, want %v", at, want)
		}
		// A clock that stood still does not make it ask for every minute missed.
		time.Sleep(time.Hour)
		d.run(time.Second)
		d.expectAsked("all")
	})
}

// The answers to one question alone have a TTL of 10 s with avahi; that is no death.
func TestShortTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		d.run(27500 * time.Millisecond)
		d.asked = nil
		d.hear("10.0.0.5", message(t, nil, append(foreign("one", planner, 10), hostA)...))
		d.recorder.expect(t, "discovered 01")
		d.run(89 * time.Second) // to 116 s: everybody at 60, in person at 98
		d.recorder.expect(t)
		d.expectAsked("all", "one")
		d.run(2 * time.Second)
		d.recorder.expect(t, "lost 01")
	})
}

func TestGoodbyeIsQuestioned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		d.run(30 * time.Second)
		d.asked = nil
		alive := message(t, nil, append(foreign("one", planner, 10), hostA)...)
		d.hear("10.0.0.5", alive)
		d.hear("10.0.0.66", message(t, nil, foreign("one", planner, 0)...)) // forged
		d.run(900 * time.Millisecond)
		d.expectAsked("one")
		d.hear("10.0.0.5", alive)
		d.run(10 * time.Second)
		d.recorder.expect(t, "discovered 01")

		d.hear("10.0.0.5", message(t, nil, foreign("one", planner, 0)[0]))
		d.run(1100 * time.Millisecond)
		d.expectAsked("one")
		d.recorder.expect(t, "lost 01")
	})
}

func TestMentionedIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		d.run(30 * time.Second)
		d.asked = nil
		var lines []string
		for i := range 100 {
			lines = append(lines, foreign(strings.Repeat("x", i%50+1)+string(rune('a'+i/50)), planner, 10)[0])
		}
		cut := message(t, func(m *dns.Msg) { m.Truncated = true }, lines...)
		for range 5 {
			d.hear("10.0.0.5", cut)
		}
		d.run(450 * time.Millisecond)
		if n := len(d.asked); n != maxAsked+1 || !slices.Contains(d.asked, "loud") {
			t.Errorf("asked %d at once", n)
		}
		d.run(5 * time.Second)
		if n := len(d.asked); n != 100+1 {
			t.Errorf("asked %d in all", n)
		}
		d.asked = nil
		d.hear("10.0.0.5", message(t, func(m *dns.Msg) { m.Truncated = true }, hostA, `_acp._udp.local. 10 IN TXT "x"`))
		d.run(time.Second)
		d.expectAsked() // loud once between two questions to everybody
	})
}

func TestWhoIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		said := newDNSRecords(planner, "planner", addrPorts("10.0.0.5:7117", "10.0.0.9:7117")).encodeAnnouncement(lifetime)
		d.hear("192.0.2.5", said)
		d.hear("2001:db8:1::5", said)
		d.recorder.expect(t)
		d.hear("10.0.0.5", said)
		d.recorder.expect(t, "discovered 01")
		d.addrs(t, planner, "10.0.0.5:7117") // the other would lead back here

		// Another daemon of this host.
		d.hear("10.0.0.9", newDNSRecords(reviewer, "reviewer", addrPorts("10.0.0.9:7118")).encodeAnnouncement(lifetime))
		d.addrs(t, reviewer, "10.0.0.9:7118")
		d.since()

		// Itself, and a copy of itself.
		own := newDNSRecords(d.self, "own", addrPorts("10.0.0.9:7117")).encodeAnnouncement(lifetime)
		if clone := d.hear("10.0.0.9", own); clone.IsValid() {
			t.Errorf("took itself for a copy at %v", clone)
		}
		for src, port := range map[string]string{"10.0.0.5": "7117", "10.0.0.9": "7118"} {
			other := newDNSRecords(d.self, "own", addrPorts(src+":"+port)).encodeAnnouncement(lifetime)
			if clone := d.hear(src, other); clone.String() != src+":"+port {
				t.Errorf("copy at %s: %v", src, clone)
			}
		}
		if clone := d.hear("10.0.0.5", newDNSRecords(d.self, "own", addrPorts("10.0.0.5:7117")).encodeAnnouncement(0)); clone.IsValid() {
			t.Error("a goodbye is no copy")
		}
		d.recorder.expect(t)
	})
}

// Whoever asks gets an answer for all to hear, at most once a second.
func TestAnswersForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		d.run(30 * time.Second)
		start := time.Now()
		var at []time.Duration
		for time.Since(start) < 3*time.Second {
			d.hear("10.0.0.5", encodeQuestion(service, dns.TypePTR))
			if e, _ := d.takeDueWork(time.Now()); e.announce {
				at = append(at, time.Since(start))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(at) != 3 || at[0] < minDelay || at[0] > maxDelay+10*time.Millisecond || at[1]-at[0] < answerGap || at[2]-at[1] < answerGap {
			t.Errorf("answered at %v", at)
		}
	})
}

func TestFloodIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		for i := range 10000 {
			d.hear("10.0.0.66", newDNSRecords(identity.ID{0xa0, byte(i >> 8), byte(i)}, "x", addrPorts("10.0.0.66:1")).encodeAnnouncement(lifetime))
		}
		d.hear("10.0.0.5", newDNSRecords(planner, "planner", addrPorts("10.0.0.5:7117")).encodeAnnouncement(lifetime))
		if n := len(d.Entries()); n != maxStrangers && n != maxPerSource/2+1 {
			t.Errorf("%d entries", n)
		}
		if len(d.listPeerAddrs(planner)) == 0 {
			t.Error("a quiet peer is not heard beside the flood")
		}
	})
}

// Without an interface Run waits for one, warns once and ends with its context.
func TestRunWithoutInterface(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	warned := make(chan struct{}, 10)
	logger := slog.New(slog.NewTextHandler(writeFunc(func(b []byte) { log.Write(b); warned <- struct{}{} }), nil))
	table := newRecorder().Table
	table.SetAddrs(planner, Static, "planner.example:7117")
	table.addHints(sight(reviewer, laptop, "10.0.0.2:7117"))
	ended := make(chan error)
	go func() {
		ended <- RunMDNS(ctx, Config{Self: identity.ID{7}, Listen: netip.MustParseAddrPort("127.0.0.1:7117"), Include: []string{"none"}, Table: table, Logger: logger})
	}()
	<-warned
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "configured addresses work") || !strings.Contains(text, "discovery.include") {
		t.Errorf("log: %s", text)
	}
	if e := table.Entries(); len(e) != 1 || e[0].ID != planner || len(e[0].Addrs) != 1 {
		t.Errorf("left in the table: %+v", e)
	}
}

type writeFunc func([]byte)

func (w writeFunc) Write(b []byte) (int, error) { w(b); return len(b), nil }

// A link whose questions are not heard on itself has gone deaf; one that could not
// ask, or hears anything, has not.
func TestDeafness(t *testing.T) {
	p := &familySockets{group: &socket{}}
	l := &link{pairs: []*familySockets{p}}
	for i, step := range []struct {
		asked        bool
		heard        uint64
		broken, want bool
	}{
		{},
		{asked: true, heard: 2},
		{asked: true},
		{},
		{asked: true},
		{asked: true, heard: 1},
		{asked: true},
		{asked: true, want: true},
		{broken: true},
	} {
		p.asked = step.asked
		p.heard.Add(step.heard)
		p.broken.Store(step.broken)
		if broken, deaf := l.checkSockets(); broken != step.broken || deaf != step.want {
			t.Errorf("step %d: broken %t, deaf %t", i, broken, deaf)
		}
	}
}

func TestAnnounced(t *testing.T) {
	wlan0 := nic{prefixes: []netip.Prefix{netip.MustParsePrefix("192.168.1.9/24"), netip.MustParsePrefix("fe80::a/64")}}
	for listen, want := range map[string][]string{
		"[::]:7117":             {"10.0.0.9:7117", "[2001:db8::9]:7117", "192.168.1.9:7117", "[fe80::9]:7117", "[fe80::a]:7117"},
		"[::ffff:0.0.0.0]:7117": {"10.0.0.9:7117", "192.168.1.9:7117"},
		"0.0.0.0:7117":          {"10.0.0.9:7117", "192.168.1.9:7117"},
		"192.168.1.9:7117":      {"192.168.1.9:7117"},
		"[fe80::9]:7117":        {"[fe80::9]:7117"},
		"203.0.113.1:7117":      nil,
	} {
		if got := listAnnouncedAddrs(netip.MustParseAddrPort(listen), []nic{lo, eth0, wlan0}); !slices.Equal(got, addrPorts(want...)) {
			t.Errorf("%s: %v, want %v", listen, got, want)
		}
	}
	for listen, want := range map[string][]string{
		"[::]:7117":      {"127.0.0.1:7117", "[::1]:7117"},
		"0.0.0.0:7117":   {"127.0.0.1:7117"},
		"127.0.0.3:7117": {"127.0.0.3:7117"},
		"[::1]:7117":     {"[::1]:7117"},
		"10.0.0.9:7117":  nil,
	} {
		if got := listAnnouncedAddrs(netip.MustParseAddrPort(listen), []nic{lo}); !slices.Equal(got, addrPorts(want...)) {
			t.Errorf("%s on loopback alone: %v, want %v", listen, got, want)
		}
	}
}
