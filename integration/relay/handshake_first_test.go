package relay

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/relay"
)

// A server that would wait for TLS before it says a word takes daemons in by handshake_first: auto, which the
// error of such a wait names.
func TestHandshakeFirst(t *testing.T) {
	conf, roots := newCertificates(t)
	conf = strings.Replace(conf, "tls {", "tls { handshake_first: auto,", 1)
	a := newDaemon(t, "")
	s := startServer(t, "listen: 127.0.0.1:-1\n"+conf+"\n"+ownSubjects(t, a))
	a.URL, a.Roots = strings.Replace(urlOf(s), "nats", "tls", 1), roots
	start(t, a.Config).awaitConnected(t)
}

// One that waits for TLS, and then ends the connection, is told with that setting.
func TestHandshakeFirstAlone(t *testing.T) {
	conf, roots := newCertificates(t)
	conf = strings.Replace(conf, "tls {", "tls { handshake_first: true,", 1)
	for _, scheme := range []string{"tls", "nats"} {
		a := newDaemon(t, "")
		o := parseConf(t, "listen: 127.0.0.1:-1\n"+conf+"\n"+ownSubjects(t, a))
		o.TLSTimeout = 0.1 // seconds that it waits
		a.URL, a.Roots = strings.Replace(urlOf(runServer(t, o)), "nats", scheme, 1), roots
		start(t, a.Config).await(t, "an error that names the setting", func(s relay.State) bool {
			return s.LastError != nil && strings.Contains(s.LastError.Error(), "it closed the connection without a word: ") && strings.Contains(s.LastError.Error(), "if its tls has handshake_first, set that to auto")
		})
	}
}

// A server that takes TLS alone is told to whom the URL says none.
func TestTLSAlone(t *testing.T) {
	conf, _ := newCertificates(t)
	a := newDaemon(t, "")
	a.URL = urlOf(startServer(t, "listen: 127.0.0.1:-1\n"+conf+"\n"+ownSubjects(t, a)))
	start(t, a.Config).await(t, "an error that names the scheme", func(s relay.State) bool {
		return s.LastError != nil && strings.HasSuffix(s.LastError.Error(), "write tls:// instead of nats://")
	})
}
