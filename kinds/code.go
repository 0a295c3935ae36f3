package kinds

import "slices"

// Code names what went wrong. Envelopes, receipts, the local API and the commands'
// output use the same codes.
type Code string

// The codes (protocol, section 5).
const (
	NotAuthorized       Code = "not_authorized"
	UnknownDomain       Code = "unknown_domain"
	UnknownKind         Code = "unknown_kind"
	Invalid             Code = "invalid"
	TooLarge            Code = "too_large"
	NoAgent             Code = "no_agent"
	Overloaded          Code = "overloaded"
	Timeout             Code = "timeout"
	Cancelled           Code = "cancelled"
	NotFound            Code = "not_found"
	LoopDetected        Code = "loop_detected"
	IncompatibleVersion Code = "incompatible_version"
	Internal            Code = "internal"

	Unreachable       Code = "unreachable"
	DaemonUnavailable Code = "daemon_unavailable"
	UnknownPeer       Code = "unknown_peer"
	NotTrusted        Code = "not_trusted"
	IdentityConflict  Code = "identity_conflict"
	Kept              Code = "kept"
)

// How to attach an agent: the remedies of [NoAgent].
const (
	RemedyNoSession = "start a program that acpctl setup has connected"
	RemedyNoAgent   = RemedyNoSession + ", or acpctl serve"
)

// CodeInfo is a row of the code table.
type CodeInfo struct {
	Code      Code
	Retryable bool   // the same call may succeed later
	Local     bool   // raised only by the own daemon or client, never sent to a peer
	Exit      int    // exit code of a command that ends with it
	Raised    string // when
}

var codeTable = [...]CodeInfo{
	{NotAuthorized, false, false, 4, "policy forbids it, or from or to is not the connection's"},
	{UnknownDomain, false, false, 7, "every attached agent declared domains and none matches; details.domains lists them"},
	{UnknownKind, false, false, 7, "the receiver does not know the kind"},
	{Invalid, false, false, 7, "malformed envelope or payload; the message names the field"},
	{TooLarge, false, false, 7, "the encoded envelope is over max_message; no daemon cuts a message. An agent may cut what it answers, as `acpctl serve` does with what its command prints, and then says so: `truncated: true`"},
	{NoAgent, true, false, 5, "no agent is attached that could answer"},
	{Overloaded, true, false, 7, "a task or rate limit is reached, or a table is full; see retry_after_ms"},
	{Timeout, true, false, 3, "the deadline passed"},
	{Cancelled, false, false, 7, "the caller gave up, or the task was cancelled"},
	{NotFound, false, false, 7, "ref names nothing that this peer may refer to"},
	{LoopDetected, false, false, 7, "the chain of messages is longer than 16"},
	{IncompatibleVersion, false, false, 7, "no common version of the protocol"},
	{Internal, false, false, 7, "the receiver failed"},
	{Unreachable, true, true, 5, "no answer from the peer; details.delivered is no or unknown"},
	{DaemonUnavailable, true, true, 6, "no daemon answers on the socket"},
	{UnknownPeer, false, true, 5, "no peer has that name or id, or several have it"},
	{NotTrusted, false, true, 4, "the peer does not trust this daemon"},
	{IdentityConflict, false, true, 5, "another process shows the same identity, or a peer another key"},
	{Kept, false, true, 8, "the message did not arrive, and this daemon keeps it as the caller wanted; details.kept says until when"},
}

// ListCodes returns the code table.
func ListCodes() []CodeInfo { return append([]CodeInfo(nil), codeTable[:]...) }

// Info returns the code's row. An unknown code reads as neither retryable nor
// local, with exit code 7.
func (c Code) Info() CodeInfo {
	for i := range codeTable {
		if codeTable[i].Code == c {
			return codeTable[i]
		}
	}
	return CodeInfo{Code: c, Exit: 7}
}

// IsKnown reports whether the code is of the table.
func (c Code) IsKnown() bool { return c.Info().Raised != "" }

// outcomes are used instead of a code for a message that has not failed. A peer's code is never one
// of them.
var outcomes = []Code{"ok", "handed", "held", "sent", "replaced", "accepted", "refused", "completed"}

func (c Code) isOutcome() bool { return slices.Contains(outcomes, c) }

// isWord reports whether the code has the form that a peer's may have: up to 64 small letters,
// digits and underlines. Codes are shown with other text, in lines that people and models read.
func (c Code) isWord() bool {
	for i := range len(c) {
		if b := c[i]; b != '_' && (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			return false
		}
	}
	return c != "" && len(c) <= 64
}
