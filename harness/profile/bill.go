package profile

import (
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// settleTime is how long the daemon may take to record what a run has cost.
const settleTime = 5 * time.Second

// bill is what a run costs. The most that it may cost is reserved before it begins. If it never
// begins, it costs nothing.
type bill struct {
	trust string // what the daemon says of the peer
	spent client.SettleParams
	known bool // what it has cost
}

// reserve reserves what a run for the request may cost. The error is for its peer.
func (r *Runner) reserve(ctx context.Context, q Request) (*bill, error) {
	reserved, err := r.Budget.ReserveRun(ctx, client.ReserveParams{
		Profile: r.Profile.Name, Peer: q.Peer, Ref: q.ID, MaxCost: r.Profile.Limits.Cost, MaxTokens: r.Profile.Limits.Tokens,
	})
	if err != nil {
		return nil, r.explainReserveError(ctx, err)
	}
	return &bill{trust: reserved.Trust, spent: client.SettleParams{ID: reserved.ID, NotBegun: true}, known: true}, nil
}

// noteBegun notes that the program runs: from now on it is not known what that costs.
func (b *bill) noteBegun() { b.known, b.spent.NotBegun = false, false }

// noteCost notes the cost that the program has reported. Tokens are only those of this run.
func (b *bill) noteCost(read *reading, tokens uint64, limits *Limits) {
	if b.known = read.hasTokens && (read.hasCost || limits.Cost == 0); b.known {
		b.spent.Cost, b.spent.Tokens = read.cost, tokens
	}
}

// settle tells the daemon what a run has cost, also after the end of ctx. If that is not known,
// what was reserved stays.
func (r *Runner) settle(ctx context.Context, b *bill) {
	if !b.known {
		r.log("the cost of the run is not known: it is charged the most that it may cost, %d tokens and %.2f US dollars", r.Profile.Limits.Tokens, r.Profile.Limits.Cost)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := r.Budget.SettleRun(ctx, b.spent); err != nil {
		r.log("the cost of a run could not be reported to the daemon: it is charged the most that it may cost: %v", err)
	}
}

// explainReserveError returns the error for a peer whose run may not begin.
func (r *Runner) explainReserveError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.log("%v", err)
	e, ok := errors.AsType[*kinds.Error](err)
	switch {
	case !ok || e.Code != kinds.Overloaded:
		return kinds.Errorf(kinds.Internal, "the agent program cannot be started now")
	case e.Reason() != kinds.ReasonBudgetUsed: // the daemon's disk is full, for one
		return kinds.Errorf(kinds.Overloaded, "the agent program cannot be started now: try again later")
	}
	told := kinds.Errorf(kinds.Overloaded, "what this agent may spend for you today is used up, or held by runs that are under way: try again when these have ended, or tomorrow")
	told.RetryAfterMS = e.RetryAfterMS
	return told
}
