// Package relays has the relays that a daemon uses: those of config.yaml, those that it keeps in
// relays.yaml, and those of invitations while it joins by them. It makes links of them for the node,
// serves the methods that show and change them, and finds peers by the names in their certificates.
//
// It leaves to others how packets pass through a relay (package relay), and which answer to a request
// for a name is valid (package names).
package relays

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/names"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/relay"
)

// Deps is what the relays need of their daemon.
type Deps struct {
	Dir     string // the state directory
	Name    string // what the daemon calls itself
	Key     *identity.Key
	Trust   *identity.TrustStore
	Node    *peer.Node
	Reserve *disk.Reserve // for methods that free space
	Log     *slog.Logger

	Start config.Reach        // the settings that Node was opened with
	Reach func() config.Reach // the settings as they are now

	// Certificate returns the certificate that the daemon shows to others, and what it says. Both are
	// nil if it shows none.
	Certificate func() (raw []byte, says *identity.Certificate)
	// Publish hands an event to the subscribers of the local API.
	Publish func(typ client.EventType, id identity.ID, name string, at time.Time, details any)
}

// Service has the relays of one daemon. It is safe for concurrent use.
type Service struct {
	Deps
	Names *names.Book // the keys that relays have named

	work       sync.WaitGroup   // calls of apply that no caller waits for
	changed    pace.Signal      // set if the state of a link may have changed
	challenges relay.Challenges // of all links
	joining    sync.Map         // ids of daemons that this one is joining

	keeping  sync.Mutex // held while relays.yaml is read or written
	applying sync.Mutex // held while links are added and removed

	kept atomic.Pointer[keptRelays]
	used atomic.Pointer[[]*usedRelay] // in the order of listWanted

	mu    sync.Mutex    // guards the rest
	joins []*join       // that are under way
	news  chan struct{} // closed when the state of a link may have changed
}

// keptRelays is what relays.yaml has.
type keptRelays struct {
	all     []config.Relay
	failure error // why the file cannot be used
}

// Open reads relays.yaml, and adds the links of all relays to the node. The caller closes the service
// before the node.
func Open(deps Deps) *Service {
	r := &Service{Deps: deps, changed: pace.NewSignal(), news: make(chan struct{})}
	r.used.Store(new([]*usedRelay))
	r.Names = names.NewBook(r.Trust, r.listNameRelays)
	r.loadKept()
	r.apply()
	return r
}

// Close waits until changes of relays have been made.
func (r *Service) Close() { r.work.Wait() }

// Reload reads relays.yaml again, since a person may have fixed it. Then the relays are used according to the
// present settings.
func (r *Service) Reload() {
	r.loadKept()
	r.work.Go(r.apply)
}

// UpdateNames makes relays find this daemon by the name in its certificate. It is called when that or
// the authorities have changed.
func (r *Service) UpdateNames() {
	r.Names.Forget()
	r.setNameOnRelays()
}

// list returns the relays that there are, those of config.yaml first. The caller does not change it.
func (r *Service) list() []*usedRelay { return *r.used.Load() }

// relaySettings are what a link is opened with.
type relaySettings struct {
	config.Relay
	proxy   config.Proxy
	source  client.RelaySource
	invited bool  // of an invitation by which this daemon is joining: its owner has not kept it yet
	unused  error // why it is not used
}

// isSameLink reports whether a link that was opened with other can be used for s.
func (s relaySettings) isSameLink(other relaySettings) bool {
	s.Share, s.source, s.invited = other.Share, other.source, other.invited
	return reflect.DeepEqual(s, other)
}

// usedRelay is a relay that there is.
type usedRelay struct {
	relaySettings
	link    *relayLink // nil if it is not used
	failure error      // why not
}

// listWanted returns the relays that are to be used, in an order in which the first of a name or URL
// is used: config.yaml, relays.yaml, invitations.
func (r *Service) listWanted() []relaySettings {
	reach := r.Reach()
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
		if next.unused == nil && len(listUsable(wanted)) == config.MaxRelays {
			next.unused = ownwords.Errorf("there are %d relays before it, and no more are used: remove some", config.MaxRelays)
		}
		wanted = append(wanted, next)
	}
	for _, s := range reach.Relays {
		add(s, client.RelayOfConfig)
	}
	for _, s := range r.kept.Load().all {
		for _, j := range r.joins {
			for _, n := range j.renewed {
				if n.Name == s.Name && n.URL == s.URL {
					s = n
				}
			}
		}
		add(s, client.RelayKept)
	}
	for _, j := range r.joins {
		for _, s := range j.unknown {
			if !slices.Contains(listUsable(wanted), s.URL) {
				add(s, client.RelayKept)
				wanted[len(wanted)-1].invited = true
			}
		}
	}
	return wanted
}

// HasRelays reports whether relays are to be used, even if it is not possible at the moment.
func (r *Service) HasRelays() bool { return r.DescribeFailure() != "" || len(r.listWanted()) > 0 }

// DescribeFailure returns the warning that relays.yaml cannot be used, "" if it can.
func (r *Service) DescribeFailure() string {
	failure := r.kept.Load().failure
	if failure == nil {
		return ""
	}
	return fmt.Sprintf("relays.yaml cannot be used (%v): none of its relays is used; fix or remove it, then acpctl reload", failure)
}

// ListURLs returns the URLs of the relays that are to be used.
func (r *Service) ListURLs() []string { return listUsable(r.listWanted()) }

// listUsable returns the URLs of those relays that can be used.
func listUsable(all []relaySettings) (urls []string) {
	for _, s := range all {
		if s.unused == nil {
			urls = append(urls, s.URL)
		}
	}
	return urls
}

// ListLinks returns the names of the links of relays.
func (r *Service) ListLinks() (all []string) {
	for _, u := range r.list() {
		if u.link != nil {
			all = append(all, u.link.Name())
		}
	}
	return all
}

// ListWarnings returns which relays are not used, or not for long, and why.
func (r *Service) ListWarnings() (all []string) {
	for _, w := range r.listWanted() {
		err := w.unused
		if err == nil {
			if err = r.checkNextLogin(&w.Relay); err != nil {
				err = ownwords.Errorf("%w, then acpctl reload", err)
			}
		}
		if err != nil {
			all = append(all, fmt.Sprintf("relay %s: %v", w.Name, err))
		}
	}
	return all
}

// apply makes the node's links those of the relays that are wanted. A link whose settings are as
// before stays. It blocks for up to 5 s while connections on others drain.
func (r *Service) apply() {
	r.applying.Lock()
	defer r.applying.Unlock()
	wanted := r.listWanted()
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
	finished := slices.DeleteFunc(slices.Clone(next), func(n *usedRelay) bool { return n.link == nil && n.unused == nil })
	r.used.Store(&finished)
	var removals sync.WaitGroup
	for _, u := range before {
		if u.link != nil && !slices.ContainsFunc(next, func(n *usedRelay) bool { return n.link == u.link }) {
			r.Log.Info("relay: used no more", "relay", u.Name)
			removals.Go(func() { r.Node.RemoveLink(u.link.Name()) })
		}
	}
	removals.Wait()
	for _, u := range next {
		if u.link != nil || u.unused != nil {
			continue
		}
		link, err := r.openLink(u.relaySettings, r.Log)
		if err == nil {
			err = r.Node.AddLink(link)
		}
		if err != nil {
			u.failure = ownwords.Errorf("%w, then acpctl reload", err)
			r.Log.Error("relay: it cannot be used", "relay", u.Name, "err", err)
			continue
		}
		u.link = link
		r.Log.Info("relay: used from now on", "relay", u.Name, "url", u.URL)
	}
	r.used.Store(&next)
	r.setNameOnRelays()
	r.changed.Set()
}

// Run publishes the states of relays until ctx ends, and dials peers when a relay is up.
func (r *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		}
		for _, u := range r.list() {
			r.tell(u)
		}
		r.mu.Lock()
		close(r.news)
		r.news = make(chan struct{})
		r.mu.Unlock()
	}
}

// tell publishes what has changed since it was called last.
func (r *Service) tell(u *usedRelay) {
	if u.link == nil {
		return
	}
	row := u.describe()
	if row.State != u.link.told && row.State != client.RelayConnecting {
		u.link.told = row.State
		e := &client.RelayEvent{Relay: u.Name, State: row.State, Reason: row.Error}
		if row.State == client.RelayUp {
			e.Reason = "" // which is of the outage before
		}
		r.Publish(client.EventRelay, identity.ID{}, "", row.Since.Time, e)
		if row.State == client.RelayUp {
			r.dialAbsentPeers()
		}
	}
	if at := u.link.State().Clone; at.After(u.link.toldClone) {
		u.link.toldClone = at
		r.Publish(client.EventIdentityConflict, r.Key.ID(), r.Name, at, map[string]string{
			"addr": u.link.Name(), "detail": "another process uses the relay with this daemon's identity: stop one of the two",
		})
	}
}

// dialAbsentPeers dials the trusted peers that are not connected.
func (r *Service) dialAbsentPeers() {
	for _, p := range r.Trust.Peers() {
		if _, connected := r.Node.Peer(p.ID); !connected {
			r.Node.Connect(p.ID)
		}
	}
}

// await waits until one of the relays is up, or all have failed, or ctx ends. names are theirs.
func (r *Service) await(ctx context.Context, names []string) {
	for {
		r.mu.Lock()
		news := r.news
		r.mu.Unlock()
		pending := false
		for _, u := range r.list() {
			if !slices.Contains(names, u.Name) {
				continue
			}
			switch u.describe().State {
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
