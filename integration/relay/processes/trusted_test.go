package processes

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestHostileTrustedPeer: a peer that is trusted, and floods the relay in its own name with packets,
// handshakes and calls, costs another trusted peer neither a call nor its connection.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestHostileTrustedPeer(t *testing.T) {
	a := newAssault(t)
	hostile := a.newTrusted("reviewer")
	attack, calls := a.newTrustedAttack(hostile)
	a.endure(attack)
	if calls.Load() == 0 {
		t.Error("the hostile peer has made no call")
	}
	t.Logf("%d calls of the hostile peer", calls.Load())
}

// newTrustedAttack returns what the hostile peer does to the daemon, and how many calls it has made.
func (a *assault) newTrustedAttack(hostile *node) (func(context.Context) int, *atomic.Int64) {
	t, to := a.t, a.desk.ID
	t.Helper()
	if _, err := hostile.ping(await.NewContext(t), to); err != nil {
		t.Fatal(err)
	}
	subject := "acp1." + to.String()
	initials := newInitials(t, hostile.key, to, 400)
	var replays []heardMessage
	await.Until(t, "the member has seen a packet of the hostile peer", func() bool {
		replays = slices.DeleteFunc(a.member.findHeard(subject), func(h heardMessage) bool {
			return len(h.payload) < 32 || identity.ID([]byte(h.payload[:32])) != hostile.ID()
		})
		return len(replays) > 0
	})
	garbage := make([]byte, 1200)
	calls := new(atomic.Int64)
	return func(ctx context.Context) int {
		// Calls as fast as their answers come, eight at a time, beside the packets: the daemon may refuse any.
		var calling sync.WaitGroup
		for range 8 {
			calling.Go(func() {
				for ctx.Err() == nil {
					hostile.Exchange(ctx, newLongQuery(hostile, to))
					calls.Add(1)
					time.Sleep(5 * time.Millisecond) // so that this process leaves the daemon some of the machine
				}
			})
		}
		sent := a.member.flood(ctx, 2000, func(i int) {
			switch i % 4 {
			case 0:
				garbage[0] = byte(i >> 2)
				a.member.publish(subject, "", "", claim(hostile.ID(), garbage))
			case 1, 2:
				a.member.publish(subject, "", "", claim(hostile.ID(), initials[i%len(initials)]))
			case 3:
				h := replays[i%len(replays)]
				a.member.publish(subject, h.reply, "", []byte(h.payload))
			}
		})
		calling.Wait()
		return sent
	}, calls
}

// newLongQuery returns a query to a daemon with a long question, which no agent there takes.
func newLongQuery(from *node, to identity.ID) kinds.Checked {
	return newRequest(from, to, kinds.KindQuery, kinds.EncodePayload(&kinds.Query{Question: strings.Repeat("why? ", 800)}))
}
