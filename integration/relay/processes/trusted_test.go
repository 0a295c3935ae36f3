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
func TestHostileTrustedPeer(t *testing.T) {
	a := newAssault(t)
	hostile := a.newTrusted("reviewer")
	if _, err := hostile.ping(t.Context(), a.desk.ID); err != nil {
		t.Fatal(err)
	}
	own := "acp1." + a.desk.ID.String()
	initials := newInitials(t, hostile.key, a.desk.ID, 400)
	var replays []heardMessage
	await.Until(t, "the member has seen a packet of the hostile peer", func() bool {
		replays = slices.DeleteFunc(a.member.findHeard(own), func(h heardMessage) bool {
			return identity.ID([]byte(h.payload[:32])) != hostile.ID()
		})
		return len(replays) > 0
	})
	garbage := make([]byte, 1200)
	var calls atomic.Int64
	quiet, loud := a.endure(func(ctx context.Context) int {
		// Calls as fast as their answers come, eight at a time, beside the packets: the daemon may refuse any.
		var calling sync.WaitGroup
		for range 8 {
			calling.Go(func() {
				for ctx.Err() == nil {
					hostile.Exchange(ctx, a.newQuery(hostile))
					calls.Add(1)
					time.Sleep(5 * time.Millisecond) // so that this process leaves the daemon some of the machine
				}
			})
		}
		sent := a.member.flood(ctx, 2000, func(i int) {
			switch i % 4 {
			case 0:
				garbage[0] = byte(i >> 2)
				a.member.publish(own, "", "", claim(hostile.ID(), garbage))
			case 1, 2:
				a.member.publish(own, "", "", claim(hostile.ID(), initials[i%len(initials)]))
			case 3:
				h := replays[i%len(replays)]
				a.member.publish(own, h.reply, "", []byte(h.payload))
			}
		})
		calling.Wait()
		return sent
	})
	if calls.Load() == 0 {
		t.Error("the hostile peer has made no call")
	}
	t.Logf("%d calls of the hostile peer", calls.Load())
	if *bounds && loud > 2*quiet {
		t.Errorf("p99 is %v under attack, %v in quiet", loud, quiet)
	}
}

// newQuery returns a query to the daemon with a long question, which no agent there takes.
func (a *assault) newQuery(from *node) kinds.Checked {
	return newRequest(from, a.desk.ID, kinds.KindQuery, kinds.EncodePayload(&kinds.Query{Question: strings.Repeat("why? ", 800)}))
}
