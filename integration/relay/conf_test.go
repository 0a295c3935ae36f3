package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/relay"
)

// Servers of two accounts, and those of one person, keep daemons apart and bring them together as they are to.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestConfigurations(t *testing.T) {
	for _, name := range []string{"person.conf", "company.conf"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			certificates, roots := newCertificates(t)
			conf := regexp.MustCompile(`tls \{.*?\}`).ReplaceAllString(string(b), certificates)
			conf = strings.NewReplacer("0.0.0.0:4222", "127.0.0.1:-1", "0.0.0.0:443", "127.0.0.1:-1").Replace(conf)
			var daemons []daemon
			for i := 1; strings.Contains(conf, fmt.Sprint("NKEY", i)); i++ {
				d := newDaemon(t, "")
				d.Roots = roots
				conf = strings.NewReplacer(fmt.Sprint("NKEY", i), d.nkey(t), fmt.Sprint("ID", i), d.Self.String()).Replace(conf)
				daemons = append(daemons, d)
			}
			s := startServer(t, conf)
			var links []*running
			for i, d := range daemons {
				d.URL = fmt.Sprintf("tls://127.0.0.1:%d", portOf(s))
				if i%2 == 1 {
					d.URL = "wss://" + webSocketAddr(t, s)
				}
				l := start(t, d.Config)
				l.awaitConnected(t)
				links = append(links, l)
				for _, c := range l.Test(t.Context()) {
					if c.Verdict != relay.Passed {
						t.Errorf("daemon %d: %+v", i+1, c)
					}
				}
			}
			exchange(t, links[0], links[1])
			if len(links) == 3 { // of another account
				links[2].awaitNobody(t, daemons[0].Self)
				links[0].awaitNobody(t, daemons[2].Self)
			}
		})
	}
}
