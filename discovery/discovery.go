// Package discovery finds the addresses of peers.
//
// A [Table] holds what is known about where a peer may be reached, with its
// provenance and age: addresses that a person configured, addresses that worked
// before, and what peers say about themselves on the local network. [RunMDNS] is the
// source of the last kind: multicast DNS service discovery (RFC 6762, RFC 6763)
// for the service _acp._udp, on every interface that can do multicast, over IPv4
// and IPv6. Its records are those of hashicorp/mdns; the sockets, the answers,
// announcements, goodbyes and the receiver are its own, because that
// library's server answers questions from anywhere.
//
// A received packet may come from any machine on the network and proves nothing. It becomes
// a hint and no more: it never touches a configured address, it takes a bounded
// place, and it fades 90 s after its last repetition. Packets from
// sources that are not on the link, and addresses that are neither on the link nor
// private, are ignored. The network can fail in every way without ending Run: each
// kind of failure is one warning with its remedy, and the rest continues.
//
// The package knows neither trust nor dialling. The caller says which ids are
// trusted, so that strangers cannot displace them, limits how often news make it
// dial, and gets the addresses from [Table.TakeDialAddrs]. The handshake proves the key.
package discovery

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

const (
	// The interfaces are looked at when the system reports that they have changed, but not
	// for every such report; and every second where it reports nothing, or every minute, in
	// case it did not report all. A look costs three requests to the kernel and 33 KB.
	lookGap  = 100 * time.Millisecond
	pollTime = time.Second
	lookTime = time.Minute

	// byePause lies between the two goodbyes.
	byePause = 100 * time.Millisecond

	// waiting bounds the packets that wait for the goroutine of Run: the answers of a large
	// network to one question.
	waiting = 256
)

// Config holds the settings of [RunMDNS]. Include, Exclude and Rewired are optional.
type Config struct {
	Self identity.ID
	Name string // what this daemon calls itself; "": nothing

	// Listen holds the address at which peers are accepted. With an unspecified address all addresses
	// of the interfaces are announced, with 0.0.0.0 only those of IPv4, with another
	// address that one, and with one of loopback that one, only to this host.
	Listen netip.AddrPort

	// Include names the only interfaces to use. If it is empty, these are loopback, for the daemons of this
	// host, and all that are up and can do multicast. Exclude names interfaces that are
	// not used.
	Include, Exclude []string

	// Rewired is called when the interfaces in use have changed, in Run's goroutine. It
	// must not block. Nil: nothing is called.
	Rewired func()

	Table  *Table
	Logger *slog.Logger
}

// RunMDNS announces this daemon, answers questions about it and fills the table, until
// ctx ends. Then it says goodbye, removes what the network said from the table, and
// returns when its goroutines have ended. No failure of the network is an error.
func RunMDNS(ctx context.Context, cfg Config) error {
	n := &node{
		cfg:     cfg,
		zone:    &zone{},
		browser: newBrowser(cfg.Self, cfg.Listen.Port(), cfg.Table),
		packets: make(chan packet, waiting),
		rewired: pace.NewSignal(),
		every:   pollTime,
		stop:    make(chan struct{}),
		warned:  make(map[string]bool),
	}
	defer n.sendGoodbyeAndClose()
	if notices, err := openInterfaceNotices(); err == nil {
		n.notices, n.every = notices, lookTime
		n.readers.Go(n.awaitInterfaceNotices)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-n.packets:
			n.handlePacket(p)
		case <-n.rewired:
			n.lookAt = n.looked.Add(lookGap)
		case <-timer.C:
		}
		timer.Reset(time.Until(n.doDueWork(time.Now())))
	}
}

// node holds the state of one Run. One goroutine owns all of it; those that read sockets
// only hand packets over.
type node struct {
	cfg     Config
	zone    *zone
	browser *browser
	watch   interfaceWatch
	links   []*link
	looked  time.Time // when the interfaces were
	lookAt  time.Time // when they will be again
	warned  map[string]bool
	notices io.ReadCloser // nil: the system gives none
	every   time.Duration // how often the interfaces are looked at without notice

	readers sync.WaitGroup
	packets chan packet
	rewired pace.Signal // holds one after a notice
	stop    chan struct{}
}

// doDueWork does what is due and returns the time when more will be.
func (n *node) doDueWork(now time.Time) time.Time {
	if !now.Before(n.lookAt) {
		n.looked, n.lookAt = now, now.Add(n.every)
		n.updateLinks(now)
	}
	due, next := n.browser.takeDueWork(now)
	if due.everybody {
		n.reopenLinks()
	}
	known := n.zone.current.Load()
	for _, l := range n.links {
		if due.announce && known != nil {
			l.sendAnnouncement(known.encodeAnnouncement(lifetime))
		}
		if due.loud {
			l.sendAnnouncement(encodeQuestion(service, dns.TypePTR))
		}
		for _, q := range due.questions {
			if err := l.sendQuestion(q); err != nil {
				n.warnOfInterface(l.nic, "send", ownwords.Errorf("on %s: %w: look at its addresses and the firewall, or exclude the interface; configured addresses work without", l.nic.Name, err))
			}
		}
	}
	if next.IsZero() || n.lookAt.Before(next) {
		return n.lookAt
	}
	return next
}

// queuePacket hands a packet over to the goroutine that owns the node; false: it has ended.
func (n *node) queuePacket(p packet) bool {
	select {
	case n.packets <- p:
		return true
	case <-n.stop:
		return false
	}
}

// handlePacket reads a packet, and warns if another daemon announces this one's id.
func (n *node) handlePacket(p packet) {
	clone := n.browser.recordPacket(p)
	if !clone.IsValid() || n.warned["clone"] {
		return
	}
	// An address may be so new here that it is not known as this host's.
	if list, err := net.InterfaceAddrs(); err == nil && clone.Port() == n.cfg.Listen.Port() &&
		slices.ContainsFunc(parsePrefixes(list), func(own netip.Prefix) bool { return own.Addr() == clone.Addr() }) {
		return
	}
	n.warnOnce("clone", ownwords.Errorf("%s announces this daemon's own id: its key is in use there too, or somebody pretends: give that daemon a key of its own", p.src))
}

// warnOnce logs one warning of each kind.
func (n *node) warnOnce(kind string, err error) {
	if !n.warned[kind] {
		n.warned[kind] = true
		n.cfg.Logger.Warn("discovery", "err", err)
	}
}

func (n *node) sendGoodbyeAndClose() {
	// Nobody may answer after the goodbye. One may have begun to before, or be read
	// out of turn over there, and contradict it; so it is said again.
	if known := n.zone.current.Swap(nil); known != nil {
		for again := range 2 {
			if again > 0 {
				time.Sleep(byePause)
			}
			for _, l := range n.links {
				l.sendAnnouncement(known.encodeAnnouncement(0))
			}
		}
	}
	close(n.stop)
	if n.notices != nil {
		n.notices.Close()
	}
	for _, l := range n.links {
		l.close()
	}
	n.readers.Wait()
	n.cfg.Table.removeAllHints()
}
