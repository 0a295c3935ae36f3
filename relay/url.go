package relay

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/acpd/acpd/kinds"
)

const maxServers = 8

// endpoint is one server of a relay, without a secret.
type endpoint struct {
	scheme string // tls, wss, nats, ws
	host   string // name or IP address
	port   string
	path   string // of a WebSocket, with its slash
}

func (e endpoint) hostPort() string  { return net.JoinHostPort(e.host, e.port) }
func (e endpoint) String() string    { return e.scheme + "://" + e.hostPort() + e.path }
func (e endpoint) isEncrypted() bool { return e.scheme == "tls" || e.scheme == "wss" }
func (e endpoint) isWebSocket() bool { return e.scheme == "ws" || e.scheme == "wss" }

// plainURL returns the URL for nats.go, which never begins TLS itself: the dialer has done so.
func (e endpoint) plainURL() string {
	if e.isWebSocket() {
		return "ws://" + e.hostPort() + e.path
	}
	return "nats://" + e.hostPort()
}

// joinEndpoints returns the servers as the URL of one relay, without credentials.
func joinEndpoints(endpoints []endpoint) string {
	var b strings.Builder
	for i, e := range endpoints {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(e.String())
	}
	return b.String()
}

// parseURLs reads the servers of one relay, and the credentials that stand in the first URL.
func parseURLs(text string) ([]endpoint, Credentials, error) {
	var (
		endpoints []endpoint
		inURL     Credentials
	)
	if len(text) > 2048 {
		return nil, Credentials{}, kinds.Errorf(kinds.Invalid, "%d bytes: expected 2048 at most", len(text))
	}
	for i, part := range strings.Split(text, ",") {
		if i == maxServers {
			return nil, Credentials{}, kinds.Errorf(kinds.Invalid, "more than %d servers: write a host name that stands for all of them", maxServers)
		}
		e, c, err := parseURL(strings.TrimSpace(part))
		if err != nil {
			return nil, Credentials{}, err
		}
		switch {
		case c != (Credentials{}) && inURL != (Credentials{}) && c != inURL:
			return nil, Credentials{}, kinds.Errorf(kinds.Invalid, "servers with different credentials: make each a relay of its own")
		case c != (Credentials{}):
			inURL = c
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, inURL, nil
}

func parseURL(text string) (endpoint, Credentials, error) {
	const form = "write tls://HOST[:4222] or wss://HOST[:443]"
	refuse := func(format string, args ...any) (endpoint, Credentials, error) {
		return endpoint{}, Credentials{}, kinds.Errorf(kinds.Invalid, format, args...)
	}
	u, err := url.Parse(text)
	if err != nil || !strings.Contains(text, "://") {
		return refuse("not a URL: %s", form) // not quoted: it may hold a secret
	}
	e := endpoint{scheme: u.Scheme, host: u.Hostname(), port: u.Port(), path: u.EscapedPath()}
	var c Credentials
	if password, ok := u.User.Password(); ok {
		c.User, c.Password = u.User.Username(), password
	} else {
		c.Token = u.User.Username()
	}
	switch e.scheme {
	case "tls", "nats":
		if e.port == "" {
			e.port = "4222"
		}
		if e.path != "" && e.path != "/" {
			return refuse("%s://%s: a path: only wss:// has one", e.scheme, e.host)
		}
		e.path = ""
	case "wss":
		if e.port == "" {
			e.port = "443"
		}
	case "ws":
		if e.port == "" {
			e.port = "80"
		}
	default:
		return refuse("scheme %.20q: %s", e.scheme, form)
	}
	switch port, err := strconv.ParseUint(e.port, 10, 16); {
	case e.host == "" || strings.ContainsAny(e.host, " \t\r\n"):
		return refuse("no host: %s", form)
	case err != nil || port == 0:
		return refuse("port %.20q: expected 1 to 65535", e.port)
	case u.RawQuery != "" || u.Fragment != "":
		return refuse("%s://%s: ? and # have no meaning here: leave them out", e.scheme, e.host)
	case !e.isEncrypted() && !isLoopback(e.host):
		return refuse("%s://%s: unencrypted, which is for loopback alone: write %s://%s", e.scheme, e.host,
			map[string]string{"nats": "tls", "ws": "wss"}[e.scheme], e.host)
	}
	return e, c, nil
}

// isLoopback reports whether a host is this machine by its text alone.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
