package discovery

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

// When this daemon announces itself and asks everybody, counted from the start or
// the last change of the interfaces; from then on every minute (RFC 6762, sections
// 5.2 and 8.3). The first comes after a random delay, so that daemons that start together
// do not send together. The announcements do not end after the usual two, because
// an answer to a browser that shares its port with others on its host may be lost.
var announceTimes = []time.Duration{0, 1 * time.Second, 3 * time.Second, 9 * time.Second, 27 * time.Second, time.Minute}

const (
	minDelay = 20 * time.Millisecond
	maxDelay = 120 * time.Millisecond

	// The answer to all, for those who asked for it (RFC 6762, section 6). The
	// zone answers each by unicast, and that is not enough: among the sockets that share port
	// 5353 on a host only one gets it, and other caches take the silence for a death
	// (section 10.5).
	answerGap = time.Second

	// One instance is asked in person when it was only mentioned, said goodbye or was
	// not heard for long: so that a forged packet costs the network one answer.
	askGap   = 500 * time.Millisecond
	maxAsked = 32 // at once
)

// browser decides what to send and reads what comes in. It does no I/O.
type browser struct {
	self  identity.ID
	port  uint16
	table *Table
	own   []netip.Addr // of this host
	quota packetQuota

	started  time.Time // the schedule
	step     int       // how many times everybody was asked since
	cut      bool      // an answer to that was cut short
	loud     bool      // it was asked again with an answer to all
	said     time.Time // when this daemon last announced itself
	sayAt    time.Time // when it will because somebody asked; zero: nobody did
	asking   []string  // instances to ask in person
	askAfter time.Time
}

// dueWork says what is due.
type dueWork struct {
	announce  bool
	everybody bool     // one of the questions is to everybody
	questions [][]byte // packets
	loud      bool     // ask everybody from the group's port too
}

func newBrowser(self identity.ID, port uint16, table *Table) *browser {
	return &browser{self: self, port: port, table: table}
}

// restartSchedule begins the schedule anew, because the interfaces have changed.
func (b *browser) restartSchedule(now time.Time) {
	b.started = now.Add(randomDelay())
	b.step = 0
}

// randomDelay returns a delay that keeps daemons from sending at the same time (RFC 6762,
// section 6).
func randomDelay() time.Duration { return minDelay + rand.N(maxDelay-minDelay) }

// takeDueWork returns what is due and the time when there will be more; zero: not before
// something comes in.
func (b *browser) takeDueWork(now time.Time) (e dueWork, next time.Time) {
	stale, next := b.table.removeDeadHints(now)
	for _, instance := range stale {
		b.scheduleQuestion(instance, now)
	}
	soonest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if !b.started.IsZero() {
		if !now.Before(b.nextAskTime()) {
			e.everybody, e.announce = true, true
			b.cut, b.loud = false, false
			e.questions = append(e.questions, encodeQuestion(service, dns.TypePTR))
			for !now.Before(b.nextAskTime()) {
				b.step++
			}
		}
		soonest(b.nextAskTime())
	}
	if !b.sayAt.IsZero() {
		if e.announce || !now.Before(b.sayAt) {
			e.announce = true
			b.sayAt = time.Time{}
		} else {
			soonest(b.sayAt)
		}
	}
	if e.announce {
		b.said = now
	}
	// An answer to one is cut at 512 bytes (RFC 6762, section 6.7), one to all is not.
	// A question to everybody can bring that on once.
	if b.cut && !b.loud {
		b.loud, e.loud = true, true
	}
	if len(b.asking) > 0 {
		if now.Before(b.askAfter) {
			soonest(b.askAfter)
		} else {
			n := min(len(b.asking), maxAsked)
			for _, instance := range b.asking[:n] {
				if q := encodeQuestion(instance, dns.TypeANY); q != nil {
					e.questions = append(e.questions, q)
				}
			}
			b.asking, b.askAfter = slices.Delete(b.asking, 0, n), now.Add(askGap)
			if len(b.asking) > 0 {
				soonest(b.askAfter)
			}
		}
	}
	return e, next
}

func (b *browser) nextAskTime() time.Time {
	last := len(announceTimes) - 1
	if b.step <= last {
		return b.started.Add(announceTimes[b.step])
	}
	return b.started.Add(announceTimes[last] + time.Duration(b.step-last)*time.Minute)
}

// scheduleQuestion schedules a question to one instance.
func (b *browser) scheduleQuestion(instance string, now time.Time) {
	if len(b.asking) >= maxStrangers || slices.Contains(b.asking, instance) {
		return
	}
	b.asking = append(b.asking, instance)
	if soon := now.Add(minDelay); b.askAfter.Before(soon) {
		b.askAfter = soon
	}
}

// recordPacket enters a packet into the table. It returns the address from which another
// daemon seems to announce this one's id, if one does.
func (b *browser) recordPacket(p packet) (clone netip.AddrPort) {
	now := time.Now()
	if !p.nic.isOnLink(p.src) || !b.quota.takeUnits(p.src, 1+len(p.data)/1024, now) {
		return clone
	}
	if b.sayAt.IsZero() && isQuestionAbout(p.data, instanceName(b.self)) {
		b.sayAt = now.Add(randomDelay())
		if soonest := b.said.Add(answerGap); b.sayAt.Before(soonest) {
			b.sayAt = soonest
		}
		return clone
	}
	said := decodePacket(p.data)
	if said.cut {
		b.cut = true
	}
	for _, instance := range said.mentioned {
		b.scheduleQuestion(instance, now)
	}
	for _, a := range said.found {
		if !b.quota.takeUnits(p.src, 1, now) {
			break
		}
		switch {
		case a.id == b.self || a.instance == instanceName(b.self):
			if !a.bye && (a.port != b.port || !slices.Contains(b.own, p.src)) {
				clone = netip.AddrPortFrom(p.src, a.port)
			}
		case a.bye:
			if instance := b.table.handleGoodbye(a.id, a.instance); instance != "" {
				b.scheduleQuestion(instance, now)
			}
		default:
			if addrs := b.removeOwnAddrs(p.filterUsableAddrs(a.addrs)); len(addrs) > 0 {
				b.table.addHints(sighting{a.id, a.instance, a.claim, addrs, p.src})
			}
		}
	}
	return clone
}

// removeOwnAddrs returns addrs without this host's own: another host may have them too, as
// those of virtual networks that every host has, but from here they lead back.
func (b *browser) removeOwnAddrs(addrs []netip.AddrPort) []netip.AddrPort {
	return slices.DeleteFunc(addrs, func(a netip.AddrPort) bool {
		return a.Port() == b.port && slices.Contains(b.own, a.Addr().WithZone(""))
	})
}
