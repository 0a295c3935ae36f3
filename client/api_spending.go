package client

import (
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// The methods by which a program that starts headless runs of an agent program asks what
// they may cost. The first two are also served in the agents' folder.
const (
	MethodBudgetReserve = "budget.reserve"
	MethodBudgetSettle  = "budget.settle"
	MethodBudgetSpent   = "budget.spent"
)

// MaxProfileName bounds the name of a profile, in bytes.
const MaxProfileName = 32

// ReserveParams are the params of budget.reserve: a run is to begin, for a query or delegation
// on which the caller works. What it may cost at most is spent from then on.
type ReserveParams struct {
	Profile   string         `json:"profile"`
	Peer      identity.ID    `json:"peer"`                // that sent the query or delegation, and to whose day the run belongs
	Ref       wire.MessageID `json:"ref"`                 // the query or delegation
	MaxCost   float64        `json:"max_cost,omitzero"`   // in US dollars; 0: the agent program names no cost
	MaxTokens uint64         `json:"max_tokens,omitzero"` // 0: not bounded beforehand
}

// Reserved is the result of budget.reserve.
type Reserved struct {
	ID string `json:"id"` // for budget.settle
	// Trust is another text after the peer was untrusted: whoever keeps conversations of
	// the peer ends them then.
	Trust string `json:"trust"`
}

// SettleParams are the params of budget.settle, whose result is {}: from then on the real cost of the run
// replaces what was reserved. A run that is never settled has cost
// what was reserved.
type SettleParams struct {
	ID       string  `json:"id"`
	Cost     float64 `json:"cost,omitzero"` // in US dollars
	Tokens   uint64  `json:"tokens,omitzero"`
	NotBegun bool    `json:"not_begun,omitzero"` // the run has not begun: all that was reserved is given back, and the run is not recorded
}

// SpentParams are the params of budget.spent.
type SpentParams struct {
	Days int `json:"days,omitzero"` // how many days back, today among them; 0 means only today; at most 31
}

// Spent is the result of budget.spent.
type Spent struct {
	Rows   []SpentRow  `json:"rows"` // the newest day first, then by peer and profile
	Limits SpentLimits `json:"limits"`
}

// SpentRow says what runs of one profile for one peer have cost on one day.
type SpentRow struct {
	Day     string      `json:"day"` // 2006-01-02, local to the daemon
	Peer    identity.ID `json:"peer"`
	Name    string      `json:"name"`
	Profile string      `json:"profile"`
	Runs    uint64      `json:"runs"`
	Tokens  uint64      `json:"tokens"`
	Cost    float64     `json:"cost"` // in US dollars
}

// SpentLimits are the bounds of a day, which follow from spending in config.yaml.
type SpentLimits struct {
	Runs    uint64    `json:"runs"`     // of one peer
	Tokens  uint64    `json:"tokens"`   // of one peer
	Cost    float64   `json:"cost"`     // of one peer, in US dollars
	CostAll float64   `json:"cost_all"` // of all peers together
	Until   time.Time `json:"until"`    // when the next day begins
}
