package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// logText is a log that may be read while a daemon writes it.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// countBudgetEvents counts the events about bounds up to now.
func (d *running) countBudgetEvents(events <-chan *client.Event) (n int) {
	d.t.Helper()
	d.dial().must("trust", client.TrustParams{Peer: strings.Repeat("7", 64), Name: "mark"}, nil)
	for {
		e := await.Receive(d.t, "an event", events)
		if e.Type == client.EventTrust {
			d.dial().must("untrust", client.UntrustParams{Peer: "mark"}, nil)
			return n
		}
		n++
	}
}

// A session says why it was not woken as often as it likes, each time in other words, also of
// messages that it never got, of peers that do not exist: the owner hears of what is true, once a
// minute, in the log too.
// holds: security.md#agents-on-this-machine
func TestALyingSessionIsHeardOnceAMinute(t *testing.T) {
	t.Parallel()
	log := new(logText)
	desk := start(t, stateDir(t), "desk")
	laptop := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: log})
	befriend(t, desk, laptop)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget, client.EventTrust}}})
	refuse := func(ids ...wire.MessageID) {
		for i := range 50 {
			for _, id := range ids {
				s.must("unposted", client.UnpostedParams{Peer: desk.ID(), ID: id, Refused: fmt.Sprint("for reason ", i)}, nil)
			}
			s.must("unposted", client.UnpostedParams{Peer: laptop.ID(), ID: wire.NewMessageID(), Refused: fmt.Sprint("for reason ", i)}, nil)
		}
	}
	refuse(wire.NewMessageID())
	if n := laptop.countBudgetEvents(events); n > 0 {
		t.Errorf("%d events about messages that the session never got", n)
	}
	s.says(func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Refused: "for reason " + in.ID.String()}
	})
	asker := desk.dial()
	for range 5 {
		notice := s.notice("laptop")
		notice.ID = wire.NewMessageID()
		asker.notify(notice)
		for await.Receive(t, "a wake", s.told).Wake == nil { // first it is told only, within 250 ms of the last one
		}
		refuse(notice.ID)
	}
	if n := laptop.countBudgetEvents(events); n != 1 {
		t.Errorf("%d events about one session in a minute", n)
	}
	if n := strings.Count(log.String(), "for reason"); n > 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// The owner hears no more of the sessions that peers would wake, or that would send, than ten
// times a minute of each peer: a program can attach under many names, one after the other.
// holds: security.md#agents-on-this-machine
func TestManyNamesTellTheOwnerNoMore(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget, client.EventTrust}}})
	looped := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindNotify, wire.Payload(`{"topic":"t"}`))
	looped.Hops = wire.MaxHops
	if _, err := desk.send(looped); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		s := laptop.session(fmt.Sprint("claude-", i))
		s.refused(kinds.LoopDetected, "notify", client.NotifyParams{Head: client.Head{Parent: looped.ID}, To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)})
		s.Close()
	}
	if n := laptop.countBudgetEvents(events); n != 10 {
		t.Errorf("%d events", n)
	}
}

// An agent attaches again and again, with all that it may declare: the log does not grow with it.
// holds: security.md#agents-on-this-machine
func TestAttachingFillsNoLog(t *testing.T) {
	t.Parallel()
	log := new(logText)
	d := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: log})
	p := client.AttachParams{Name: "claude"}
	for i := range 64 {
		p.Domains = append(p.Domains, fmt.Sprint(strings.Repeat("d", 200), i))
	}
	s := d.guest(nil)
	for range 1000 {
		s.must("attach", p, nil)
	}
	if text := log.String(); len(text) > 64<<10 || strings.Count(text, "agent attached") != 1 {
		t.Errorf("%d bytes of log", len(text))
	}
}

// What a peer sends on a broken disk fails each time: the log does not grow with it.
func TestFailuresOfOnePeerFillNoLog(t *testing.T) {
	t.Parallel()
	log := new(logText)
	d := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: log})
	env := wire.NewEnvelope(identity.ID{7}, d.ID(), kinds.KindNotify, nil)
	for range 1000 {
		if e := kinds.AsError(d.attached.MaskLocalError(env, fmt.Errorf("hold: %w", syscall.ENOSPC))); e.Code != kinds.Overloaded {
			t.Fatal(e)
		}
	}
	if n := strings.Count(log.String(), "message not taken"); n == 0 || n > 100 {
		t.Errorf("%d lines", n)
	}
}
