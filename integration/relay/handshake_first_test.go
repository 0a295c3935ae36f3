package relay

import (
	"strings"
	"testing"
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
