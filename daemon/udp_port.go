package daemon

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// listenUDP opens the UDP socket: on the configured port; else on the one that was
// chosen before, else on 7117, else on a free one, which is kept for the next start.
func (d *Daemon) listenUDP(ctx context.Context, cfg *config.Config) (*peer.Node, error) {
	host, port := "", "0"
	if cfg.Listen != "" {
		var err error
		if host, port, err = net.SplitHostPort(cfg.Listen); err != nil {
			return nil, ownwords.Errorf("listen: %w: write host:port, like 0.0.0.0:7117", err)
		}
	}
	listen := func(port string) (*peer.Node, error) {
		return peer.Listen(d.newNodeConfig(cfg, net.JoinHostPort(host, port)))
	}
	if port != "0" {
		n, err := listen(port)
		return n, explainListenError(host, port, err)
	}
	kept, err := store.ReadValue(ctx, d.store, readUDPPort)
	if err != nil {
		return nil, ownwords.Errorf("listen: %w", err)
	}
	var ports []string
	if kept != "" {
		ports = append(ports, kept)
	}
	if cfg.Listen == "" {
		ports = append(ports, config.DefaultPort)
	}
	for _, port := range ports {
		n, err := listen(port)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return n, explainListenError(host, port, err)
		}
	}
	n, err := listen("0")
	if err != nil {
		return nil, explainListenError(host, "0", err)
	}
	chosen := strconv.Itoa(n.Addr().(*net.UDPAddr).Port)
	if err := d.store.Write(ctx, true, func(tx *store.Tx) error { return writeUDPPort(tx, chosen) }); err != nil {
		d.log.Warn("the port will be another one at the next start", "port", chosen, "err", err)
	}
	return n, nil
}

// newNodeConfig returns how this daemon speaks with peers, on an address of UDP.
func (d *Daemon) newNodeConfig(cfg *config.Config, addr string) peer.Config {
	return peer.Config{
		Key: d.key, Trust: d.trust, Name: d.name, Software: "acpd " + d.options.Version,
		MaxMessage: cfg.MaxMessage, RequirePQ: cfg.PostQuantum == config.Require,
		Listen: addr, Addrs: d.addresses.TakeDialAddrs,
		Exchange: func(ctx context.Context, request *peer.Passing) (*wire.Envelope, error) {
			return d.incoming.HandleExchange(ctx, request)
		},
		Message: func(ctx context.Context, message *peer.Passing) (wire.ReceiptState, error) {
			return d.incoming.HandleMessage(ctx, message)
		},
		Observer: observer{d}, Event: d.handlePeerEvent,
		Features: []string{peer.FeatureQuestions, peer.FeatureAgents},
		STUN:     cfg.Reach.STUN, NoUpgrade: cfg.Reach.Direct == config.Off, HasRelays: func() bool { return d.relays.HasRelays() },
		AwaitsWork: d.delegations.HasOpenWith,
		Budget:     d.budget, PeerLog: d.refusalLog, Logger: d.log,
	}
}

// listAbsentAddrs returns warnings about the addresses on which this daemon listens though the machine does not
// have them now.
func (d *Daemon) listAbsentAddrs() (all []string) {
	warn := func(setting, addr, remedy string) {
		if at, err := netip.ParseAddrPort(addr); err == nil && !peer.HasAddr(at.Addr()) {
			all = append(all, fmt.Sprintf("%s: %s is not an address of this machine now, and nobody reaches the daemon there until it is: start what brings it, or %s", setting, at.Addr(), remedy))
		}
	}
	warn("listen", d.udpAddr, "choose another one with listen in config.yaml or --listen")
	if m := d.config.Start().Metrics; !m.IsSocket() {
		warn("metrics.listen", m.Addr(), "choose another one in config.yaml")
	}
	return all
}

// explainListenError returns the error for an address on which nothing can listen, with what to do instead of what the
// system says.
func explainListenError(host, port string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ownwords.Errorf("listen: %s is no address of this host: choose one of those, or none for all, with listen in config.yaml or --listen", host)
	case errors.Is(err, syscall.EACCES):
		return ownwords.Errorf("listen: this user may not use UDP port %s: choose one from 1024 up with listen in config.yaml or --listen", port)
	case errors.Is(err, syscall.EADDRINUSE):
		return ownwords.Errorf("listen: UDP port %s is taken by another program: stop that, or choose another port with listen in config.yaml or --listen", port)
	}
	return err
}

// readUDPPort returns the UDP port that was stored because 7117 was taken, or "".
func readUDPPort(tx *store.Tx) (port string, err error) {
	err = tx.QueryRow("SELECT value FROM daemon_setting WHERE name = 'port'").Scan(&port)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return port, err
}

func writeUDPPort(tx *store.Tx, port string) error {
	_, err := tx.Exec("INSERT INTO daemon_setting (name, value) VALUES ('port', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", port)
	return err
}
