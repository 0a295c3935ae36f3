package peer

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// crowdKeys is a flag: see make crowd.
var crowdKeys = flag.Int("crowd", 128, "certified keys of TestCertifiedCrowdLeavesTheTrustedTheirShare")

// waveTime is between waves of a crowd, so that a host may begin a handshake in each (protocol, section 6).
const waveTime = 200 * time.Millisecond

// crowdHosts are the machines of a crowd. All dial at a time, and no more than QUIC's queue of
// connections to be accepted has room for.
const crowdHosts = 32

// crowd is a hub with two peers that its owner trusts, and with keys that count by certificates alone.
type crowd struct {
	t       *testing.T
	hub     *side
	desk    *side         // trusted
	laptop  *identity.Key // trusted
	host    *host         // of the laptop
	corp    *authority.Authority
	hosts   []*host       // of the certified keys
	keys    []*raw        // connections of the certified keys
	release chan struct{} // ends the work of the hub
	arrival time.Duration // what timeArrival returns when nobody else is there

	mu          sync.Mutex
	work        map[identity.ID]int // requests and messages on which the hub works, by who sent them
	ofCertified int                 // those of certified keys
}

// newCrowd makes the hub and the trusted peers. Queries and notices whose text begins with "wait" are
// work for the hub until release is closed.
func (w *network) newCrowd() *crowd {
	w.t.Helper()
	c := &crowd{t: w.t, corp: authority.New(w.t, "corp"), release: make(chan struct{}), work: make(map[identity.ID]int)}
	c.hub = w.side(func(cfg *Config) {
		trust := cfg.Trust
		cfg.Budget = &budget.Book{Peers: trust.Len, Certified: trust.IsCertified}
		cfg.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
			c.takeWork(ctx, env)
			return echo(ctx, env)
		}
		cfg.Message = func(ctx context.Context, env *Passing) (wire.ReceiptState, error) {
			c.takeWork(ctx, env)
			return wire.Handed, nil
		}
	})
	c.desk, c.laptop, c.host, c.hosts = w.side(nil), newKey(w.t), w.host(), w.hosts(crowdHosts)
	c.desk.trusts(c.hub, "hub")
	c.hub.trusts(c.desk, "desk")
	c.hub.knows(c.laptop, "laptop")
	w.start()
	c.hub.serve().joins(c.corp, 24*time.Hour, "acp:hub")
	c.desk.serve()
	c.timeAsk()
	c.timeArrival()
	time.Sleep(time.Second) // the next arrival is that of a known peer
	if took := c.timeAsk(); took != 2*latency {
		w.t.Fatalf("an answer takes %v when nobody else is there", took)
	}
	c.arrival = c.timeArrival()
	time.Sleep(time.Second)
	return c
}

func (c *crowd) takeWork(ctx context.Context, env *Passing) {
	if !strings.Contains(string(env.Payload), "wait") {
		return
	}
	_, certified := c.hub.trust.IsCertified(env.From)
	c.countWork(env.From, certified, 1)
	select {
	case <-c.release:
	case <-ctx.Done():
	}
	c.countWork(env.From, certified, -1)
}

func (c *crowd) countWork(of identity.ID, certified bool, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.work[of] += n; certified {
		c.ofCertified += n
	}
}

// workOf returns how much work the hub has of one key.
func (c *crowd) workOf(id identity.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.work[id]
}

// workOfCertified returns how much work the hub has of all certified keys together.
func (c *crowd) workOfCertified() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofCertified
}

// comes has so many keys, of a name each, connect to the hub and show certificates, as many at a time as
// there are hosts. meanwhile is called in the midst of each of these waves.
func (c *crowd) comes(keys int, meanwhile func()) {
	c.t.Helper()
	for len(c.keys) < keys {
		wave := make([]*raw, min(crowdHosts, keys-len(c.keys)))
		var dials sync.WaitGroup
		for i := range wave {
			name := fmt.Sprint("acp:build-", len(c.keys)+i)
			dials.Go(func() { wave[i] = c.come(c.hosts[i], name) })
		}
		meanwhile()
		dials.Wait()
		c.keys = append(c.keys, wave...)
		time.Sleep(waveTime)
	}
}

// come connects a new key to the hub, with a certificate for a name.
func (c *crowd) come(from *host, name string) *raw {
	c.t.Helper()
	r := from.dial(c.hub, newKey(c.t))
	r.sendHello(func(h *wire.Hello) { h.Cert = c.corp.Sign(r.key.ID(), time.Hour, name) })
	r.readHello()
	return r
}

// askForWork has a key send so many requests that are work, with a text of so many bytes.
func askForWork(r *raw, requests, size int) {
	r.t.Helper()
	for range requests {
		text := "wait" + strings.Repeat(".", size)
		r.openBidi(append([]byte{byte(wire.StreamExchange)}, r.envelope(kinds.KindQuery, `{"question":"`+text+`"}`, nil)...)...).Close()
	}
}

// allAskForWork has each certified key do what askForWork does, all at once. It returns when the hub has
// taken or refused everything.
func (c *crowd) allAskForWork(requests, size int) {
	c.t.Helper()
	var asking sync.WaitGroup
	for _, r := range c.keys {
		asking.Go(func() { askForWork(r, requests, size) })
	}
	asking.Wait()
	time.Sleep(time.Second)
}

// timeAsk returns how long the trusted desk waits for an answer, after one that shows that the connection
// is alive.
func (c *crowd) timeAsk() time.Duration {
	c.t.Helper()
	c.desk.ask(c.hub, "there?")
	began := time.Now()
	c.desk.ask(c.hub, "quick")
	return time.Since(began)
}

// timeArrival returns how long a process of the trusted laptop takes to connect and to have an answer.
func (c *crowd) timeArrival() time.Duration {
	c.t.Helper()
	began := time.Now()
	r := c.host.again(c.hub, c.laptop)
	r.alive()
	took := time.Since(began)
	r.qc.CloseWithError(0, "")
	return took
}

// checkSpeed expects that the trusted peers are served as fast as when nobody else is there. Where many
// dial, one that does may have to prove its address first, which takes a round trip.
func (c *crowd) checkSpeed(when string) {
	c.t.Helper()
	if took := c.timeAsk(); took > 2*latency {
		c.t.Errorf("%s: the trusted desk waits %v for an answer", when, took)
	}
	if took := c.timeArrival(); took > c.arrival+2*latency {
		c.t.Errorf("%s: the trusted laptop takes %v to connect, and %v when nobody else is there", when, took, c.arrival)
	}
}

// held returns what all peers together hold of a row of the hub's budget, and how often it was refused.
func (c *crowd) held(row string) (held int64, refused uint64) {
	c.t.Helper()
	for _, total := range c.hub.cfg.Budget.ListTotals() {
		if total.Row.Name == row {
			return total.Held, total.Refused
		}
	}
	c.t.Fatalf("the budget has no row %s", row)
	return 0, 0
}

// Many keys of one authority come, and ask for all that the hub serves of all peers at a time. Together they
// have half of that, however many they are. The peers that the owner trusts notice nothing: they connect and
// have their answers as fast as before, and all that one connection may have is there for them.
// holds: security.md#fleets
func TestCertifiedCrowdLeavesTheTrustedTheirShare(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		c := w.newCrowd()
		c.comes(*crowdKeys, func() { c.checkSpeed("while they come") })
		if n := len(c.hub.Peers()); n < *crowdKeys {
			t.Fatalf("%d of %d have come", n, *crowdKeys)
		}
		half := budget.Streams.All / 2
		c.allAskForWork(int(2*half) / *crowdKeys, 0)
		for range 3 { // they go on
			c.checkSpeed("while they have work done")
			if n := c.workOfCertified(); n != int(half) {
				t.Errorf("the hub serves %d requests of certified keys, expected half of all, %d", n, half)
			}
			if _, refused := c.held(budget.Streams.Name); refused == 0 {
				t.Error("nobody was refused")
			}
			c.allAskForWork(1, 0)
		}
		_, err := c.keys[0].exchange(c.keys[0].envelope(kinds.KindPing, "", nil))
		resetWith(t, err, streamOverloaded)

		laptop := c.host.again(c.hub, c.laptop)
		askForWork(laptop, maxIncomingExchanges, 0)
		for range maxIncomingMessages - 1 { // the control stream is one
			laptop.sendUni(append([]byte{byte(wire.StreamMessage)}, laptop.envelope(kinds.KindNotify, `{"topic":"wait.here"}`, nil)...)...)
		}
		time.Sleep(time.Second)
		if n, all := c.workOf(c.laptop.ID()), maxIncomingExchanges+maxIncomingMessages-1; n != all {
			t.Errorf("the hub serves %d requests of the trusted laptop, expected all that a connection can have, %d", n, all)
		}
		if took := c.timeAsk(); took > 2*latency {
			t.Errorf("at last the trusted desk waits %v for an answer", took)
		}
		close(c.release)
		time.Sleep(time.Second)
		c.keys[0].alive()
	})
}

// Strangers who say nothing have all the places in which hellos are read. A key with a certificate has to
// wait for them, and a peer that the owner trusts does not.
// holds: security.md#fleets
func TestCertifiedCrowdTakesNoPlaceOfTheTrusted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		c := w.newCrowd()
		var silent []*raw
		for range ofFleet / crowdHosts {
			wave := make([]*raw, crowdHosts)
			var dials sync.WaitGroup
			for i, h := range c.hosts {
				dials.Go(func() { wave[i] = h.dial(c.hub, newKey(t)) })
			}
			dials.Wait()
			silent = append(silent, wave...)
			time.Sleep(5 * latency)
		}
		c.checkSpeed("while all places are taken")
		late := c.hosts[0].dial(c.hub, newKey(t))
		late.sendHello(func(h *wire.Hello) { h.Cert = c.corp.Sign(late.key.ID(), time.Hour, "acp:build-7") })
		if got := late.closed(); got != closeOverloaded {
			t.Errorf("a certified key beyond the places: close code %d", got)
		}
		for i, r := range silent { // they have had their places until now
			if got := r.closed(); got != closeHelloTimeout {
				t.Fatalf("stranger %d: close code %d", i, got)
			}
		}
		c.come(c.hosts[0], "acp:build-7").alive()
	})
}
