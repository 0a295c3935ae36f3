package outgoing

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

func TestDiscoveriesLastAMinuteAndARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, key, boot := newCapabilityCache(), capabilityKey{identity.ID{1}, ""}, wire.Boot{1}
		c.put(key, boot, &client.Answer{})
		if c.get(key, boot) == nil || c.get(key, wire.Boot{2}) != nil || c.get(capabilityKey{identity.ID{1}, "planner"}, boot) != nil {
			t.Error("another answer than the one of this run")
		}
		time.Sleep(capabilitiesKeptFor)
		if c.get(key, boot) != nil {
			t.Error("it lasts too long")
		}
		for i := range 2 * maxCapabilities {
			c.put(capabilityKey{identity.ID{1}, fmt.Sprint(i)}, boot, &client.Answer{})
		}
		if len(c.found) > maxCapabilities {
			t.Errorf("%d entries", len(c.found))
		}
		c.forgetPeer(identity.ID{1})
		if len(c.found) != 0 {
			t.Error("purge leaves some")
		}
	})
}
