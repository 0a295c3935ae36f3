package peer

import (
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/kinds"
)

// maxLinks bounds the links of a node, without its UDP socket.
const maxLinks = 16

// linkRemoved is the reason with which connections are closed on a link that is removed.
const linkRemoved = "the link is removed"

// linkList holds the endpoints of a node's links, those first that were there first.
type linkList struct {
	mu      sync.Mutex // guards what follows
	all     []*endpoint
	serving bool // new ones are started
}

// snapshot returns the links that are not being removed.
func (l *linkList) snapshot() []*endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(e *endpoint) bool { return e.removing.Load() })
}

// find returns the link of that name, unless it is being removed; else nil.
func (l *linkList) find(name string) *endpoint {
	for _, e := range l.snapshot() {
		if e.name == name {
			return e
		}
	}
	return nil
}

// takeAll empties the list and returns what was in it.
func (l *linkList) takeAll() []*endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// delete takes a link out of the list, when it is closed.
func (l *linkList) delete(e *endpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o *endpoint) bool { return o == e })
}

// AddLink gives the node a further link, which it closes in the end. It blocks for no answer of
// the network. The error is a *kinds.Error: the name is taken, there are too many links, or the
// node is closing. The link stays the caller's then.
func (n *Node) AddLink(link Link) error {
	done := make(chan error, 1)
	if !n.startTask(func() { done <- n.openLink(link) }) {
		return kinds.Errorf(kinds.Unreachable, "add link %s: this daemon is shutting down", link.Name())
	}
	return <-done
}

// openLink is AddLink in a goroutine of the node, or before there are any.
func (n *Node) openLink(link Link) error {
	l := &n.links
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case slices.ContainsFunc(l.all, func(e *endpoint) bool { return e.name == link.Name() }):
		return kinds.Errorf(kinds.Invalid, "add link %s: there is one of that name; choose another, or remove that one first", link.Name())
	case len(l.all) >= maxLinks:
		return kinds.Errorf(kinds.Overloaded, "add link %s: there are %d links already; remove one first", link.Name(), maxLinks)
	}
	e, err := n.newLinkEndpoint(link)
	if err != nil {
		return kinds.Errorf(kinds.Internal, "add link %s: %v", link.Name(), err)
	}
	l.all = append(l.all, e)
	if l.serving {
		n.startLink(e)
	}
	return nil
}

// startLinks starts all links that are there, and those that come from now on.
func (n *Node) startLinks() {
	n.links.mu.Lock()
	defer n.links.mu.Unlock()
	n.links.serving = true
	for _, e := range n.links.all {
		n.startLink(e)
	}
}

// startLink accepts connections on a link and runs it, until it is removed or the node closes. A
// link that ends by itself is removed.
func (n *Node) startLink(e *endpoint) {
	ended := func(err error) {
		if e.removing.Swap(true) {
			return
		}
		n.log.Error("a link ended by itself and is removed", "link", e.name, "err", err)
		n.startTask(func() { n.removeLink(e, 0) })
	}
	n.tasks.Go(func() {
		if err := e.acceptConns(); err != nil {
			ended(err)
		}
	})
	e.running.Go(func() {
		if err := e.link.Run(e.runCtx, e); e.runCtx.Err() == nil {
			ended(err)
		}
	})
}

// RemoveLink removes the link of that name and reports whether there was one. Its connections
// drain for up to 5 s; calls that are open then fail, delivered unknown. It returns when the link
// is closed.
func (n *Node) RemoveLink(name string) bool {
	e := n.links.find(name)
	if e == nil || e.removing.Swap(true) {
		return false
	}
	n.startTask(func() { n.removeLink(e, drainTime) }) // if the node is closing, the link is closed with it
	<-e.closed
	return true
}

// removeLink drains the connections on a link for that time, and closes it. e.removing is set.
func (n *Node) removeLink(e *endpoint, drain time.Duration) {
	e.stopAccept()
	e.listener.Close()
	conns := e.listConns()
	for _, c := range conns {
		c.sendGoaway(closeReplaced)
	}
	endConns(conns, drain)
	e.close()
	n.links.delete(e)
}
