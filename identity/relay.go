package identity

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// A relay is a server that passes packets on between daemons. It is named by its URL; what a daemon
// logs in with is no part of that.

const (
	maxRelayURL    = 256 // bytes
	maxSharedToken = 128 // bytes

	// sharedTokenChars need no escape in a URL (unreserved, RFC 3986, section 2.3).
	sharedTokenChars = lowerLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
)

// relayPorts has the schemes of a relay's URL, with the port that each means. Those that are not
// encrypted are for a server on this machine.
var relayPorts = map[string]string{"tls": "4222", "wss": "443", "nats": "4222", "ws": "80"}

// ParseRelayURL returns a relay's URL in the form in which two of them are compared: in lower case, with
// its port. The schemes are tls and wss; nats and ws are only for a loopback host. Only wss and ws
// may have a path. The URL holds no secret: one with user information is refused, and errors quote
// nothing of it.
func ParseRelayURL(text string) (string, error) {
	if len(text) > maxRelayURL {
		return "", ownwords.Errorf("over %d bytes: use a shorter URL", maxRelayURL)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", ownwords.New("not the URL of a relay: write tls://host:4222 or wss://host:443")
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	usual, known := relayPorts[u.Scheme]
	switch {
	case !known:
		return "", ownwords.New("the scheme is not one of a relay: write tls://host:4222 or wss://host:443")
	case u.User != nil:
		return "", ownwords.New("a URL with a user or token in it: leave out what stands before @; a token goes into --token-file, a user into --user and --password-file (config.yaml: token, or user and password)")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		return "", ownwords.New("a URL with ? or #: leave out what follows")
	case strings.Trim(u.Path, "/") != "" && u.Scheme != "wss" && u.Scheme != "ws":
		return "", ownwords.Errorf("a path, which only wss has: write %s://host:%s", u.Scheme, usual)
	case (u.Scheme == "nats" || u.Scheme == "ws") && !isLoopbackHost(host):
		return "", ownwords.New("without encryption only a server on this machine is used: write tls:// instead of nats://, and wss:// instead of ws://")
	}
	if port == "" {
		port = usual
	}
	addr := net.JoinHostPort(host, port)
	if CheckAddr(addr) != nil { // whose error quotes it
		return "", ownwords.New("not a host and port: write tls://host:4222 or wss://host:443")
	}
	return u.Scheme + "://" + addr + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// IsLoopbackRelay reports whether the URL of a relay leads to the machine on which it is used.
func IsLoopbackRelay(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isLoopbackHost(strings.ToLower(u.Hostname()))
}

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// CheckRelayName returns an error unless a relay can have the name: a lower-case letter, then up to 31
// lower-case letters, digits and hyphens.
func CheckRelayName(name string) error {
	if name == "" || len(name) > MaxName || strings.IndexByte(lowerLetters, name[0]) < 0 || !consistsOnlyOf(name, lowerLetters+"0123456789-") {
		return ownwords.Errorf("name %q: use lower-case letters, digits and hyphens, a letter first, at most %d", CleanClaim(name), MaxName)
	}
	return nil
}

// MakeRelayName returns the name that a relay has unless it is given one: that of its host, with hyphens.
// url is one that [ParseRelayURL] takes.
func MakeRelayName(relay string) string {
	u, err := url.Parse(relay)
	if err != nil {
		return "relay"
	}
	name := strings.Join(strings.FieldsFunc(strings.ToLower(u.Hostname()), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}), "-")
	if name == "" || strings.IndexByte(lowerLetters, name[0]) < 0 {
		name = "relay-" + name
	}
	return strings.TrimRight(name[:min(len(name), MaxName)], "-")
}

// MaxInvitedRelays is how many relays an invitation names at most.
const MaxInvitedRelays = 2

// InvitedRelay is a relay over which the daemon that invites can be reached.
type InvitedRelay struct {
	URL   string // as ParseRelayURL returns it
	Token string // with which anybody may log in there; may be ""
}

// CheckSharedToken returns an error unless an invitation can contain a token. It quotes nothing.
func CheckSharedToken(token string) error {
	if token == "" || len(token) > maxSharedToken || !consistsOnlyOf(token, sharedTokenChars) {
		return ownwords.Errorf("an invitation takes a token of 1 to %d letters, digits and -._~: make one with openssl rand -hex 24", maxSharedToken)
	}
	return nil
}

// parseInvitedRelay parses the value of an invitation's parameter: a URL, with a token as its user if
// one is given. Errors quote nothing.
func parseInvitedRelay(value string) (InvitedRelay, error) {
	var r InvitedRelay
	scheme, rest, _ := strings.Cut(value, "://")
	if token, host, ok := strings.Cut(rest, "@"); ok {
		if CheckSharedToken(token) != nil {
			return r, ownwords.New("what stands before @ is no token")
		}
		r.Token, rest = token, host
	}
	var err error
	r.URL, err = ParseRelayURL(scheme + "://" + rest)
	return r, err
}

// String returns the value that parseInvitedRelay parses, token included.
func (r InvitedRelay) String() string {
	if r.Token == "" {
		return r.URL
	}
	scheme, rest, _ := strings.Cut(r.URL, "://")
	return scheme + "://" + r.Token + "@" + rest
}

func (inv *Invitation) addRelay(value string) error {
	r, err := parseInvitedRelay(value)
	switch {
	case err != nil:
		return err
	case len(inv.Relays) == MaxInvitedRelays:
		return ownwords.New("more than " + strconv.Itoa(MaxInvitedRelays))
	case slices.ContainsFunc(inv.Relays, func(other InvitedRelay) bool { return other.URL == r.URL }):
		return ownwords.New("one stands there twice")
	}
	inv.Relays = append(inv.Relays, r)
	return nil
}
