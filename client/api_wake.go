package client

import (
	"context"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// The methods by which the daemon's owner says what wakes sessions. No agent may call them.
const (
	MethodWakeAllow   = "wake.allow"
	MethodWakeList    = "wake.list"
	MethodWakeRevoke  = "wake.revoke"
	MethodWakeAnswers = "wake.answers"
	MethodApprovals   = "approvals"
	MethodApprove     = "approvals.decide"
	MethodAgents      = "agents"
	MethodMuteAgent   = "agents.mute"
	MethodWakeNotify  = "wake.notify"
	MethodWakeTest    = "wake.test"
)

// WakeAllowParams are the params of wake.allow, whose result is WakeRules: the rules for
// the peer now.
type WakeAllowParams struct {
	Peer       string   `json:"peer"`
	Kinds      []string `json:"kinds,omitempty"`     // of query, delegate, notify, result, error; empty: all of them
	Agent      string   `json:"agent,omitzero"`      // the session; "": every session
	Ask        bool     `json:"ask,omitzero"`        // the owner is asked before a message begins a turn: approvals.decide
	Unattended bool     `json:"unattended,omitzero"` // also if nobody is there to be asked for permissions
}

// WakeRevokeParams are the params of wake.revoke, whose result is Revoked.
type WakeRevokeParams struct {
	Peer  string   `json:"peer"`
	Kinds []string `json:"kinds,omitempty"` // empty: all of them
	Agent string   `json:"agent,omitzero"`  // "": of every session, and those of single ones
}

// WakeAnswersParams are the params of wake.answers, whose result is WakeRules.
type WakeAnswersParams struct {
	On         bool   `json:"on"`                  // the final result, error or question of what a session asked wakes it
	Agent      string `json:"agent,omitzero"`      // the session; "": every session
	Unattended bool   `json:"unattended,omitzero"` // also if nobody is there to be asked for permissions
}

// WakeTestParams are the params of wake.test, whose result is WakeTested.
type WakeTestParams struct {
	Agent      string `json:"agent"`               // the session
	Unattended bool   `json:"unattended,omitzero"` // also if nobody is there to be asked for permissions
}

// WakeTested is how the owner's own wake of a session ended. It uses up no peer's turns.
type WakeTested struct {
	Agent   string `json:"agent"`
	Posted  bool   `json:"posted"`           // its program has taken the line, so a turn begins
	Refused string `json:"refused,omitzero"` // else why not
}

// WakeRule lets messages of one kind of a peer wake a session.
type WakeRule struct {
	Peer       identity.ID `json:"peer"`
	Name       string      `json:"name"`
	Kind       string      `json:"kind"`
	Agent      string      `json:"agent,omitzero"` // the session; "": every session
	Ask        bool        `json:"ask"`
	Unattended bool        `json:"unattended"`
	Since      Time        `json:"since"`  // null: the settings say so
	Source     string      `json:"source"` // wake.yaml, which wake.allow writes, or config.yaml
}

// WakeAnswersRule lets answers to what a session asked wake it.
type WakeAnswersRule struct {
	Agent      string `json:"agent,omitzero"` // the session; "": every session
	Unattended bool   `json:"unattended"`
	Source     string `json:"source"` // as in WakeRule
}

// WakeRules is the result of wake.list, which has no params.
type WakeRules struct {
	Rules   []WakeRule        `json:"rules"`
	Answers []WakeAnswersRule `json:"answers"`
}

// ApprovalsCommand is the command that lists approvals. A warning of a daemon that names it is about them.
const ApprovalsCommand = "acpctl approvals"

// Approval is a message that waits for the owner's approval before it wakes a session, or that is
// approved and waits to wake the session. The inbox has the whole text, unless the message is a query
// or a delegation. A file that waits to be received is one too: it has no agent, its kind is file, and Text begins
// with its name and size.
type Approval struct {
	ID        string         `json:"id"`
	Agent     string         `json:"agent"` // the session
	Peer      identity.ID    `json:"peer"`
	Name      string         `json:"name"`
	Kind      string         `json:"kind"`
	Message   wire.MessageID `json:"message"`
	Text      string         `json:"text"` // the beginning of what it says, in one line of at most MaxBeginning bytes
	Since     time.Time      `json:"since"`
	Again     bool           `json:"again,omitzero"`   // it was held before the daemon's last start, so an answer to it is forgotten
	Approved  bool           `json:"approved"`         // the owner has approved it, and it waits for its turn
	KeptBy    string         `json:"kept_by,omitzero"` // the bound for which it waits although it is approved
	KeptUntil Time           `json:"kept_until"`       // when that has room at the earliest; null: no bound keeps it back
}

// Approvals is the result of approvals, which has no params.
type Approvals struct {
	Approvals []Approval `json:"approvals"`
}

// ApproveParams are the params of approvals.decide, whose result is the Approval.
type ApproveParams struct {
	ID     string `json:"id"`
	Answer string `json:"answer"` // yes; always: also all others of this peer and kind; no: also after a yes, while it waits; it declines a query or delegation
}

// Woken says how often a session was woken, and by whom.
type Woken struct {
	Hour       int       `json:"hour"` // turns in the last hour
	Day        int       `json:"day"`  // turns in the last 24 hours
	By         []WokenBy `json:"by"`   // the peer that woke it most first
	Waiting    int       `json:"waiting"`
	Approvals  int       `json:"approvals"`
	MutedUntil Time      `json:"muted_until"`      // null: it is not muted
	Refused    string    `json:"refused,omitzero"` // why its program was not given a message in the last minute
}

// WokenBy says how often one peer woke a session.
type WokenBy struct {
	Peer identity.ID `json:"peer"`
	Name string      `json:"name"`
	Hour int         `json:"hour"`
	Day  int         `json:"day"`

	UsedUpUntil Time `json:"used_up_until"` // until when its share of turns is used up, as a message of it has shown; null: it is not
}

// AgentState is a row of agents: an attached agent and, if it is a session, who woke it.
type AgentState struct {
	Agent
	Woken *Woken `json:"woken,omitzero"`
}

// Agents is the result of agents, which has no params.
type Agents struct {
	Agents []AgentState `json:"agents"`
}

// MaxMute bounds the time for which an agent can be muted.
const MaxMute = 30 * 24 * time.Hour

// MuteAgentParams are the params of agents.mute, whose result is Muted.
type MuteAgentParams struct {
	Name string `json:"name"`
	Secs uint64 `json:"secs"` // for how long nothing wakes it, at most MaxMute; 0: it may be woken again
}

// Muted is the result of agents.mute.
type Muted struct {
	Name  string `json:"name"`
	Until Time   `json:"until"` // null: it is not muted
}

// MaxOwnerNotify bounds the time that the owner's command has.
const MaxOwnerNotify = 10 * time.Second

// OwnerNotifyParams are the params of wake.notify, whose result is OwnerNotify.
type OwnerNotifyParams struct {
	Set     bool     `json:"set,omitzero"`      // command is to be the command from now on
	Command []string `json:"command,omitempty"` // argument by argument, since no shell reads it; may be empty
	Test    bool     `json:"test,omitzero"`     // it is started, with test as ACP_EVENT
}

// OwnerNotify is the command that tells the owner what waits for him.
type OwnerNotify struct {
	Command []string `json:"command"`         // may be empty
	Source  string   `json:"source"`          // wake.yaml, which wake.notify writes, or config.yaml; "" without a command
	Failed  string   `json:"failed,omitzero"` // how it failed when it was tried; "" if it did not
}

// AllowWake lets messages of a peer wake sessions, and returns the rules for the peer
// now.
func (c *Client) AllowWake(ctx context.Context, p WakeAllowParams) (*WakeRules, error) {
	return callBounded[WakeRules](ctx, c, MethodWakeAllow, &p)
}

// WakeRules returns what may wake sessions, by wake.allow and by the settings.
func (c *Client) WakeRules(ctx context.Context) (*WakeRules, error) {
	return callBounded[WakeRules](ctx, c, MethodWakeList, nil)
}

// RevokeWake takes back what AllowWake gave.
func (c *Client) RevokeWake(ctx context.Context, p WakeRevokeParams) (*Revoked, error) {
	return callBounded[Revoked](ctx, c, MethodWakeRevoke, &p)
}

// SetWakeAnswers says whether answers to what sessions asked wake them.
func (c *Client) SetWakeAnswers(ctx context.Context, p WakeAnswersParams) (*WakeRules, error) {
	return callBounded[WakeRules](ctx, c, MethodWakeAnswers, &p)
}

// Approvals returns the messages that wait for the owner's approval, the oldest first.
func (c *Client) Approvals(ctx context.Context) ([]Approval, error) {
	r, err := callBounded[Approvals](ctx, c, MethodApprovals, nil)
	return r.Approvals, err
}

// Approve decides about a message that waits for the owner's approval.
func (c *Client) Approve(ctx context.Context, p ApproveParams) (*Approval, error) {
	return callBounded[Approval](ctx, c, MethodApprove, &p)
}

// Agents returns the attached agents, and who woke those that are sessions.
func (c *Client) Agents(ctx context.Context) ([]AgentState, error) {
	r, err := callBounded[Agents](ctx, c, MethodAgents, nil)
	return r.Agents, err
}

// TestWake wakes a session for its owner, and returns what its program did.
func (c *Client) TestWake(ctx context.Context, p WakeTestParams) (*WakeTested, error) {
	return callBounded[WakeTested](ctx, c, MethodWakeTest, &p)
}

// NotifyOwner returns the command that tells the owner what waits for him, and sets or tries it before.
func (c *Client) NotifyOwner(ctx context.Context, p OwnerNotifyParams) (*OwnerNotify, error) {
	limit := c.Patience
	if p.Test && limit > 0 {
		limit += MaxOwnerNotify
	}
	return callWithin[OwnerNotify](ctx, c, limit, MethodWakeNotify, &p)
}

// MuteAgent keeps anything from waking an agent for a time.
func (c *Client) MuteAgent(ctx context.Context, p MuteAgentParams) (*Muted, error) {
	return callBounded[Muted](ctx, c, MethodMuteAgent, &p)
}
