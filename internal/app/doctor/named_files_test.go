package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/authority"
)

// namedFileReproductions are of files that config.yaml names.
var namedFileReproductions = []reproduction{
	{codes("config.broken", "config.file"), func(t *testing.T) []Finding {
		s := endedSite(t)
		s.write("config.yaml", "organisation: {certificate: acpd-cert.pub, authorities: {corp: {key: "+authority.New(t, "corp").Line()+", revoked: revoked.txt}}}\nreach: {relays: [{url: \"tls://nats.example.org\", credentials: nats.creds}]}\n")
		s.write("revoked.txt", "rubbish\n")
		all := examine(t, options(t, s.home))
		if n := len(slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Code != "config.file" })); n != 2 || !strings.Contains(findCode(all, "config.broken").What, "organisation.authorities.corp.revoked: revoked.txt: line 1") {
			t.Errorf("%d files are missed:\n%s", n, render(all))
		}
		return all
	}},
}
