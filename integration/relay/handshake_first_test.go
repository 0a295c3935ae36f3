package relay

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/relay"
)

// TestServersThatWaitForTLS: a server with handshake_first: auto takes daemons in. One that waits for TLS alone, or
// takes nothing else, is reported with what to change.
func TestServersThatWaitForTLS(t *testing.T) {
	certificates, roots := newCertificates(t)
	for name, tt := range map[string]struct {
		setting, scheme, want string // "": it connects
	}{
		"auto":           {"handshake_first: auto,", "tls", ""},
		"first, by tls":  {"handshake_first: true,", "tls", "if its tls has handshake_first, set that to auto"},
		"first, by nats": {"handshake_first: true,", "nats", "if its tls has handshake_first, set that to auto"},
		"no TLS at all":  {"", "nats", "write tls:// instead of nats://"},
	} {
		a := newDaemon(t, "")
		o := parseConf(t, "listen: 127.0.0.1:-1\n"+strings.Replace(certificates, "tls {", "tls { "+tt.setting, 1)+"\n"+ownSubjects(t, a))
		if tt.want != "" {
			o.TLSTimeout = 0.1 // seconds that it waits
		}
		a.URL, a.Roots = strings.Replace(urlOf(runServer(t, o)), "nats", tt.scheme, 1), roots
		l := start(t, a.Config)
		if tt.want == "" {
			l.awaitConnected(t)
			continue
		}
		l.await(t, name+": "+tt.want, func(s relay.State) bool { return s.LastError != nil && strings.Contains(s.LastError.Error(), tt.want) })
	}
}
