// Package daemon is acpd: it joins the identity, the peers, the store and the
// agents of one state directory.
//
// It serves the local API on a unix socket, hands what peers send to the agents
// that are attached there, remembers delegations and held messages on disk, and
// answers repeats with the first outcome. A message takes the goroutine that read
// it all the way: from the socket's request to the peer's stream and back, and
// from the peer's stream to the agent's connection and back.
//
// It reports a receipt handed or held, an ack and an accepted delegation only once they are on disk, so that
// a crash does not undo them.
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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/addresses"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/channels"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/files"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/incoming"
	"github.com/acpd/acpd/daemon/kept"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/mail"
	"github.com/acpd/acpd/daemon/measures"
	"github.com/acpd/acpd/daemon/organisation"
	"github.com/acpd/acpd/daemon/outgoing"
	"github.com/acpd/acpd/daemon/peers"
	"github.com/acpd/acpd/daemon/permissions"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/relays"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/daemon/settings"
	"github.com/acpd/acpd/daemon/spending"
	"github.com/acpd/acpd/daemon/tasks"
	"github.com/acpd/acpd/daemon/watch"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Options holds what the command line may set. It takes precedence over config.yaml, which holds
// everything else.
type Options struct {
	Home    string      // state directory; "": $ACP_HOME or ~/.acp
	Listen  string      // UDP host:port; "": as configured
	Name    string      // what the daemon calls itself; "": as configured
	Version string      // of the program
	Log     io.Writer   // nil: nothing is logged
	Level   *slog.Level // nil: as configured
	NoMDNS  bool        // do not discover, whatever is configured
	Pprof   string      // path of a socket on which profiles of the process are served, or "" to serve none

	Connected func(peers int) // if set, is called with the number of connected peers when that changes

	measure   func(path string) (disk.Space, error) // of tests; nil: the system's
	hurryKept bool                                  // of tests: see kept.Deps
}

// Daemon is an open state directory.
type Daemon struct {
	options      Options
	home         home
	id           identity.ID
	name         string
	isNew        bool
	trustWasLost bool // the trust store's files were not there, though the identity was
	started      time.Time
	config       *settings.Service
	log          *slog.Logger

	lock       *os.File
	key        *identity.Key
	trust      *identity.TrustStore
	budget     *budget.Book
	refusalLog *budget.Log // of what peers cause
	store      *store.DB
	node       *peer.Node
	udpAddr    string // of node
	local      *local.Server
	socket     *local.Socket
	guests     *local.Socket // acp.sock of the agents' folder
	files      admin.Descriptors
	space      *admin.Space

	registry    *registry.Registry // the attached agents
	agents      *agents.Service    // serves them
	outgoing    *outgoing.Service
	tasks       *tasks.Service
	kept        *kept.Service
	fileService *files.Service
	incoming    *incoming.Service
	sessions    *sessions.Service
	delegations *delegation.Table
	inbox       *inbox.Inbox
	repeats     *inbox.Repeats
	spending    *spending.Service
	known       *known.Messages
	watch       *watch.Service
	permissions *permissions.Permissions
	measures    *measures.Measures   // nil if nothing is counted for metrics
	metrics     *admin.MetricsServer // nil if nothing is served
	mail        *mail.Service
	channels    *channels.Service
	relays      *relays.Service

	addresses    *addresses.Service
	organisation *organisation.Service
	peers        *peers.Service

	readiness *admin.Readiness
	systemd   *admin.Systemd
	drain     *admin.Drain
	calls     sync.WaitGroup // calls to agents that outlive the message they are for
}

// OpenDaemon locks the state directory, makes what is missing in it, and opens both sockets.
// Nothing is answered before [Daemon.Run]. An error says what to do. If the daemon is not
// run, the caller closes it.
func OpenDaemon(ctx context.Context, o Options) (*Daemon, error) {
	d := &Daemon{
		options: o, started: time.Now(), files: admin.DivideDescriptors(admin.ReadDescriptorLimit()),
		registry: registry.NewRegistry(),
	}
	if err := d.openParts(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Daemon) openParts(ctx context.Context) error {
	dir, err := ResolveHome(d.options.Home)
	if err != nil {
		return err
	}
	if d.home, err = openHome(dir); err != nil {
		return err
	}
	// The lock before everything else: what follows may write.
	if d.lock, err = lockHome(ctx, d.home, dyingTime); err != nil {
		return err
	}
	if err := statedir.CheckComplete(dir); err != nil {
		return err
	}
	d.config, err = settings.Open(d.home.filePath(statedir.ConfigName), settings.Overrides{Listen: d.options.Listen, Name: d.options.Name, Level: d.options.Level, NoMDNS: d.options.NoMDNS})
	if err != nil {
		return err
	}
	cfg := d.config.Start()
	if err := local.OpenAgentsFolder(dir, cfg.Agents.UIDs); err != nil {
		return err
	}
	d.name = cfg.Name
	d.log = d.config.NewLogger(d.options.Log)
	d.drain = admin.NewDrain(d.registry, d.log)
	if cfg.Metrics.Listen != "" {
		d.measures = measures.New()
	}
	trust, warning, err := identity.OpenTrustStore(dir)
	if err != nil {
		return err
	}
	if warning != nil {
		d.log.Warn("trust store", "warning", warning)
	}
	keyFile := d.home.filePath(statedir.KeyName)
	if _, err := os.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
		// They are created before the key. So a key without them means that they were lost.
		if err := trust.CreateFiles(); err != nil {
			return err
		}
	}
	if d.key, d.isNew, err = identity.LoadOrCreateKey(keyFile); err != nil {
		return err
	}
	d.id = d.key.ID()
	d.trustWasLost = trust.NeverSaved()
	if n := len(trust.Peers()); d.isNew && n > 0 {
		d.log.Warn("new identity", "warning", fmt.Sprintf("identity.key was not there: the %d peers that are trusted here do not know the new one; restore the key from a backup, or have each of them trust this one", n))
	}
	d.trust = trust
	trust.KeepFromClaims(func(name string) bool { return len(d.config.Load().ListSettingsNaming(name)) > 0 })
	findFleetName := func(id identity.ID) (string, bool) { return d.organisation.FindFleetName(id) } // asked when something is counted
	d.budget = &budget.Book{Peers: trust.Len, Certified: findFleetName}
	d.registry.Certified = findFleetName
	d.registry.IsTrustedConnected = func() bool { return d.node.IsAnyConnected(trust.IsTrusted) }
	d.refusalLog = d.budget.OpenLog(d.log)
	d.repeats = inbox.NewRepeats(d.budget)
	d.permissions = permissions.New(trust, cfg, d.budget, d.refusalLog)
	mailHome, err := mail.ResolveHome(cfg.OACP.Home)
	if err != nil {
		return err
	}
	d.space = admin.OpenSpace(admin.SpaceConfig{Home: dir, MailHome: mailHome, MinFree: uint64(cfg.Limits.MinFree), Budget: d.budget, Log: d.log, Calls: &d.calls, Look: d.options.measure})
	if d.store, err = store.OpenDB(ctx, d.home.filePath(statedir.StateName)); err != nil {
		return err
	}
	if d.measures != nil {
		d.store.ObserveCommits(d.measures.CountCommit)
	}
	upgrade := &admin.Upgrade{Store: d.store, Space: d.space, Version: d.options.Version, Log: d.log}
	if err := upgrade.Prepare(ctx); err != nil {
		return err
	}
	if err := schema.Migrate(ctx, d.store); err != nil {
		return err
	}
	if d.organisation, err = organisation.Open(ctx, organisation.Deps{Self: d.id, Dir: dir, DB: d.store, Trust: trust, Config: d.config.Load, Log: d.log}); err != nil {
		return err
	}
	if d.inbox, err = inbox.OpenInbox(ctx, d.store, d.budget, cfg.MaxMessage, d.space.CheckRoom); err != nil {
		return err
	}
	if d.delegations, err = delegation.OpenTable(ctx, d.store, d.registry, d.budget, func(t *delegation.Delegation) { d.sessions.Waker.Release(t.Agent, t.Peer, t.ID) }, d.log); err != nil {
		return err
	}
	d.known = known.New(known.Deps{Self: d.id, Inbox: d.inbox, Repeats: d.repeats, Delegations: d.delegations, MaxListBytes: d.maxListBytes, Calls: &d.calls})
	d.spending = spending.New(spending.Deps{DB: d.store, Trust: trust, Known: d.known, Config: d.config.Load, PeerName: d.trust.NameOf, Disk: d.space.Reserve, Log: d.log})
	d.watch = watch.New(watch.Deps{Trust: trust, Delegations: d.delegations, ResolvePeers: func(names []string, forGuest bool) ([]identity.ID, error) { return d.peers.ResolveAll(names, forGuest) }, MaxListBytes: d.maxListBytes, Log: d.log})
	d.watch.KeepHistory(cfg.History != config.Off)
	if d.addresses, err = addresses.Open(ctx, addresses.Deps{
		Self: d.id, Name: d.name, DB: d.store, Trust: trust, Config: d.config.Load, Node: func() *peer.Node { return d.node }, Log: d.log, Publish: d.watch.Publish,
	}); err != nil {
		return err
	}
	if d.node, err = d.listenUDP(ctx, cfg); err != nil {
		return err
	}
	d.udpAddr = d.node.Addr().String()
	for _, warning := range d.listAbsentAddrs() {
		d.log.Warn("an address to listen on is not there", "warning", warning)
	}
	d.relays = relays.Open(relays.Deps{
		Dir: dir, Name: d.name, Key: d.key, Trust: d.trust, Node: d.node, Reserve: d.space.Reserve, Log: d.log,
		Start: cfg.Reach, Reach: func() config.Reach { return d.config.Load().Reach },
		Certificate: d.organisation.Certificate, Publish: d.watch.Publish,
	})
	d.applyCertificates()
	d.peers, err = peers.Open(peers.Deps{
		Self: d.id, Name: d.name, Dir: dir, PQ: identity.HashPQ(d.key.PublicPQ()), Trust: trust, Node: d.node, Addresses: d.addresses, Relays: d.relays,
		Organisation: d.organisation, Reserve: d.space.Reserve, Log: d.log, Direct: cfg.Reach.Direct, Config: d.config.Load,
		Forget: d.forgetPeer, Removals: d.listRemovals, Publish: d.watch.Publish, Connected: d.options.Connected,
		IsInUse: func(c *local.Conn) bool { return d.registry.FindByConn(c.Conn) != nil || d.watch.IsUsing(c) },
	})
	if err != nil {
		return err
	}
	if err := d.openSessions(ctx); err != nil {
		return err
	}
	if err := d.openMessages(ctx); err != nil {
		return err
	}
	if err := d.openFiles(ctx); err != nil {
		return err
	}
	if err := d.openMail(ctx, mailHome); err != nil {
		return err
	}
	d.node.Handle(wire.StreamMail, config.PolicyMail, func(ctx context.Context, from identity.ID, s *peer.Stream) {
		d.mail.Serve(store.WithRequester(ctx, from), from, s)
	})
	d.channels, err = channels.Open(ctx, channels.Deps{
		Self: d.id, Dir: dir, DB: d.store, Trust: trust, Budget: d.budget, Node: d.node, Agents: d.registry, Space: d.space, Measures: d.measures,
		MaxConns: d.files.Local, PeerLog: d.refusalLog, Log: d.log, Config: d.config.Load, Admit: d.checkStreamPermission,
	})
	if err != nil {
		return err
	}
	if err := upgrade.RecordWriter(ctx); err != nil {
		return err
	}
	if err := d.findLeftovers(ctx); err != nil {
		return err
	}
	d.openLocal()
	if d.socket, err = local.OpenOwnerSocket(ctx, d.home.ownerSocketPath()); err != nil {
		return err
	}
	if d.guests, err = local.OpenGuestSocket(ctx, dir, client.SocketName, cfg.Agents.UIDs); err != nil {
		return err
	}
	d.systemd = &admin.Systemd{Log: d.log, Describe: d.describeStatus}
	d.config.Deps = settings.Deps{Trust: trust, Log: d.log, Systemd: d.systemd, Prepare: d.prepareSettings, ListWarnings: d.listSettingsWarnings}
	d.readiness = &admin.Readiness{
		Socket: d.socket, CheckUDP: d.node.CheckAnswers, Store: d.store, Space: d.space, Loops: d.listLoops(), Calls: &d.calls,
		IsLeaving: d.drain.IsLeaving, Leaving: d.drain.Ending(),
	}
	d.metrics, err = admin.OpenMetrics(ctx, cfg.Metrics, admin.MetricsConfig{ListFamilies: d.listMetricFamilies, CheckReadiness: d.readiness.Check, MaxConns: d.files.Local, Log: d.log})
	return err
}

// listLoops returns the loops that accept peers and local connections.
func (d *Daemon) listLoops() []admin.MovingPart {
	all := []admin.MovingPart{{Name: "the UDP socket", AwaitRound: d.node.AwaitAcceptRound}}
	for _, s := range []*local.Socket{d.socket, d.guests} {
		all = append(all, admin.MovingPart{Name: s.Addr().String(), AwaitRound: s.AwaitRound})
	}
	for _, l := range d.channels.Accepting {
		all = append(all, admin.MovingPart{Name: l.Addr().String(), AwaitRound: l.AwaitRound})
	}
	return all
}

// openSessions opens what wakes sessions.
func (d *Daemon) openSessions(ctx context.Context) (err error) {
	var untrusted []identity.ID
	d.sessions, untrusted, err = sessions.Open(ctx, sessions.Deps{
		Self: d.id, Dir: string(d.home), DB: d.store, Trust: d.trust, Agents: d.registry, Inbox: d.inbox, Delegations: d.delegations, Known: d.known, Watch: d.watch,
		Disk: d.space.Reserve, Calls: &d.calls, Log: d.log,
		Config: d.config.Load, PeerName: d.trust.NameOf, ResolvePeer: d.peers.Resolve, MayDiscover: d.permissions.MayDiscover,
		DescribeDelegation: func(ctx context.Context, t *delegation.Delegation, payloads bool) *client.Task {
			return d.tasks.Describe(ctx, t, payloads)
		},
	})
	for _, id := range untrusted {
		d.peers.AddLeftover(id)
	}
	return err
}

// Run serves until ctx ends or a drain is over, then drains the connections for up to 5 s, closes
// everything and returns nil.
// If a part fails, all parts end and Run returns the error. Each value from reload, which
// may be nil, makes Run read config.yaml again.
func (d *Daemon) Run(ctx context.Context, reload <-chan os.Signal) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	g, working := errgroup.WithContext(ctx)
	// The local socket outlives the peers' connections: while these drain, agents
	// still answer what has come in.
	here, closeLocal := context.WithCancel(context.WithoutCancel(ctx))
	defer closeLocal()
	g.Go(func() error {
		defer closeLocal()
		return d.node.Serve(working)
	})
	most := min(local.MaxConnections, d.files.Local)
	g.Go(func() error { return d.local.Serve(here, d.socket, most) })
	g.Go(func() error { return d.local.Serve(here, d.guests, most) })
	g.Go(func() error { return d.channels.Run(here, working) })
	g.Go(func() error { return d.metrics.Run(here) })
	g.Go(func() error { return admin.ServePprof(working, d.options.Pprof) })
	g.Go(func() error { return d.tasks.Run(working) })
	g.Go(func() error { return d.config.Run(working, reload) })
	g.Go(func() error { return d.drain.Run(working, end) })
	for _, part := range []func(context.Context) error{d.peers.Run, d.addresses.Run, d.mail.Run, d.kept.Run, d.fileService.Run, d.space.Run, d.sessions.Run, d.relays.Run, d.organisation.Run} {
		g.Go(func() error { return part(working) })
	}
	defer context.AfterFunc(working, func() {
		d.drain.BeginEnd()
		d.log.Info("draining")
		d.systemd.Tell(admin.StateStopping)
	})()
	for _, p := range d.trust.Peers() {
		d.node.Connect(p.ID)
	}
	if d.store.HasOneConn() {
		d.log.Warn("the disk is full: free some space and start acpd again; until then reads and writes of state.db take turns, and what needs space fails")
	}
	if !d.store.IsChecked() {
		d.log.Warn("state.db is too large, or its disk too slow, to be checked for damage at the start")
	}
	if d.trustWasLost {
		d.log.Warn("trust store", "warning", trustLostWarning)
	}
	d.config.LogWithoutEffect()
	d.log.Info("ready", "id", d.id, "name", d.name, "addr", d.node.Addr(), "socket", d.home.ownerSocketPath(), "took", time.Since(d.started))
	d.readiness.SetServing()
	d.systemd.Tell(admin.StateReady)
	g.Go(func() error { return d.systemd.RunWatchdog(working, d.readiness.ListMovingParts()) })
	err := g.Wait()
	d.calls.Wait()
	return errors.Join(err, d.Close())
}

// Close closes everything that OpenDaemon opened: first the sockets, so that nothing new begins,
// then the stores, and last the lock, because another daemon may take the directory then. It
// may be called after Run, and twice.
func (d *Daemon) Close() error {
	var errs []error
	if d.metrics != nil {
		d.metrics.Close()
	}
	if d.socket != nil {
		d.socket.Close() // also removes its file
	}
	if d.guests != nil {
		d.guests.Close()
	}
	if d.channels != nil {
		d.channels.Close()
	}
	if d.relays != nil {
		d.relays.Close()
	}
	if d.node != nil {
		d.node.Close()
	}
	if d.refusalLog != nil {
		d.refusalLog.Close()
	}
	if d.store != nil {
		if d.organisation != nil {
			d.organisation.Close() // no connection brings another key
		}
		errs = append(errs, d.store.Close())
	}
	if d.lock != nil {
		if d.trust != nil {
			errs = append(errs, d.space.RunWithReserve(d.trust.Save))
		}
		if d.sessions != nil {
			errs = append(errs, d.space.RunWithReserve(d.sessions.Waker.Rules.Save))
		}
		errs = append(errs, d.lock.Close())
	}
	d.metrics, d.socket, d.guests, d.channels, d.node, d.refusalLog, d.store, d.lock = nil, nil, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// ID returns the daemon's identity.
func (d *Daemon) ID() identity.ID { return d.id }

// HasNewIdentity reports whether the identity was made when OpenDaemon opened the home.
func (d *Daemon) HasNewIdentity() bool { return d.isNew }

// Addrs returns the addresses at which peers can reach the daemon, as host:port.
func (d *Daemon) Addrs() []string { return d.node.LocalAddrs() }

// Dir returns the state directory.
func (d *Daemon) Dir() string { return string(d.home) }
