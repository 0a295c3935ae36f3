package relays

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/relay"
)

// relayLink is a relay as a link of package peer. Only Run uses told and toldClone.
type relayLink struct {
	*relay.Link
	isInvited func() bool       // reports whether it is of an invitation by which this daemon is joining
	told      client.RelayState // in the last event
	toldClone time.Time
}

var _ peer.Link = (*relayLink)(nil)

// Path implements [peer.Link].
func (*relayLink) Path() peer.Path { return peer.ViaRelay }

// Run implements [peer.Link].
func (l *relayLink) Run(ctx context.Context, n peer.LinkObserver) error { return l.Link.Run(ctx, n) }

// Trouble says what is wrong with the relay, if anything, and the remedy, for errors of package peer.
func (l *relayLink) Trouble() (what, remedy string) {
	s := l.State()
	switch toState(&s) {
	case client.RelayRefused:
		what = "refuses this daemon"
	case client.RelayDown:
		what = "is down"
	case client.RelayConnecting:
		what = "is not connected yet"
	default:
		return "", ""
	}
	if l.isInvited() {
		return what, "" // Join says why, and no other command knows it
	}
	return what, "acpctl relay test " + s.Name + " says why"
}

// PublicAddr returns the address at which the relay's server sees this machine, for direct paths. It returns none
// if the server sees a proxy.
func (l *relayLink) PublicAddr() netip.Addr {
	state := l.State()
	if state.Proxy != "" {
		return netip.Addr{}
	}
	return state.ClientIP
}

// openLink returns the link for a relay. The caller runs it. The link logs to log, which may be nil. The error names
// the setting that cannot be used.
func (r *Service) openLink(s relaySettings, log *slog.Logger) (*relayLink, error) {
	c := relay.Config{
		Name: s.Name, URL: s.URL, Self: r.Key.ID(), Key: r.Key.DeriveSecret(relay.KeyLabel),
		Credentials: relay.Credentials{Token: string(s.Token), User: s.User, Password: string(s.Password)},
		Proxy:       newProxy(s.proxy), AdviseLogin: func(get string) string { return r.adviseLogin(s.Name, s.URL, get) },
		Admit: r.admit, Answer: r.answerNameRequest, Changed: r.changed.Set, Challenges: &r.challenges, Logger: log,
	}
	var err error
	if c.Credentials.File, err = s.CheckCredentials(r.Dir); err != nil {
		return nil, ownwords.Errorf("relay %s: %w", s.Name, err)
	}
	l, err := relay.Open(c)
	if err != nil {
		return nil, err
	}
	return &relayLink{Link: l, isInvited: func() bool { return r.isInvited(s.Relay) }}, nil
}

// adviseLogin returns what the owner does to use another login for a relay. get says how to get one; whoever was invited
// asks for a new invitation instead.
func (r *Service) adviseLogin(name, url, get string) string {
	for _, w := range r.listWanted() {
		switch {
		case w.Name != name || w.URL != url:
		case w.invited:
			return "ask for a new invitation, made by acpctl invite --with-credential, or acpctl relay add with what it takes"
		case w.source == client.RelayOfConfig:
			return get + "write that into config.yaml, then acpctl reload"
		default:
			return get + "acpctl relay remove " + name + ", then acpctl relay add with it"
		}
	}
	return get + "acpctl relay add with it"
}

func newProxy(p config.Proxy) relay.Proxy {
	switch {
	case len(p.Command) > 0:
		return relay.Proxy{Command: p.Command}
	case p.Text == config.ProxyEnvironment:
		return relay.Proxy{Environment: true}
	case p.Text == config.ProxyOff:
		return relay.Proxy{}
	}
	return relay.Proxy{URL: p.Text}
}

// admit decides whether packets that a relay brings reach QUIC. Those of peers do, and those of the daemon that this
// one is joining. Those of anybody else do while an invitation is open, or while a certificate can make a key a
// peer.
func (r *Service) admit(id identity.ID) relay.Admission {
	if _, ok := r.Trust.FindPeer(id); ok {
		return relay.Trusted
	}
	if r.Trust.IsBlocked(id) {
		return relay.Refused
	}
	if _, joining := r.joining.Load(id); joining || r.Trust.HasAuthorities() || r.Node.Invitations().HasOpen() {
		return relay.Invited
	}
	return relay.Refused
}
