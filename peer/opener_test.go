package peer

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// pipeEnd is an end of a pipe in memory: a relayLink whose address is opened before it is dialled.
type pipeEnd struct {
	*relayLink
	to               identity.ID                 // who is dialled; zero: nobody
	opens            func(context.Context) error // what happens in Open
	opened, released atomic.Int32
	opening          atomic.Bool
	end              context.CancelCauseFunc // has what was opened last take no more packets; guarded by net.mu
}

// errCommandEnded is why a pipeEnd has ended.
var errCommandEnded = ownwords.New(`"ssh" was ended by a signal (killed)`)

// errUnwanted is why a pipeEnd has ended that nobody uses any more.
var errUnwanted = ownwords.New("nobody waits for it any more")

func (*pipeEnd) Path() Path { return ViaPipe }

func (p *pipeEnd) Addr(id identity.ID) net.Addr {
	if p.to.IsZero() || id != p.to {
		return nil
	}
	return p.relayLink.Addr(id)
}

func (*pipeEnd) Sender(net.Addr) identity.ID { return identity.ID{} }

func (p *pipeEnd) Open(ctx context.Context, addr net.Addr) (context.Context, func(), error) {
	p.opened.Add(1)
	open, end := context.WithCancelCause(context.Background())
	p.net.set(func() { p.end = end })
	p.opening.Store(true)
	defer p.opening.Store(false)
	if p.opens != nil {
		if err := p.opens(ctx); err != nil {
			return nil, nil, err
		}
	}
	return open, func() {
		p.released.Add(1)
		end(errUnwanted)
	}, nil
}

func (p *pipeEnd) IsOpening(net.Addr) bool { return p.opening.Load() }

// ends ends what was opened, of which the link has told before anybody listened.
func (p *pipeEnd) ends() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.end != nil {
		p.end(errCommandEnded)
	}
}

// nobodyAt is told to the node.
func (p *pipeEnd) nobodyAt(id identity.ID) {
	p.net.mu.Lock()
	node := p.node
	p.net.mu.Unlock()
	node.NobodyAt(p.relayLink.Addr(id))
	p.ends()
}

// failsWithItsCommand expects that the call fails soon, as the command of the pipe has ended, which was
// started once.
func (p *pipeEnd) failsWithItsCommand(t *testing.T, call <-chan outcome) {
	t.Helper()
	o := <-call
	o.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, time.Second)
	says(t, o.err, kinds.Unreachable, errCommandEnded.Error())
	synctest.Wait()
	if p.opened.Load() != 1 || p.released.Load() != 1 {
		t.Errorf("opened %d times, released %d times", p.opened.Load(), p.released.Load())
	}
}

// breaks is the end of the command, of which both sides hear.
func (p *pipeEnd) breaks(t *testing.T, far *pipeEnd) {
	t.Helper()
	p.net.set(func() { p.net.out = true })
	time.Sleep(4 * hop) // what is on its way is lost
	p.nobodyAt(far.id)
	far.nobodyAt(p.id)
	p.net.set(func() { p.net.out = false })
}

// piped is two nodes that know each other only by a pipe, which a dials; served.
func (w *network) piped(opens func(context.Context) error) (a, b *side, near, far *pipeEnd) {
	w.t.Helper()
	r := newRelayNet("pipe")
	a = w.side(func(c *Config) {
		slowly(c)
		near = &pipeEnd{relayLink: r.link(c.Key.ID()), opens: opens}
		c.Links = []Link{near}
	})
	b = w.side(func(c *Config) {
		slowly(c)
		far = &pipeEnd{relayLink: r.link(c.Key.ID())}
		c.Links = []Link{far}
	})
	near.to = b.ID()
	a.knows(b.cfg.Key, "build")
	b.knows(a.cfg.Key, "desk")
	w.start()
	return a.serve(), b.serve(), near, far
}

func TestPipeIsOpenedForCalls(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		a.Connect(b.ID())
		b.Connect(a.ID())
		time.Sleep(time.Minute)
		if n := near.opened.Load(); n != 0 {
			t.Fatalf("the background opens it %d times", n)
		}
		if err := b.tryAsk(a, "?"); code(err) != kinds.Unreachable || near.opened.Load() != 0 {
			t.Errorf("the other way: %v", err)
		}
		a.ask(b, "who is it?")
		b.ask(a, "and you?") // by the same connection
		if got, err := a.Send(t.Context(), b.ID(), notify("build.done"), true); err != nil || got != Handed {
			t.Errorf("a message: %q, %v", got, err)
		}
		p, ok := a.Peer(b.ID())
		if !ok || p.Path != ViaPipe || near.opened.Load() != 1 || near.released.Load() != 0 {
			t.Errorf("connected %v by %s, opened %d, released %d", ok, p.Path, near.opened.Load(), near.released.Load())
		}
		if state := a.findState(b.ID()); state.lastGoodAddr != "" {
			t.Errorf("remembered: %q", state.lastGoodAddr)
		}
		a.shutdown()
		synctest.Wait()
		if n := near.released.Load(); n != 1 {
			t.Errorf("released %d times", n)
		}
	})
}

// A call waits for a command that logs in first, and hears why it fails, with its words quoted.
func TestPipeOpensSlowlyOrNot(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var fail error
		takes := 14 * time.Second
		a, b, near, _ := w.piped(func(ctx context.Context) error {
			select {
			case <-time.After(takes):
				return fail
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		(<-a.start(b, query("after a login"))).answered(t, takes, takes+time.Second)

		a.Disconnect(b.ID())
		b.Disconnect(a.ID())
		time.Sleep(20 * time.Second)
		takes = 15 * time.Second
		fail = kinds.Errorf(kinds.Unreachable, `"ssh" ended with exit code 255`).WithQuoted("Permission denied")
		o := <-a.start(b, query("refused"))
		o.want(t, kinds.Unreachable, kinds.DeliveredNo, takes, takes+time.Second)
		if e := kinds.AsError(o.err); e.Message != `build: relay:pipe: "ssh" ended with exit code 255` || e.Quoted != "Permission denied" {
			t.Errorf("got %v, %q", e, e.Quoted)
		}
		if opened, released := near.opened.Load(), near.released.Load(); opened != 2 || released != 1 {
			t.Errorf("opened %d times, released %d times", opened, released)
		}

		// Who gives up does not end what others may use in a moment.
		time.Sleep(2 * time.Second)
		takes, fail = 10*time.Second, nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := a.Exchange(ctx, b.ID(), query("in a second?")); code(err) != kinds.Unreachable || !strings.Contains(err.Error(), "the command of relay:pipe has printed nothing yet") {
			t.Errorf("got %v", err)
		}
		(<-a.start(b, query("then?"))).answered(t, 8*time.Second, 9*time.Second+time.Second)
		if opened := near.opened.Load(); opened != 3 {
			t.Errorf("opened %d times", opened)
		}
	})
}

// A connection through a command ends a minute after its last stream, of either side.
func TestUnusedPipeEnds(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		a.ask(b, "?")
		for range 5 {
			time.Sleep(50 * time.Second)
			b.ask(a, "from there")
			time.Sleep(50 * time.Second)
			a.ask(b, "from here")
		}
		long := a.start(b, lasting(5*time.Minute))
		(<-long).answered(t, 5*time.Minute, 5*time.Minute+time.Second)
		if near.opened.Load() != 1 || near.released.Load() != 0 {
			t.Fatalf("opened %d times, released %d times", near.opened.Load(), near.released.Load())
		}
		time.Sleep(58 * time.Second)
		if near.released.Load() != 0 {
			t.Error("released too early")
		}
		time.Sleep(10 * time.Second)
		if _, ok := a.Peer(b.ID()); ok || near.released.Load() != 1 {
			t.Errorf("connected %v, released %d times", ok, near.released.Load())
		}
		if _, ok := b.Peer(a.ID()); ok {
			t.Error("the other side is connected")
		}
		a.ask(b, "again")
		if near.opened.Load() != 2 {
			t.Errorf("opened %d times", near.opened.Load())
		}
	})
}

// A connection through a command stays while work is open between the two, and so its end arrives;
// not for ever.
func TestPipeStaysForOpenWork(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		var open atomic.Bool
		a.cfg.AwaitsWork = func(id identity.ID) bool { return open.Load() && id == b.ID() }

		open.Store(true)
		a.ask(b, "a task")
		time.Sleep(10 * time.Minute)
		if got, err := b.Send(t.Context(), a.ID(), notify("the.result"), true); err != nil || got != Handed {
			t.Fatalf("the result: %q, %v", got, err)
		}
		open.Store(false)
		time.Sleep(2 * time.Minute)
		if n := near.released.Load(); n != 1 || near.opened.Load() != 1 {
			t.Fatalf("opened %d times, released %d times", near.opened.Load(), n)
		}

		open.Store(true)
		a.ask(b, "a task without an end")
		time.Sleep(pipeAwaitTime - time.Minute)
		if near.released.Load() != 1 {
			t.Error("released too early")
		}
		time.Sleep(2 * time.Minute)
		if near.released.Load() != 2 {
			t.Error("it is kept for ever")
		}

		a.ask(b, "a task that ends with its deadline")
		time.Sleep(10 * time.Minute)
		open.Store(false)
		time.Sleep(2 * pipeIdleTime / pipeIdleTicks)
		if near.released.Load() != 3 {
			t.Error("it is kept for nothing")
		}
	})
}

// When the command ends, what was under way is unknown at once, and the next call starts anew.
func TestPipeBreaks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, far := w.piped(nil)
		call := a.start(b, lasting(time.Minute))
		time.Sleep(time.Second)
		back := b.start(a, lasting(time.Minute))
		time.Sleep(time.Second)
		near.breaks(t, far)
		began := time.Now()
		(<-call).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, 3*time.Second)
		(<-back).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, 3*time.Second)
		if took := time.Since(began); took > 2*pipeEndTime {
			t.Errorf("the calls ended after %v", took)
		}
		synctest.Wait()
		if near.released.Load() != 1 {
			t.Errorf("released %d times", near.released.Load())
		}
		a.ask(b, "again")
		if near.opened.Load() != 2 {
			t.Errorf("opened %d times", near.opened.Load())
		}
	})
}

// A peer that refuses is heard, although the command ends with the connection.
func TestRefusalOverAPipe(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		if err := b.trust.Untrust(a.ID()); err != nil {
			t.Fatal(err)
		}
		says(t, a.tryAsk(b, "?"), kinds.NotTrusted, "acpctl trust "+a.ID().String()+" there")
		synctest.Wait()
		if near.opened.Load() != 1 || near.released.Load() != 1 {
			t.Errorf("opened %d times, released %d times", near.opened.Load(), near.released.Load())
		}
	})
}

// The command that ends during the handshake ends the dial.
func TestPipeBreaksWhileDialled(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		near.net.set(func() { near.net.out = true })
		call := a.start(b, query("?"))
		time.Sleep(100*time.Millisecond - 10*latency)
		near.nobodyAt(b.ID())
		near.failsWithItsCommand(t, call)
	})
}

// The command that ends when it has just begun, before the dial listens, ends it too, in its own words.
func TestPipeEndsBeforeTheDial(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var b *side
		var near *pipeEnd
		a, b, near, _ := w.piped(func(context.Context) error {
			near.net.set(func() { near.net.out = true })
			near.nobodyAt(b.ID())
			return nil
		})
		synctest.Wait() // the links run
		near.failsWithItsCommand(t, a.start(b, query("?")))
	})
}

// The command that ends after the handshake, before the connection listens, ends that.
func TestPipeEndsBeforeTheHello(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		synctest.Wait()       // the links run
		near.net.set(func() { // b's hello is lost: it comes after the handshake, of which all packets have long headers
			near.net.mangle = func(p *relayPacket) []time.Duration {
				if p.from == b.ID() && p.data[0]&0x80 == 0 {
					return nil
				}
				return []time.Duration{0}
			}
		})
		call := a.start(b, query("?"))
		greets := func() bool {
			state := a.findState(b.ID())
			if state == nil {
				return false
			}
			state.mu.Lock()
			defer state.mu.Unlock()
			return len(state.greeting) > 0
		}
		for waited := time.Now(); !greets(); time.Sleep(time.Millisecond) {
			if time.Since(waited) > time.Second {
				t.Fatal("no hello is awaited")
			}
		}
		near.net.set(func() { near.net.out = true })
		near.ends()
		near.failsWithItsCommand(t, call)
	})
}

// A pipe that is drained takes no new call, and calls that are open end on it, if they do so within 5 s.
func TestOpenedIsDrained(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, near, _ := w.piped(nil)
		short, long := a.start(b, lasting(3*time.Second)), a.start(b, lasting(time.Minute))
		time.Sleep(time.Second)
		began := time.Now()
		ended := a.DrainOpened([]identity.ID{newKey(t).ID()})
		<-ended
		if _, ok := a.Peer(b.ID()); !ok || time.Since(began) > 0 {
			t.Error("the pipe to another peer")
		}
		ended = a.DrainOpened([]identity.ID{b.ID()})
		a.ask(b, "by the next one")
		if n := near.opened.Load(); n != 2 {
			t.Errorf("opened %d times", n)
		}
		(<-short).answered(t, 3*time.Second, 4*time.Second)
		(<-long).want(t, kinds.Unreachable, kinds.DeliveredUnknown, drainTime, time.Second+drainTime+time.Second)
		<-ended
		time.Sleep(time.Second)
		if n := near.released.Load(); n != 1 {
			t.Errorf("released %d times", n)
		}
		a.ask(b, "still by that")
		a.shutdown()
		<-a.DrainOpened([]identity.ID{b.ID()})
	})
}
