//go:build netns

package netns

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// Whichever of two daemons on a relay is killed, the next call of the other one fails within two round
// trips to the relay and 50 ms, and nothing of it was delivered. A call so soon after the last word of the
// killed one that nothing proves the connection first takes little longer, and does not know. The laptop
// knows an address of the desk, from the invitation, at which nobody says a word. The test runs alone, for
// it measures single times; of several the best one counts, since the machine may do much else.
func TestKilledOnTheRelay(t *testing.T) {
	const (
		rounds      = 3
		relayedTime = 3 * time.Second // from then on, the caller takes the other one for connected on the relay alone
		told        = "nobody takes its packets at relay:"
	)
	n := newInternet(t, symmetric, symmetric)
	s := n.hub.nats(hubAddr)
	desk, laptop := n.desk.relayed("desk", s, ""), n.laptop.relayed("laptop", s, "")
	laptop.takeInvitation(desk.inviteOverRelay(s, s.tls), desk)
	for _, side := range [][2]*daemon{{desk, laptop}, {laptop, desk}} {
		caller, killed := side[0], side[1]
		rtt := readRelayRTT(caller)
		<-time.After(relayedTime)
		var idle, without, atOnce []time.Duration
		for range rounds {
			killed.KillDaemon()
			<-time.After(silence)
			idle = append(idle, timeFailure(caller, killed, told, kinds.DeliveredNo))
			<-time.After(silence) // what was found out is forgotten
			without = append(without, timeFailure(caller, killed, told, kinds.DeliveredNo))
			restart(killed, caller)

			if _, err := caller.Client.Ping(await.NewContext(t), client.PingParams{To: killed.ID.String()}); err != nil {
				t.Fatal(err)
			}
			killed.KillDaemon()
			atOnce = append(atOnce, timeFailure(caller, killed, "", kinds.DeliveredNo, kinds.DeliveredUnknown))
			restart(killed, caller)
		}
		t.Logf("%s killed, %s to the relay and back; on a silent connection %s, without one %s, right after the last word %s", killed.Name, rtt, idle, without, atOnce)
		soon := 2*rtt + 50*time.Millisecond
		await.CheckDuration(t, "best failure on a silent connection", slices.Min(idle), soon)
		await.CheckDuration(t, "best failure without a connection", slices.Min(without), soon)
		// The call's own packets bring the notice, and its proof takes 50 ms at least.
		await.CheckDuration(t, "best failure right after the last word", slices.Min(atOnce), 7*rtt+100*time.Millisecond)
	}
}

// readRelayRTT returns how long the one relay of a daemon takes to answer.
func readRelayRTT(d *daemon) time.Duration {
	d.T.Helper()
	relays, err := d.Client.Relays(await.NewContext(d.T))
	if err != nil || len(relays) != 1 || relays[0].State != client.RelayUp {
		d.T.Fatalf("%+v, %v", relays, err)
	}
	return time.Duration(relays[0].RTTUS) * time.Microsecond
}

// timeFailure calls a daemon that was killed, and returns after which time that failed. The error must
// hold a text, and say of the message what is one of delivered.
func timeFailure(caller, killed *daemon, text string, delivered ...kinds.Delivered) time.Duration {
	t := caller.T
	t.Helper()
	began := time.Now()
	_, err := caller.Client.Query(await.NewContext(t), client.QueryParams{To: killed.ID.String(), Payload: kinds.EncodePayload(&kinds.Query{Question: "Ready?"})})
	took := time.Since(began)
	if e := kinds.AsError(err); err == nil || e.Code != kinds.Unreachable || !strings.Contains(e.Message, text) || !slices.Contains(delivered, e.Delivered()) {
		t.Errorf("a call to %s, which was killed: %v, want %s, %q and delivered %q", killed.Name, err, kinds.Unreachable, text, delivered)
	}
	return took
}

// restart starts a daemon again that was killed, and waits until it is connected to another one.
func restart(killed, to *daemon) {
	killed.T.Helper()
	began := time.Now()
	killed.StartDaemon()
	killed.connects(to, began, await.Patience)
	to.connects(killed, began, await.Patience)
}
