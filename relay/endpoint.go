package relay

import (
	"net"
	"net/url"

	"github.com/acpd/acpd/identity"
)

// endpoint is the server of a relay.
type endpoint struct {
	scheme string // tls, wss, nats, ws
	host   string // name or IP address
	port   string
	path   string // of a WebSocket, with its slash
}

// newEndpoint returns the server that a relay's URL names. Its error describes what to write instead, and
// quotes nothing of the URL, which may hold a secret.
func newEndpoint(text string) (endpoint, error) {
	whole, err := identity.ParseRelayURL(text)
	if err != nil {
		return endpoint{}, err
	}
	u, err := url.Parse(whole)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{scheme: u.Scheme, host: u.Hostname(), port: u.Port(), path: u.EscapedPath()}, nil
}

func (e endpoint) hostPort() string  { return net.JoinHostPort(e.host, e.port) }
func (e endpoint) String() string    { return e.scheme + "://" + e.hostPort() + e.path }
func (e endpoint) isEncrypted() bool { return e.scheme == "tls" || e.scheme == "wss" }
func (e endpoint) isWebSocket() bool { return e.scheme == "ws" || e.scheme == "wss" }

// nameOtherScheme tells to write the scheme with a WebSocket instead of that without, or the other way.
func (e endpoint) nameOtherScheme() string {
	other := map[string]string{"tls": "wss", "wss": "tls", "nats": "ws", "ws": "nats"}[e.scheme]
	return "write " + other + ":// instead of " + e.scheme + "://"
}

// plainURL returns the URL for nats.go, which never begins TLS itself: the dialer has done so.
func (e endpoint) plainURL() string {
	if e.isWebSocket() {
		return "ws://" + e.hostPort() + e.path
	}
	return "nats://" + e.hostPort()
}
