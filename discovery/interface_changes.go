package discovery

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// awaitInterfaceNotices waits for notices. That one was too long or lost is a notice too.
func (n *node) awaitInterfaceNotices() {
	var begin [64]byte
	for {
		if _, err := n.notices.Read(begin[:]); err != nil && !errors.Is(err, syscall.ENOBUFS) {
			return
		}
		n.rewired.Set()
	}
}

// updateLinks brings the sockets and what is announced in line with the interfaces.
func (n *node) updateLinks(now time.Time) {
	first := n.watch.nics == nil
	changed, err := n.watch.pollInterfaces()
	if err != nil {
		n.lookAt = now.Add(pollTime)
		n.warnOnce("interfaces", ownwords.Errorf("list interfaces: %w: nobody is discovered until that works; configured addresses do", err))
		return
	}
	if !changed {
		return
	}
	n.browser.own = n.watch.listOwnAddrs()
	want, cut := n.watch.listUsableInterfaces(n.cfg.Listen.Addr(), n.cfg.Include, n.cfg.Exclude)
	if cut > 0 {
		n.warnOnce("many", ownwords.Errorf("%d interfaces are left out: name the ones that matter in the interface list", cut))
	}
	outside := func(w nic) bool { return !w.isLoopback() }
	if len(want) == 0 || len(n.cfg.Include) == 0 && !n.cfg.Listen.Addr().IsLoopback() && !slices.ContainsFunc(want, outside) {
		which := ""
		if len(n.cfg.Include)+len(n.cfg.Exclude) > 0 {
			which = " of those that discovery.include and exclude in config.yaml leave"
		}
		n.warnOnce("none", ownwords.Errorf("no interface%s is up and can do multicast: nobody on another host is discovered until one is; configured addresses work without", which))
	}
	before := len(n.links)
	n.links = slices.DeleteFunc(n.links, func(l *link) bool {
		gone := !slices.ContainsFunc(want, l.nic.isEqual)
		if gone {
			l.close()
		}
		return gone
	})
	moved := len(n.links) != before
	for _, w := range want {
		if !slices.ContainsFunc(n.links, func(l *link) bool { return l.nic.isEqual(w) }) {
			moved = true
			n.links = append(n.links, n.openLinkOrWarn(w))
		}
	}
	if moved {
		n.zone.current.Store(newDNSRecords(n.cfg.Self, n.cfg.Name, listAnnouncedAddrs(n.cfg.Listen, want)))
		n.browser.restartSchedule(now)
		if n.cfg.Rewired != nil && !first {
			n.cfg.Rewired()
		}
	}
}

// openLinkOrWarn opens a link and warns of what could not be had of it.
func (n *node) openLinkOrWarn(w nic) *link {
	l, errs := openLink(w)
	for _, err := range errs {
		kind, err := explainOpenError(w, err)
		n.warnOfInterface(w, kind, err)
	}
	for _, p := range l.pairs {
		for _, s := range []*socket{p.group, p.query} {
			if s != nil {
				n.readers.Go(func() { p.readPackets(s, w, n.zone, n.queuePacket) })
			}
		}
	}
	return l
}

// reopenLinks reopens the links that lack a socket or have gone deaf.
func (n *node) reopenLinks() {
	for i, l := range n.links {
		broken, deaf := l.checkSockets()
		if deaf && l.reopened {
			n.warnOfInterface(l.nic, "deaf", ownwords.Errorf("on %s: nothing is heard, not even what is sent from here: let UDP port 5353 through the firewall, or configure addresses", l.nic.Name))
		}
		if broken || deaf {
			l.close()
			n.links[i] = n.openLinkOrWarn(l.nic)
			n.links[i].reopened = true
		}
	}
}

// warnOfInterface warns of what is missing on an interface. Without loopback only the daemons
// of this host miss each other, and mostly there are no others; so only a daemon
// that has no other interface gets that warning.
func (n *node) warnOfInterface(w nic, kind string, err error) {
	if !w.isLoopback() || n.cfg.Listen.Addr().IsLoopback() {
		n.warnOnce(kind, err)
	}
}
