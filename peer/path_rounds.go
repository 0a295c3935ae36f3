package peer

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

// pathRounds orders and bounds the rounds with one peer, in which both sides tell their addresses
// and dial those of the other (protocol, section 2). It outlasts connections, so a peer gains
// nothing by a new one.
type pathRounds struct {
	parity uint64 // of the numbers of own rounds: 0 at the smaller id, 1 at the other

	mu       sync.Mutex // guards what follows
	under    *pathRound // the one under way; nil: none
	number   uint64     // of the last own round
	lastAt   time.Time  // when the last round began, whoever began it; zero: there was none
	failures int        // own rounds that failed, one after the other
	due      time.Time  // when the next own round may begin; zero: at once at the smaller id, never at the other
	directAt time.Time  // when the peer became connected directly; zero: it is not
	targets  pathTargets
	changed  chan struct{} // closed, and replaced, when nextRound may say something else
}

// pathRound is a round that is under way. ctx ends when a direct connection is ready, or when
// the peer's round replaces it.
type pathRound struct {
	number   uint64
	own      bool // this node began it
	answered bool
	answer   chan []string // takes the addresses of the answer to an own round
	ctx      context.Context
	cancel   context.CancelFunc
}

const (
	// Two rounds with a peer begin at least roundGap apart. An own one waits longer by the slack,
	// since the gap that the peer measures may have become shorter on the way.
	roundGap      = 30 * time.Second
	roundGapSlack = time.Second

	steadyDirect = 5 * time.Minute // a direct path that is lost sooner is a failed round
)

// roundPauses is how long after a failed round the next one begins, by how many have failed. The
// last holds for all others.
var roundPauses = [...]time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

func newPathRounds(self, peer identity.ID) *pathRounds {
	r := &pathRounds{targets: make(pathTargets), changed: make(chan struct{})}
	if self.Compare(peer) > 0 {
		r.parity = 1
	}
	return r
}

// isOwn reports whether a round of that number is one of this node's.
func (r *pathRounds) isOwn(number uint64) bool { return number%2 == r.parity }

// nextRound returns how long it is until the next own round; it reports false if no round is due.
// The answer is valid until changed is closed.
func (r *pathRounds) nextRound() (wait time.Duration, due bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under != nil || !r.directAt.IsZero() || r.due.IsZero() && r.parity == 1 {
		return 0, false, r.changed
	}
	at := r.due
	if again := r.lastAt.Add(roundGap + roundGapSlack); !r.lastAt.IsZero() && again.After(at) {
		at = again
	}
	return max(time.Until(at), 0), true, r.changed
}

// beginRound begins an own round, which ends with ctx at the latest. It returns nil if no round is
// due. The caller calls endRound.
func (r *pathRounds) beginRound(ctx context.Context) *pathRound {
	wait, due, _ := r.nextRound()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !due || wait > 0 || r.under != nil {
		return nil
	}
	r.number += 2
	return r.setUnder(ctx, &pathRound{number: r.number + r.parity, own: true, answer: make(chan []string, 1)})
}

// acceptRound begins a round of the peer, which ends with ctx at the latest. It returns nil if
// the round comes too early. If two cross, that of the smaller id is kept. The caller calls
// endRound.
func (r *pathRounds) acceptRound(ctx context.Context, number uint64) *pathRound {
	r.mu.Lock()
	defer r.mu.Unlock()
	crossing := r.under != nil && r.under.own && !r.under.answered && r.parity == 1
	early := r.under != nil || !r.lastAt.IsZero() && time.Since(r.lastAt) < roundGap
	if early && !crossing {
		return nil
	}
	if crossing {
		r.under.cancel()
	}
	return r.setUnder(ctx, &pathRound{number: number})
}

// setUnder makes a round the one under way. Callers hold mu.
func (r *pathRounds) setUnder(ctx context.Context, p *pathRound) *pathRound {
	p.ctx, p.cancel = context.WithCancel(ctx)
	r.under, r.lastAt = p, time.Now()
	return p
}

// takeAnswer gives the addresses of an answer to the own round that waits for it. An answer for
// which none waits is ignored.
func (r *pathRounds) takeAnswer(number uint64, addrs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.under; p != nil && p.own && p.number == number && !p.answered {
		p.answered = true
		p.answer <- addrs
	}
}

// chooseTargets returns the addresses that are dialled in a round, of those that the peer names.
func (r *pathRounds) chooseTargets(named []string, local localNetwork) []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.targets.chooseTargets(named, local, time.Now())
}

// endRound ends a round, and says by whether a direct connection is ready when the next one is
// due. After a round that the peer began, whose addresses may have changed, the pauses begin anew.
func (r *pathRounds) endRound(p *pathRound) {
	p.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under != p {
		return // the peer's round is kept
	}
	r.under = nil
	if r.directAt.IsZero() {
		if !p.own {
			r.failures = 0
		}
		r.countFailure()
	}
	r.announce()
}

// countFailure adds a failed round. Only the smaller id repeats it. Callers hold mu.
func (r *pathRounds) countFailure() {
	pause := roundPauses[min(r.failures, len(roundPauses)-1)]
	r.failures++
	if r.due = (time.Time{}); r.parity == 0 {
		r.due = time.Now().Add(pause)
	}
}

// noteDirect notes that a direct connection is ready. It ends the round that is under way.
func (r *pathRounds) noteDirect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.directAt.IsZero() {
		r.directAt = time.Now()
	}
	if r.under != nil {
		r.under.cancel()
	}
}

// noteNoDirect notes that no direct connection is ready any more, and whether the last one was
// lost. Until a direct path has proved steady, its loss is a failed round: a NAT may let
// packets through that it drops later.
func (r *pathRounds) noteNoDirect(lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.directAt.IsZero() {
		return
	}
	steady := time.Since(r.directAt) >= steadyDirect
	r.directAt = time.Time{}
	if lost && !steady {
		r.countFailure()
	} else if steady {
		r.failures, r.due = 0, time.Time{}
	}
	r.announce()
}

// noteAddrs notes that this node has other addresses than before: a round is due, and the pauses
// begin anew.
func (r *pathRounds) noteAddrs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.directAt.IsZero() {
		r.failures, r.due = 0, time.Now()
		r.announce()
	}
}

// announce tells those who wait that nextRound may say something else. Callers hold mu.
func (r *pathRounds) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}
