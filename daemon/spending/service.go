package spending

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/store"
)

// MaxRunsOfRequest is how many runs may be reserved for one query or delegation: more than one,
// so that an agent can try again.
const MaxRunsOfRequest = 4

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	DB       *store.DB
	Trust    *identity.TrustStore
	Known    *known.Messages
	Config   func() *config.Config
	PeerName func(identity.ID) string
	Disk     *disk.Reserve
	Log      *slog.Logger
}

// Service lets agents reserve runs for the requests on which they work, and tells the owner what runs have cost.
type Service struct {
	*Table
	Deps
	runs *metrics.Counts // headless runs, by what was said of them
}

// The values of the label of runs.
const (
	runReserved = "reserved"
	runRefused  = "refused"
	runSettled  = "settled"
	runNotBegun = "not_begun"
)

// New returns the service of a database whose schema is up to date.
func New(d Deps) *Service {
	return &Service{Table: newTable(d.DB), Deps: d, runs: metrics.NewCounts(metrics.ClosedLabel{Name: "state", Values: []string{runReserved, runRefused, runSettled, runNotBegun}})}
}

// Methods returns the methods of agents that run programs, and of the owner.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodBudgetReserve: local.ForAgents(s.serveBudgetReserve),
		client.MethodBudgetSettle:  local.ForAgents(s.serveBudgetSettle).WithDiskReserve(s.Disk),
		client.MethodBudgetSpent:   local.ForOwner(s.serveBudgetSpent),
	}
}

// serveBudgetReserve takes what a headless run may cost from the day's budget of a peer, for a
// request of that peer on which the caller works.
func (s *Service) serveBudgetReserve(ctx context.Context, c *local.Conn, p *client.ReserveParams) (any, error) {
	r, err := checkReservation(p)
	if err != nil {
		return nil, err
	}
	by := c.GuestCredential()
	n, undo := s.Known.CountRun(by, p.Peer, p.Ref)
	switch {
	case n == 0:
		return nil, kinds.Errorf(kinds.NotFound, "%s: ref: you work on no query or delegation %s of this peer: reserve while you work on it, as the agent that got it", client.MethodBudgetReserve, p.Ref)
	case n > MaxRunsOfRequest:
		return nil, kinds.Errorf(kinds.Invalid, "%s: ref: %d runs were reserved for %s, the most there can be: answer it, with an error if need be", client.MethodBudgetReserve, MaxRunsOfRequest, p.Ref)
	}
	id, untrusts, err := s.Reserve(ctx, r, s.limits())
	if err != nil { // what was not reserved is no run
		undo()
		if kinds.AsError(err).Code == kinds.Overloaded {
			s.runs.Add(1, runRefused)
		}
		return nil, err
	}
	s.runs.Add(1, runReserved)
	// An untrust that did not come to disk is seen by the time of the new trust.
	since, trusted := s.Trust.FindPeer(p.Peer)
	if !trusted {
		return nil, kinds.Errorf(kinds.UnknownPeer, "%s: the peer is not trusted any more: do nothing for it", client.MethodBudgetReserve)
	}
	trust := strconv.FormatUint(untrusts, 10) + "/" + strconv.FormatInt(since.Since.Unix(), 10)
	return &client.Reserved{ID: id, Trust: trust}, nil
}

// serveBudgetSettle replaces what was reserved by what the run has cost. Only the caller that has reserved it
// knows the id.
func (s *Service) serveBudgetSettle(ctx context.Context, c *local.Conn, p *client.SettleParams) (any, error) {
	cut, err := s.Settle(ctx, p, s.limits())
	if cut {
		s.Log.Warn("a headless run has reported a higher cost than its peer may spend on a day: the rest is ignored", "agent", c.Credential().Name, "cost", p.Cost, "tokens", p.Tokens)
	}
	switch {
	case err != nil:
	case p.NotBegun:
		s.runs.Add(1, runNotBegun)
	default:
		s.runs.Add(1, runSettled)
	}
	return nil, err
}

// ListFamilies returns the metrics of what is counted here.
func (s *Service) ListFamilies() []metrics.Family {
	return []metrics.Family{
		{Name: "acpd_headless_runs_total", Type: metrics.Counter, Help: "Headless runs of agent programs, by state: each is reserved or refused first, and later settled or not begun.", Write: s.runs.Write},
	}
}

// serveBudgetSpent lists what headless runs have cost.
func (s *Service) serveBudgetSpent(ctx context.Context, _ *local.Conn, p *client.SpentParams) (any, error) {
	rows, err := s.List(ctx, p.Days)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Name = s.PeerName(rows[i].Peer)
	}
	l := s.limits()
	return &client.Spent{Rows: append([]client.SpentRow{}, rows...), Limits: client.SpentLimits{
		Runs: l.Runs, Tokens: l.Tokens, Cost: l.Cost.Dollars(), CostAll: l.CostAll.Dollars(), Until: nextDay(time.Now()),
	}}, nil
}

// The limits that follow from the setting spending, which is in US dollars for one peer.
const (
	runsForDollar   = 10
	tokensForDollar = 400_000
	dollarsOfAll    = 4 // all peers together have so many times those of one
)

// limits returns the limits that config.yaml sets now.
func (s *Service) limits() Limits {
	dollars := s.Config().Spending
	cost, _ := newMoney(dollars) // in range: the configuration was checked
	return Limits{Runs: uint64(dollars * runsForDollar), Tokens: uint64(dollars * tokensForDollar), Cost: cost, CostAll: cost * dollarsOfAll}
}

// DescribeUsedUp returns a warning for each peer whose runs of today were refused.
func (s *Service) DescribeUsedUp() []string {
	all := []string{}
	for peer, why := range s.ListRefused() {
		all = append(all, fmt.Sprintf("headless runs for %s are refused until tomorrow: the budget of today does not hold another one (%s); acpctl agents --spent says what was spent, and spending in config.yaml sets the limit",
			s.PeerName(peer), why))
	}
	slices.Sort(all)
	return all
}
