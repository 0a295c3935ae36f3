package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/spending"
	"github.com/acpd/acpd/kinds"
)

// serveBudgetReserve takes what a headless run may cost from the day's budget of a peer. Any
// attached agent may call it: that takes from what agents may spend and gives nothing.
func (d *Daemon) serveBudgetReserve(ctx context.Context, s *localConn, p *client.ReserveParams) (any, error) {
	agent, err := s.inboxAgent(client.MethodBudgetReserve)
	if err != nil {
		return nil, err
	}
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		return nil, kinds.Errorf(kinds.UnknownPeer, "%s: peer: %s", client.MethodBudgetReserve, err)
	}
	r, err := spending.CheckReservation(who.ID, p)
	if err != nil {
		return nil, err
	}
	if agent != nil {
		r.Agent = *agent
	}
	id, untrusts, err := d.spending.Reserve(ctx, r, d.spendingLimits())
	if err != nil {
		return nil, err
	}
	// An untrust that did not come to disk is seen by the time of the new trust.
	since, trusted := d.trust.FindPeer(who.ID)
	if !trusted {
		return nil, kinds.Errorf(kinds.UnknownPeer, "%s: %s is not trusted any more", client.MethodBudgetReserve, who.Name)
	}
	trust := strconv.FormatUint(untrusts, 10) + "/" + strconv.FormatInt(since.Since.Unix(), 10)
	return &client.Reserved{ID: id, Peer: who.ID, Trust: trust}, nil
}

// serveBudgetSettle replaces what was reserved by what the run has cost.
func (d *Daemon) serveBudgetSettle(ctx context.Context, s *localConn, p *client.SettleParams) (any, error) {
	if _, err := s.inboxAgent(client.MethodBudgetSettle); err != nil {
		return nil, err
	}
	cut, err := d.spending.Settle(ctx, p, d.spendingLimits())
	if cut {
		d.log.Warn("a headless run is said to have cost more than its peer may spend on a day: the rest does not count", "agent", s.callerCredential().Name, "cost", p.Cost, "tokens", p.Tokens)
	}
	return nil, err
}

// serveBudgetSpent lists what headless runs have cost.
func (d *Daemon) serveBudgetSpent(ctx context.Context, _ *localConn, p *client.SpentParams) (any, error) {
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
