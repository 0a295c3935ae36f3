package daemon

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/relay"
)

// relays holds the relays that this daemon uses: those of config.yaml, and those that it keeps in
// relays.yaml.
type relays struct {
	changed    pace.Signal      // set if the state of a link may have changed
	challenges relay.Challenges // of all links
	joining    sync.Map         // ids of daemons that this one is joining

	keeping  sync.Mutex // held while relays.yaml is read or written
	applying sync.Mutex // held while links are added and removed

	mu          sync.Mutex // guards the rest
	kept        []config.Relay
	keptFailure error          // why relays.yaml cannot be used
	invited     []config.Relay // of invitations by which this daemon is joining
	renewed     []config.Relay // those of kept that such an invitation has a new token for, with that token
	used        []*usedRelay   // in the order of listWantedRelays
	news        chan struct{}  // closed when the state of a link may have changed
}

func newRelays() *relays {
	return &relays{changed: pace.NewSignal(), news: make(chan struct{})}
}

func (r *relays) getKept() ([]config.Relay, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept, r.keptFailure
}

func (r *relays) setKept(kept []config.Relay, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.keptFailure = kept, failure
}

func (r *relays) setUsed(all []*usedRelay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = all
}

// list returns the relays that there are, those of config.yaml first.
func (r *relays) list() []*usedRelay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.used)
}

// relaySettings are what a link is opened with.
type relaySettings struct {
	config.Relay
	proxy   config.Proxy
	source  client.RelaySource
	invited bool  // of an invitation by which this daemon is joining: its owner has not kept it yet
	unused  error // why it is not used
}

// isSameLink reports whether a link that was opened with other does for s.
func (s relaySettings) isSameLink(other relaySettings) bool {
	s.Share, s.source, s.invited = other.Share, other.source, other.invited
	return reflect.DeepEqual(s, other)
}

// usedRelay is a relay that there is.
type usedRelay struct {
	relaySettings
	link    *relayLink // nil: it is not used
	failure error      // why not
}

// listWantedRelays returns the relays that are to be used, in an order in which the first of a name or URL
// counts: config.yaml, relays.yaml, invitations.
func (d *Daemon) listWantedRelays() []relaySettings {
	reach := d.config.Load().Reach
	r := d.relays
	r.mu.Lock()
	defer r.mu.Unlock()
	var wanted []relaySettings
	add := func(s config.Relay, source client.RelaySource) {
		next := relaySettings{Relay: s, proxy: reach.Proxy, source: source}
		for _, other := range wanted {
			switch {
			case other.unused != nil:
			case other.Name == s.Name && other.source != source:
				next.unused = ownwords.Errorf("config.yaml has another relay of this name, which is used: acpctl relay remove %s removes this one", s.Name)
			case other.URL == s.URL:
				next.unused = ownwords.Errorf("%s has the same URL, and is used: acpctl relay remove %s removes this one", other.Name, s.Name)
			}
		}
		if next.unused == nil && countUsable(wanted) == config.MaxRelays {
			next.unused = ownwords.Errorf("there are %d relays before it, and no more are used: remove some", config.MaxRelays)
		}
		wanted = append(wanted, next)
	}
	for _, s := range reach.Relays {
		add(s, client.RelayOfConfig)
	}
	for _, s := range r.kept {
		for _, n := range r.renewed {
			if n.Name == s.Name && n.URL == s.URL {
				s = n
			}
		}
		add(s, client.RelayKept)
	}
	for _, s := range r.invited {
		if !slices.ContainsFunc(wanted, func(w relaySettings) bool { return w.URL == s.URL && w.unused == nil }) {
			add(s, client.RelayKept)
			wanted[len(wanted)-1].invited = true
		}
	}
	return wanted
}

// hasRelays reports whether relays are to be used, also if none can be at the moment.
func (d *Daemon) hasRelays() bool {
	_, failure := d.relays.getKept()
	return failure != nil || len(d.listWantedRelays()) > 0
}

// listRelayWarnings returns which relays are not used, or not for long, and why.
func (d *Daemon) listRelayWarnings() (all []string) {
	for _, w := range d.listWantedRelays() {
		err := w.unused
		if err == nil {
			if err = d.checkNextLogin(&w.Relay); err != nil {
				err = ownwords.Errorf("%w, then acpctl reload", err)
			}
		}
		if err != nil {
			all = append(all, fmt.Sprintf("relay %s: %v", w.Name, err))
		}
	}
	return all
}

func countUsable(all []relaySettings) (n int) {
	for _, s := range all {
		if s.unused == nil {
			n++
		}
	}
	return n
}

// applyRelays makes the node's links those of the relays that are wanted. A link whose settings are as
// before stays. It blocks for up to 5 s while connections on others drain.
func (d *Daemon) applyRelays() {
	r := d.relays
	r.applying.Lock()
	defer r.applying.Unlock()
	wanted := d.listWantedRelays()
	before := r.list()
	next := make([]*usedRelay, len(wanted))
	for i, w := range wanted {
		next[i] = &usedRelay{relaySettings: w, failure: w.unused}
		for _, u := range before {
			if u.link != nil && w.unused == nil && w.isSameLink(u.relaySettings) {
				next[i].link = u.link
			}
		}
	}
	r.setUsed(slices.DeleteFunc(slices.Clone(next), func(n *usedRelay) bool { return n.link == nil && n.unused == nil }))
	var removals sync.WaitGroup
	for _, u := range before {
		if u.link != nil && !slices.ContainsFunc(next, func(n *usedRelay) bool { return n.link == u.link }) {
			d.log.Info("relay: used no more", "relay", u.Name)
			removals.Go(func() { d.node.RemoveLink(u.link.Name()) })
		}
	}
	removals.Wait()
	for _, u := range next {
		if u.link != nil || u.unused != nil {
			continue
		}
		link, err := d.openRelay(u.relaySettings, d.log)
		if err == nil {
			err = d.node.AddLink(link)
		}
		if err != nil {
			u.failure = ownwords.Errorf("%w, then acpctl reload", err)
			d.log.Error("relay: it cannot be used", "relay", u.Name, "err", err)
			continue
		}
		u.link = link
		d.log.Info("relay: used from now on", "relay", u.Name, "url", u.URL)
	}
	r.setUsed(next)
	d.setNameOnRelays()
	r.changed.Set()
}

// runRelays tells of the relays' states until ctx ends, and has peers dialled when a relay is up.
func (d *Daemon) runRelays(ctx context.Context) error {
	r := d.relays
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		}
		for _, u := range r.list() {
			d.tellOfRelay(u)
		}
		r.mu.Lock()
		close(r.news)
		r.news = make(chan struct{})
		r.mu.Unlock()
	}
}

// tellOfRelay publishes what has changed since it was called last.
func (d *Daemon) tellOfRelay(u *usedRelay) {
	if u.link == nil {
		return
	}
	row := d.describeRelay(u)
	if row.State != u.link.told && row.State != client.RelayConnecting {
		u.link.told = row.State
		e := &client.RelayEvent{Relay: u.Name, State: row.State, Reason: row.Error}
		if row.State == client.RelayUp {
			e.Reason = "" // which is of the outage before
		}
		d.watch.Publish(client.EventRelay, identity.ID{}, "", row.Since.Time, e)
		if row.State == client.RelayUp {
			d.dialAbsentPeers()
		}
	}
	if at := u.link.State().Clone; at.After(u.link.toldClone) {
		u.link.toldClone = at
		d.watch.Publish(client.EventIdentityConflict, d.id, d.name, at, map[string]string{
			"addr": u.link.Name(), "detail": "another process uses the relay with this daemon's identity: stop one of the two",
		})
	}
}

// dialAbsentPeers dials the trusted peers that are not connected.
func (d *Daemon) dialAbsentPeers() {
	for _, p := range d.trust.Peers() {
		if _, connected := d.node.Peer(p.ID); !connected {
			d.node.Connect(p.ID)
		}
	}
}

// awaitRelays waits until one of the relays is up, or all have failed, or ctx ends. names are theirs.
func (d *Daemon) awaitRelays(ctx context.Context, names []string) {
	r := d.relays
	for {
		r.mu.Lock()
		news := r.news
		r.mu.Unlock()
		pending := false
		for _, u := range r.list() {
			if !slices.Contains(names, u.Name) {
				continue
			}
			switch d.describeRelay(u).State {
			case client.RelayUp:
				return
			case client.RelayConnecting:
				pending = true
			}
		}
		if !pending {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}
