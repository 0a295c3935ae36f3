// Package daemon is acpd: it joins the identity, the peers, the store and the
// agents of one state directory.
//
// It serves the local API on a unix socket, hands what peers send to the agents
// that are attached there, remembers delegations and held messages on disk, and
// answers repeats with the first outcome. A message takes the goroutine that read
// it all the way: from the socket's request to the peer's stream and back, and
// from the peer's stream to the agent's connection and back.
//
// What it has said stays true: a receipt handed or held, an ack and an accepted
// delegation outlive a crash, and nobody hears of them before they are on disk.
//
// It leaves to others how messages travel (package peer), what they mean (package
// kinds), what a person allows (package config), and flags, signals and terminals
// (cmd/acpd).
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/oacp/transfer"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Options say what the command line may say; everything else stands in
// config.yaml, which these go before.
type Options struct {
	Home    string      // state directory; "": $ACP_HOME or ~/.acp
	Listen  string      // UDP host:port; "": as configured
	Name    string      // what the daemon calls itself; "": as configured
	Version string      // of the program
	Log     io.Writer   // nil: nothing is logged
	Level   *slog.Level // nil: as configured
	NoMDNS  bool        // do not discover, whatever is configured

	Connected func(peers int) // if set, is told how many peers are connected, when that changes

	look func(path string) (disk.Space, error) // of tests; nil: the system's
}

// Daemon is an open state directory.
type Daemon struct {
	options Options
	home    home
	id      identity.ID
	name    string
	isNew   bool
	noTrust bool // the trust store's files were not there, though the identity was
	started time.Time
	config  atomic.Pointer[config.Config]
	begun   *config.Config                // that of the start
	refused atomic.Pointer[reloadFailure] // why config.yaml was not taken over, until it is
	log     *slog.Logger
	level   slog.LevelVar

	lock   *lock
	key    *identity.Key
	trust  *identity.TrustStore
	budget *budget.Book
	lines  *budget.Log // of what peers cause
	store  *store.DB
	node   *peer.Node
	socket *localSocket
	guests *localSocket // acp.sock of the agents' folder
	files  descriptors
	space  space

	agents          *registry.Registry
	delegations     *delegation.Table
	inbox           *inbox.Inbox
	repeats         *inbox.Repeats
	slowTakers      *budget.Account
	agentPlaces     *budget.Account
	queries         *openQueries
	capabilities    *capabilityCache
	subscribers     *subscribers
	leftovers       *leftovers
	permissions     *permissions
	count           *messageCounts
	lastConnections *lastConnections
	connected       peerCount
	refusers        sync.Map // ids of trusted peers that have said that they do not trust this daemon, until they are connected
	mail            *transfer.Mailer
	mailHome        string // of the mailboxes whose mail is carried
	channels        *channels

	table         *discovery.Table
	updatingTable sync.Mutex  // held from learning where a peer is to telling the table
	rediscover    pace.Signal // holds one where the settings of discovery have changed
	dialHints     dialHints   // only the goroutine of discovery uses it

	draining atomic.Bool
	calls    sync.WaitGroup // calls to agents that outlive the message they are for
}

// Open takes the state directory, makes what is missing in it, and binds both
// sockets; nothing is answered before [Daemon.Run]. Whatever stands in the way is
// an error that says what to do. A daemon that is not run is closed.
func Open(ctx context.Context, o Options) (*Daemon, error) {
	d := &Daemon{
		options: o, started: time.Now(), files: shareDescriptors(descriptorLimit()),
		agents: registry.New(), queries: newOpenQueries(), capabilities: newCapabilityCache(),
		subscribers: new(subscribers), leftovers: newLeftovers(), count: newMessageCounts(),
		rediscover: pace.NewSignal(), dialHints: make(dialHints),
	}
	if err := d.openAll(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Daemon) openAll(ctx context.Context) error {
	dir, err := Home(d.options.Home)
	if err != nil {
		return err
	}
	if d.home, err = openHome(dir); err != nil {
		return err
	}
	// The lock before everything else: what follows may write.
	if d.lock, err = takeLock(ctx, d.home); err != nil {
		return err
	}
	cfg, err := d.loadConfig()
	if err != nil {
		return err
	}
	if err := d.home.openAgentsFolder(cfg.Agents.UIDs); err != nil {
		return err
	}
	d.config.Store(cfg)
	d.begun = cfg
	d.name = cfg.Name
	d.log = d.newLogger(cfg)
	trust, warning, err := identity.OpenTrust(dir)
	if err != nil {
		return err
	}
	if warning != nil {
		d.log.Warn("trust store", "warning", warning)
	}
	if _, err := os.Stat(d.home.key()); errors.Is(err, fs.ErrNotExist) {
		// Before the key: so a key without them always tells of a loss.
		if err := trust.CreateFiles(); err != nil {
			return err
		}
	}
	if d.key, d.isNew, err = identity.LoadOrCreateKey(d.home.key()); err != nil {
		return err
	}
	d.id = d.key.ID()
	d.noTrust = trust.IsNew()
	if n := len(trust.Peers()); d.isNew && n > 0 {
		d.log.Warn("new identity", "warning", fmt.Sprintf("identity.key was not there: the %d peers that are trusted here do not know the new one; restore the key from a backup, or have each of them trust this one", n))
	}
	d.trust = trust
	d.budget = &budget.Book{Peers: trust.Len}
	d.lines = d.budget.OpenLog(d.log)
	d.agentPlaces = d.budget.Open(budget.Places)
	d.repeats = inbox.NewRepeats(d.budget)
	d.slowTakers = d.budget.Open(budget.SlowTakers)
	d.permissions = newPermissions(trust, cfg, d.budget, d.lines)
	if d.mailHome, err = oacpHome(cfg.OACP.Home); err != nil {
		return err
	}
	d.openSpace(uint64(cfg.Limits.MinFree))
	if d.store, err = store.Open(ctx, d.home.state()); err != nil {
		return err
	}
	if err := schema.Migrate(ctx, d.store); err != nil {
		return err
	}
	if d.lastConnections, err = openLastConnections(ctx, d.store); err != nil {
		return err
	}
	d.table = discovery.NewTable(func(id identity.ID) bool { _, ok := trust.Get(id); return ok }, d.onChange)
	for _, p := range trust.Peers() {
		d.updateTable(p.ID)
	}
	if d.inbox, err = inbox.Open(ctx, d.store, d.budget, cfg.MaxMessage, d.space.checkRoom); err != nil {
		return err
	}
	if d.delegations, err = delegation.Open(ctx, d.store, d.agents, d.budget, d.log); err != nil {
		return err
	}
	if err := d.openMail(ctx, cfg); err != nil {
		return err
	}
	if d.node, err = d.listen(ctx, cfg); err != nil {
		return err
	}
	d.node.Handle(wire.StreamMail, policyMail, func(ctx context.Context, from identity.ID, s *peer.Stream) {
		d.mail.Serve(store.For(ctx, from), from, s)
	})
	if err := d.openChannels(ctx, cfg); err != nil {
		return err
	}
	if err := d.findLeftovers(ctx); err != nil {
		return err
	}
	if d.socket, err = openOwnerSocket(ctx, d.home.socket()); err != nil {
		return err
	}
	d.guests, err = d.home.openGuestSocket(ctx, client.SocketName, cfg.Agents.UIDs)
	return err
}

// loadConfig reads config.yaml, with the command line before it.
func (d *Daemon) loadConfig() (*config.Config, error) {
	cfg, err := config.Load(d.home.config())
	if err != nil {
		return nil, err
	}
	if d.options.Listen != "" {
		cfg.Listen = d.options.Listen
	}
	if d.options.Name != "" {
		cfg.Name = d.options.Name
	}
	if d.options.NoMDNS {
		cfg.Discovery.MDNS = config.Off
	}
	return cfg, nil
}

// Run serves until ctx ends, then drains for up to 5 s, closes everything and
// returns nil. It returns an error where a part fails: then all of it ends. What
// comes on reload, which may be nil, makes it read config.yaml again.
func (d *Daemon) Run(ctx context.Context, reload <-chan os.Signal) error {
	g, working := errgroup.WithContext(ctx)
	// The local socket outlives the peers' connections: while these drain, agents
	// still answer what has come in.
	local, closeLocal := context.WithCancel(context.WithoutCancel(ctx))
	defer closeLocal()
	g.Go(func() error {
		defer closeLocal()
		return d.node.Serve(working)
	})
	most := min(maxConnections, d.files.local)
	g.Go(func() error { return d.serveLocal(local, d.socket, most) })
	g.Go(func() error { return d.serveLocal(local, d.guests, most) })
	g.Go(func() error { return d.channels.run(local, working) })
	g.Go(func() error { return d.delegations.Run(working, d.sendLost) })
	g.Go(func() error { return d.saveTrust(working) })
	g.Go(func() error { return d.removeLeftovers(working) })
	g.Go(func() error { return d.runDiscovery(working) })
	g.Go(func() error { return d.lastConnections.run(working, d.log) })
	g.Go(func() error { return d.mail.Run(working) })
	g.Go(func() error { return d.runSpace(working) })
	g.Go(func() error {
		for {
			select {
			case <-working.Done():
				return nil
			case <-reload:
				if err := d.reload(); err != nil {
					d.log.Error("the old configuration stays", "err", err)
				}
			}
		}
	})
	defer context.AfterFunc(working, func() {
		d.draining.Store(true)
		d.log.Info("draining")
		d.notifySystemd(systemd.SdNotifyStopping)
	})()
	for _, p := range d.trust.Peers() {
		d.node.Connect(p.ID)
	}
	if d.store.Alone() {
		d.log.Warn("the disk is full: free some space and start acpd again; until then reads and writes of state.db take turns, and what needs space fails")
	}
	if !d.store.Checked() {
		d.log.Warn("state.db is too large, or its disk too slow, to be checked for damage at the start")
	}
	if d.noTrust {
		d.log.Warn("trust store", "warning", trustIsGone)
	}
	d.warnDoubts()
	d.log.Info("ready", "id", d.id, "name", d.name, "addr", d.node.Addr(), "socket", d.home.socket(), "took", time.Since(d.started))
	d.notifySystemd(systemd.SdNotifyReady)
	err := g.Wait()
	d.calls.Wait()
	return errors.Join(err, d.Close())
}

// notifySystemd tells systemd, where that started us.
func (d *Daemon) notifySystemd(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		d.log.Warn("systemd was not told", "state", state, "err", err)
	}
}

// Close gives everything back that Open took: first the sockets, so that nothing
// new begins; then the stores, which nobody uses any more; last the lock, when
// another daemon may have the directory. It is safe after Run, and twice.
func (d *Daemon) Close() error {
	var errs []error
	if d.socket != nil {
		d.socket.Close() // also removes its file
	}
	if d.guests != nil {
		d.guests.Close()
	}
	if d.channels != nil {
		d.channels.close()
	}
	if d.node != nil {
		d.node.Close()
	}
	if d.lines != nil {
		d.lines.Close()
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.lock != nil {
		if d.trust != nil {
			errs = append(errs, d.space.reserve.Spend(d.trust.Save))
		}
		errs = append(errs, d.lock.release())
	}
	d.socket, d.guests, d.channels, d.node, d.lines, d.store, d.lock = nil, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// reload reads config.yaml again; when that is not valid the old one stays, and the
// status says so until a later call succeeds. What [atOnce] lists counts then, everything
// else from the next start; the log and the status name it.
func (d *Daemon) reload() error {
	next, err := d.loadConfig()
	if err != nil {
		d.refused.Store(&reloadFailure{time.Now(), err})
		return err
	}
	d.refused.Store(nil)
	old := d.config.Swap(next)
	d.permissions.set(next)
	d.channels.Review(func(id identity.ID) bool {
		p, ok := d.trust.Get(id)
		return ok && d.permissions.decide(p, policyChannel, "").Allowed
	})
	d.setLevel(next)
	for _, p := range d.trust.Peers() {
		if !slices.Equal(old.Peers[p.Name].Addrs, next.Peers[p.Name].Addrs) || !slices.Equal(old.Peers[p.ID.String()].Addrs, next.Peers[p.ID.String()].Addrs) {
			d.updateTable(p.ID)
			d.node.Connect(p.ID)
		}
	}
	if !old.Discovery.Equal(next.Discovery) {
		d.rediscover.Set()
	}
	if later := settingsAtNextStart(old, next); len(later) > 0 {
		d.log.Warn("settings have changed that count from the next start: start acpd again for them", "settings", strings.Join(later, ", "))
	}
	d.warnDoubts()
	d.log.Info("configuration reloaded")
	return nil
}

// ID returns the daemon's identity.
func (d *Daemon) ID() identity.ID { return d.id }

// IsNew reports whether the identity was made by this Open.
func (d *Daemon) IsNew() bool { return d.isNew }

// Discovers reports whether the daemon looks for others on the local network.
func (d *Daemon) Discovers() bool { return d.config.Load().Discovery.MDNS == config.On }

// Addrs returns where peers can reach the daemon, as host:port.
func (d *Daemon) Addrs() []string { return d.node.LocalAddrs() }

// Dir returns the state directory.
func (d *Daemon) Dir() string { return string(d.home) }

// nameOf returns a peer's petname, also that of a blocked one unless another has it
// now, or its id where it has none.
func (d *Daemon) nameOf(id identity.ID) string {
	if p, ok := d.trust.Get(id); ok {
		return p.Name
	}
	if b, ok := d.trust.Block(id); ok && b.Name != "" && !d.isTaken(b.Name) {
		return b.Name
	}
	return id.String()
}
