package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/spending"
	"github.com/acpd/acpd/kinds"
)

// maxRunsOfRequest is how many runs may be reserved for one query or delegation: more than one,
// so that an agent can try again.
const maxRunsOfRequest = 4

// serveBudgetReserve takes what a headless run may cost from the day's budget of a peer, for a
// request of that peer on which the caller works.
func (d *Daemon) serveBudgetReserve(ctx context.Context, s *local.Conn, p *client.ReserveParams) (any, error) {
	r, err := spending.CheckReservation(p)
	if err != nil {
		return nil, err
	}
	by := s.GuestCredential()
	ofQuery, undoQuery := d.queries.countRun(by, p.Peer, p.Ref)
	ofDelegation, undoDelegation := d.delegations.CountRun(by, p.Peer, p.Ref)
	switch n := max(ofQuery, ofDelegation); {
	case n == 0:
		return nil, kinds.Errorf(kinds.NotFound, "%s: ref: you work on no query or delegation %s of this peer: reserve while you work on it, as the agent that got it", client.MethodBudgetReserve, p.Ref)
	case n > maxRunsOfRequest:
		return nil, kinds.Errorf(kinds.Invalid, "%s: ref: %d runs were reserved for %s, the most there can be: answer it, with an error if need be", client.MethodBudgetReserve, maxRunsOfRequest, p.Ref)
	}
	id, untrusts, err := d.spending.Reserve(ctx, r, d.spendingLimits())
	if err != nil { // what was not reserved is no run
		undoQuery()
		undoDelegation()
		if kinds.AsError(err).Code == kinds.Overloaded {
			d.measures.countRun(runRefused)
		}
		return nil, err
	}
	d.measures.countRun(runReserved)
	// An untrust that did not come to disk is seen by the time of the new trust.
	since, trusted := d.trust.FindPeer(p.Peer)
	if !trusted {
		return nil, kinds.Errorf(kinds.UnknownPeer, "%s: the peer is not trusted any more: do nothing for it", client.MethodBudgetReserve)
	}
	trust := strconv.FormatUint(untrusts, 10) + "/" + strconv.FormatInt(since.Since.Unix(), 10)
	return &client.Reserved{ID: id, Trust: trust}, nil
}

// serveBudgetSettle replaces what was reserved by what the run has cost. Only who has reserved it
// knows the id.
func (d *Daemon) serveBudgetSettle(ctx context.Context, s *local.Conn, p *client.SettleParams) (any, error) {
	cut, err := d.spending.Settle(ctx, p, d.spendingLimits())
	if cut {
		d.log.Warn("a headless run has reported a higher cost than its peer may spend on a day: the rest is ignored", "agent", s.Credential().Name, "cost", p.Cost, "tokens", p.Tokens)
	}
	switch {
	case err != nil:
	case p.NotBegun:
		d.measures.countRun(runNotBegun)
	default:
		d.measures.countRun(runSettled)
	}
	return nil, err
}

// serveBudgetSpent lists what headless runs have cost.
func (d *Daemon) serveBudgetSpent(ctx context.Context, _ *local.Conn, p *client.SpentParams) (any, error) {
	rows, err := d.spending.List(ctx, p.Days)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Name = d.peerName(rows[i].Peer)
	}
	l := d.spendingLimits()
	return &client.Spent{Rows: append([]client.SpentRow{}, rows...), Limits: client.SpentLimits{
		Runs: l.Runs, Tokens: l.Tokens, Cost: l.Cost.Dollars(), CostAll: l.CostAll.Dollars(), Until: spending.NextDay(time.Now()),
	}}, nil
}

// spendingLimits returns the limits that config.yaml sets now.
func (d *Daemon) spendingLimits() spending.Limits {
	c := d.config.Load().Spending
	cost, _ := spending.NewMoney(c.USD) // in range: the configuration was checked
	all, _ := spending.NewMoney(c.USDAll)
	return spending.Limits{Runs: uint64(c.Runs), Tokens: uint64(c.Tokens), Cost: cost, CostAll: all}
}

// describeUsedUpBudgets returns a warning for each peer whose runs of today were refused.
func (d *Daemon) describeUsedUpBudgets() []string {
	all := []string{}
	for peer, why := range d.spending.ListRefused() {
		all = append(all, fmt.Sprintf("headless runs for %s are refused until tomorrow: the budget of today does not hold another one (%s); acpctl agents --spent says what was spent, and spending in config.yaml sets the limit",
			d.peerName(peer), why))
	}
	slices.Sort(all)
	return all
}
