package known

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The last chains of each peer are known for half an hour, to the agents that had the message; nothing else is kept
// of them.
func TestRecentChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRecentChains()
		one, other := registry.Credential{KeyHash: registry.KeyHash{1}}, registry.Credential{KeyHash: registry.KeyHash{2}}
		var all []*wire.Envelope
		for i := range maxChainsKept + 9 {
			all = append(all, wire.NewEnvelope(identity.ID{9}, identity.ID{8}, kinds.KindQuery, nil))
			c.add(all[i], one.KeyHash, i%2 == 0)
		}
		quiet := wire.NewEnvelope(identity.ID{7}, identity.ID{8}, kinds.KindQuery, nil)
		quiet.Hops = 3
		c.add(quiet, one.KeyHash, true)
		c.add(quiet, other.KeyHash, false)
		for i, env := range all {
			if _, found, known := c.find(&one, env.ID); known != (i >= 9) || known && found.unanswered != (i%2 == 0) {
				t.Errorf("message %d: %+v, known: %t", i, found, known)
			}
			if _, _, known := c.find(&other, env.ID); known {
				t.Errorf("message %d is known to an agent that did not have it", i)
			}
		}
		for _, by := range []*registry.Credential{&one, &other, nil} {
			if from, found, known := c.find(by, quiet.ID); !known || from != quiet.From || found.chain.Hops != 3 || found.unanswered {
				t.Errorf("%+v, known: %t", found, known)
			}
		}
		time.Sleep(chainKeptFor)
		if _, _, known := c.find(nil, quiet.ID); known {
			t.Error("it is known for too long")
		}
		last := wire.NewEnvelope(identity.ID{9}, identity.ID{8}, kinds.KindQuery, nil)
		c.add(last, one.KeyHash, false)
		if len(c.byPeer[last.From]) != 1 || len(c.sender) != 2 {
			t.Errorf("%d are kept, and %d in all", len(c.byPeer[last.From]), len(c.sender))
		}
		c.forgetPeer(last.From)
		c.forgetPeer(quiet.From)
		if len(c.byPeer) != 0 || len(c.sender) != 0 {
			t.Errorf("%v, %v", c.byPeer, c.sender)
		}
	})
}
