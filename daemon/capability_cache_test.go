package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
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

func TestBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &budget.Book{}
		g := newPermissions(identity.NewTrust(), &config.Config{Limits: config.Limits{Rate: []config.Rate{{Peer: "*", Kind: "*", PerSecond: 1, Burst: 1}}}}, book, book.OpenLog(slog.New(slog.DiscardHandler)))
		allow := func(n int) error {
			return g.takeToken(identity.Peer{ID: identity.ID{byte(n), byte(n >> 8), byte(n >> 16)}}, kinds.KindQuery)
		}
		for n := range maxBuckets + 1 {
			if err := allow(n); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.buckets) > maxBuckets {
			t.Errorf("%d buckets", len(g.buckets))
		}
		if err := allow(maxBuckets); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := allow(maxBuckets); err != nil {
			t.Error(err)
		}
	})
}
