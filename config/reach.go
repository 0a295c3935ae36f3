package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/yamldoc"
)

// MaxRelays bounds the relays of config.yaml, and those that the daemon keeps.
const MaxRelays = 8

// Reach holds how this daemon and its peers reach each other where their networks do not let them.
type Reach struct {
	Relays []Relay  `yaml:"relays" doc:"Servers (NATS) that pass packets on between this daemon and its peers, at most 8, in addition to those of acpctl relay add. They can see who talks to whom and how much, but not what they say."`
	Proxy  Proxy    `yaml:"proxy" example:"environment" doc:"The way to relays. environment: HTTPS_PROXY and NO_PROXY of acpd's environment, for every scheme. off: no proxy. Or a proxy's URL, like http://proxy.example.net:3128; or {command: [PROGRAM, ARGUMENT]}, which prints one each time, for credentials that change. Default: environment."`
	STUN   []string `yaml:"stun" example:"[\"stun.example.org:3478\"]" doc:"STUN servers, as host:port, at most 4, which say at which address the internet sees this machine. Peers on a relay dial it there, so that a direct path is found where NATs allow it. The servers learn that address. Default: none."`
	Direct Switch   `yaml:"direct" example:"on" doc:"on: connections change from a relay to a direct path where there is one; for that, trusted peers on a relay get the addresses of this machine. off: they stay on the relay, and peers get no address. While there is a relay, a peer is not dialled then where it was before, and join takes no address of an invitation that names a relay which is used. Addresses that config.yaml or acpctl trust gives are dialled, and what discovery.mdns finds. Default: on."`
}

// maxSTUN bounds the STUN servers of config.yaml.
const maxSTUN = 4

// Relay is a server that passes packets on.
type Relay struct {
	Name        string `yaml:"name" example:"hub" doc:"What it is called here: lower-case letters, digits and hyphens, a letter first, at most 32. Default: its host, with hyphens."`
	URL         string `yaml:"url" example:"tls://nats.example.org:4222" doc:"Where it is: tls://, or wss:// (WebSocket), which also passes proxies; nats:// and ws:// only on this machine. Required."`
	Credentials string `yaml:"credentials" example:"nats.creds" doc:"A file of NATS credentials, which only this user may read: in the state directory, or at a path that begins with / or ~/. Default, without token and user too: an nkey of this daemon's own, which acpctl relay nkey prints for the server's configuration."`
	Token       Secret `yaml:"token" instead:"credentials" example:"\"6b5f0d1e2a47c389\"" doc:"A token, instead of credentials. (In this line and the next three, another # says that they are for use instead of the line above.)"`
	User        string `yaml:"user" instead:"credentials" example:"acp" doc:"A user, with password, instead of credentials."`
	Password    Secret `yaml:"password" instead:"credentials" example:"\"9c81e5b27f3d4a60\"" doc:"The password of user."`
	Share       bool   `yaml:"share" instead:"credentials" example:"true" doc:"true: acpctl invite --with-credential may put the token into an invitation. It cannot be taken back from whoever has had it. Default: false."`
}

// Secret is a text that is shown nowhere.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(not shown)"
}

// Proxy says through what relays are reached.
type Proxy struct {
	Text    string   `yaml:"-"`       // environment, off or a URL
	Command []string `yaml:"command"` // prints a URL; its first word is a path or a name
}

// The words that Proxy.Text can be.
const (
	ProxyEnvironment = "environment"
	ProxyOff         = "off"
)

// SetText sets what is written as text.
func (p *Proxy) SetText(text string) { p.Text = text }

// describe returns p as it may be shown.
func (p Proxy) describe() string {
	if len(p.Command) > 0 {
		return "{command: [" + renderWord(p.Command[0]) + ", …]}" // its arguments may be secrets
	}
	if u, err := url.Parse(p.Text); err == nil && u.User != nil {
		return u.Scheme + "://…@" + u.Host
	}
	return p.Text
}

const maxSecret = 1 << 10 // bytes, of each text with which a relay is logged in to

// checkProxyURL returns an error unless text is the URL of a proxy. It quotes nothing, since a URL may
// hold a password.
func checkProxyURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return ownwords.Errorf("write environment, off, or the URL of a proxy, like http://proxy.example.net:3128")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return ownwords.Errorf("the URL of a proxy ends behind its port, like http://proxy.example.net:3128")
	}
	return nil
}

func (p *parser) checkReach(r *Reach) {
	if p.IsSet("reach.proxy") {
		switch text := r.Proxy.Text; {
		case p.IsSet("reach.proxy.command"):
			if len(r.Proxy.Command) == 0 || r.Proxy.Command[0] == "" {
				p.AddValueError("reach.proxy.command", ownwords.Errorf("write a program and its arguments"))
			}
		case text == ProxyEnvironment, text == ProxyOff:
		default:
			p.AddValueError("reach.proxy", checkProxyURL(text))
		}
	}
	p.checkRelays("reach.relays", r.Relays)
	if len(r.STUN) > maxSTUN {
		p.AddValueError("reach.stun", ownwords.Errorf("%d servers: give at most %d", len(r.STUN), maxSTUN))
	}
	for i, server := range r.STUN {
		p.AddValueError(fmt.Sprintf("reach.stun[%d]", i), identity.CheckAddr(server))
	}
	p.checkOneOf("reach.direct", string(r.Direct), string(On), string(Off))
}

// checkRelays reports relays that cannot be used, and fills in names and the form of URLs.
func (p *parser) checkRelays(at string, relays []Relay) {
	if len(relays) > MaxRelays {
		p.AddValueError(at, ownwords.Errorf("%d relays: give at most %d", len(relays), MaxRelays))
	}
	for i := range relays {
		r, key := &relays[i], fmt.Sprintf("%s[%d]", at, i)
		p.checkRelay(key, r)
		for _, other := range relays[:i] {
			switch {
			case r.Name != "" && r.Name == other.Name:
				p.AddValueError(key, ownwords.Errorf("a second relay with the name %s: give each a name of its own", r.Name))
			case r.URL != "" && r.URL == other.URL:
				p.AddValueError(key+".url", ownwords.Errorf("a second relay with this URL: remove one"))
			}
		}
	}
}

func (p *parser) checkRelay(at string, r *Relay) {
	if !p.IsSet(at + ".url") {
		p.AddValueError(at, ownwords.Errorf("no URL: add url, like tls://nats.example.org:4222"))
		return
	}
	if whole, err := identity.ParseRelayURL(r.URL); err != nil {
		p.AddValueError(at+".url", err)
	} else {
		r.URL = whole
	}
	if !p.IsSet(at + ".name") {
		r.Name = identity.MakeRelayName(r.URL)
	}
	p.AddValueError(at+".name", identity.CheckRelayName(r.Name))
	for key, text := range map[string]string{"credentials": r.Credentials, "token": string(r.Token), "user": r.User, "password": string(r.Password)} {
		if text == "" || len(text) > maxSecret || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			p.AddValueError(at+"."+key, ownwords.Errorf("write 1 to %d bytes, without control characters", maxSecret))
		} else if key == "credentials" {
			p.AddValueError(at+"."+key, checkStatePath(text))
		}
	}
	ways := 0
	for _, key := range []string{"credentials", "token", "user"} {
		if p.IsSet(yamldoc.JoinKey(at, key)) {
			ways++
		}
	}
	switch {
	case ways > 1:
		p.AddValueError(at, ownwords.Errorf("several ways to log in: leave one of credentials, token, and user with password"))
	case p.IsSet(at+".user") != p.IsSet(at+".password"):
		p.AddValueError(at, ownwords.Errorf("a user has a password: write both, or neither"))
	case r.Share && r.Token == "":
		p.AddValueError(at+".share", ownwords.Errorf("only a token can be shared: add token, or remove share"))
	case r.Share:
		p.AddValueError(at+".share", identity.CheckSharedToken(string(r.Token)))
	}
}
