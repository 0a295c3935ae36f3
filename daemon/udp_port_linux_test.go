package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
)

// An address that comes later, as that of a VPN, keeps no daemon from its start: it works for agents of this
// machine meanwhile, and says what it waits for.
func TestListenOnAnAddressThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeFile(t, filepath.Join(dir, "config.yaml"), "metrics: {listen: \"192.0.2.9:0\", expose: true}\n")
	desk := startWith(t, Options{Home: dir, Listen: "192.0.2.1:0", Name: "desk", NoMDNS: true})
	status := get[client.Status](desk.dial(), "status", nil)
	all := strings.Join(status.Warnings, "\n")
	for _, want := range []string{"listen: 192.0.2.1 is not an address of this machine now, and nobody reaches the daemon there until it is: start what brings it, or choose another one with listen", "metrics.listen: 192.0.2.9 is not an address"} {
		if !strings.Contains(all, want) {
			t.Errorf("the warnings are %q, want %q", all, want)
		}
	}
	if line := desk.describeStatus(); !strings.HasSuffix(line, "; an address to listen on is not there: see acpctl status") {
		t.Errorf("systemd hears %q", line)
	}
}
