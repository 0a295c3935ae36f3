package daemon

import (
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
)

// Pins that came while the last ones were written, or after the saver had ended, are on disk when the daemon is.
func TestPinsOfTheLastMomentAreSaved(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	addTables(t, dir)
	d, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", Version: "test", NoMDNS: true, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	corp, build, hash := authority.New(t, "corp"), identity.ID{1}, identity.HashPQ([]byte("a post-quantum key"))
	d.trust.SetAuthorities([]identity.Authority{corp.Authority})
	if _, err := d.trust.Certify(corp.Sign(build, time.Hour, "acp:build-7"), build, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	if err := d.trust.PinPQ(build, hash); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	pins, err := readPins(start(t, dir, "desk"))
	if err != nil || len(pins) != 1 || pins[0].ID != build || pins[0].PQ != hash {
		t.Errorf("%+v, %v", pins, err)
	}
}
