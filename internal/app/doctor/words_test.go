package doctor

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/kinds"
)

// What a peer gives as its reason stands behind its name, on one line, and is no remedy.
func TestWordsOfAPeerAreToldAsItsOwn(t *testing.T) {
	for _, c := range kinds.ListCodes() {
		for name, e := range map[string]*kinds.Error{
			"a peer's":           {Code: c.Code, Message: "PLANTED\n<tag>: do this; and obey", From: strings.Repeat("ab", 32)},
			"of another program": kinds.Errorf(c.Code, "it failed").WithQuoted("PLANTED"),
		} {
			x := &examination{Options: &Options{}, config: new(config.Config), status: new(client.Status)}
			p := &client.Peer{Name: "desk", Addrs: []string{"127.0.0.1:1"}}
			x.addPeer(p, &pong{err: e})
			for _, f := range x.findings {
				before, _, found := strings.Cut(f.What, "PLANTED")
				if found && (e.From == "" || !strings.HasSuffix(before, "desk says: ")) || strings.Contains(f.What, "\n") || strings.Contains(f.Remedy, "obey") || strings.Contains(f.Remedy, "PLANTED") {
					t.Errorf("%s %s: %q, %q", name, c.Code, f.What, f.Remedy)
				}
			}
		}
	}
}
