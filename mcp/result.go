package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// result is what a tool returns: a text for the model, and the same for programs.
//
// Agent programs differ in which of the two they show to the model, so the structured result
// has the text too, and neither has peer text outside of it. The exact text of a message, with
// the characters that are removed for the model, is in _meta, which no model sees.
type result struct {
	Text string `json:"text,omitzero"` // for the model

	State   string         `json:"state,omitzero"` // what became of the call
	ID      wire.MessageID `json:"id,omitzero"`    // of the message that was sent, or is shown
	From    string         `json:"from,omitzero"`  // petname of the peer that answered
	Next    int            `json:"next,omitzero"`  // number of the page that follows
	Detail  any            `json:"detail,omitzero"`
	Error   *failure       `json:"error,omitzero"`
	Unread  *int           `json:"unread,omitzero"` // messages that wait for the session, at most 99
	Notices []string       `json:"notices,omitempty"`

	isList   bool // Detail says what Text does, and has no peer text
	payloads []exact
}

// exact is a message's payload as its sender wrote it.
type exact struct {
	ID      wire.MessageID `json:"id"`
	Payload wire.Payload   `json:"payload"`
}

// maxExact bounds the payloads in _meta of a result, in bytes.
const maxExact = 256 << 10

// failure is an error for the model.
type failure struct {
	Code         kinds.Code      `json:"code"`
	Message      string          `json:"message"`
	Remedy       string          `json:"remedy"`
	Retryable    bool            `json:"retryable"`
	RetryAfterMS uint64          `json:"retry_after_ms,omitzero"`
	Delivered    kinds.Delivered `json:"delivered,omitzero"`
	From         string          `json:"from,omitzero"` // petname of the peer that raised it; its words are in text
}

// metaExact is the key of the payloads in _meta.
const metaExact = "acpd/exact"

// encode makes the result of a tool call.
func (r *result) encode() *sdk.CallToolResult {
	shown := *r
	if shown.isList {
		shown.Text = ""
	}
	structured, err := json.Marshal(&shown, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		structured = jsontext.Value(`{}`)
	}
	out := &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: r.Text}}, StructuredContent: jsontext.Value(structured), IsError: r.Error != nil,
	}
	size := 0
	var usable []exact // an older daemon has taken others, for which a program refuses the whole line
	for _, p := range r.payloads {
		if jsonscan.FindUnusableNumber(p.Payload.Object()) == nil {
			usable = append(usable, p)
			size += len(p.Payload)
		}
	}
	if size > 0 && size <= maxExact {
		if text, err := json.Marshal(usable, jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)); err == nil {
			out.Meta = sdk.Meta{metaExact: jsontext.Value(text)}
		}
	}
	return out
}

// addOutlook adds what waits for the session, and what its owner should know. The daemon has a
// moment to say so; a session that is no agent has no messages of its own.
func (s *Server) addOutlook(ctx context.Context, r *result) {
	if err := s.agent.whyNotAttached(); err != nil && r.Error == nil {
		r.Notices = append(r.Notices, "This session is not attached, so others cannot reach it: "+client.Line(cutText(ownwords.Of(err), 300)))
	}
	open, unseen := s.requests.count()
	if s.isAgent() {
		ctx, cancel := context.WithTimeout(ctx, s.timing.lookAfter)
		defer cancel()
		if state, err := twice(ctx, s.Daemon.SessionState); err == nil {
			r.Unread = new(min(state.Unread+open, client.MaxUnread))
			unseen += state.Unread - state.Shown
			for _, line := range state.Notices {
				r.Notices = append(r.Notices, client.Line(cutText(line, 300)))
			}
		}
	}
	if ctx.Err() == nil { // else nobody gets the result
		r.Notices = append(s.notices.take(), r.Notices...)
	}
	if r.Unread == nil && open > 0 {
		r.Unread = new(min(open, client.MaxUnread))
	}
	var lines []string
	switch {
	case r.Unread == nil || *r.Unread == 0:
	case unseen > 0:
		lines = append(lines, fmt.Sprintf("acp: %s: call acp_inbox.", countMessages(*r.Unread)))
	default:
		if open > 0 {
			lines = append(lines, "acp: "+countMessages(open)+" for your answer: call acp_reply.")
		}
		if read := *r.Unread - open; read > 0 {
			lines = append(lines, "acp: "+countMessages(read)+" in the inbox, already read, until you call acp_inbox with ack.")
		}
	}
	for _, n := range r.Notices {
		lines = append(lines, "acp: "+n)
	}
	if len(lines) > 0 {
		r.Text = strings.TrimRight(r.Text, "\n") + "\n\n" + strings.Join(lines, "\n")
	}
}

func countMessages(n int) string {
	switch {
	case n == 1:
		return "1 message waits"
	case n >= client.MaxUnread:
		return fmt.Sprintf("%d or more messages wait", client.MaxUnread)
	}
	return fmt.Sprintf("%d messages wait", n)
}

// isAgent reports whether the calls of this process are those of an agent, which has an inbox.
func (s *Server) isAgent() bool {
	return s.agent.currentName() != "" || s.Daemon.SpeakAs != client.SpeakParams{}
}

// remedies say what a model can do about an error.
var remedies = map[kinds.Code]string{
	kinds.NotAuthorized:       "It is not allowed, here or there. Do not try another way: tell your user.",
	kinds.UnknownDomain:       "Leave domain out, or take one that acp_peers shows.",
	kinds.UnknownKind:         "The agents there do not take this. acp_peers shows who does.",
	kinds.Invalid:             "Change the arguments and call again.",
	kinds.TooLarge:            "Say it in less, or in parts.",
	kinds.NoAgent:             "Nobody there can answer now. Try again later, or with keep, which sends it when somebody can.",
	kinds.Overloaded:          "Wait, then call again.",
	kinds.Timeout:             "Call again with a longer deadline_s, or use acp_delegate.",
	kinds.Cancelled:           "It has been given up. Call again if it is still wanted.",
	kinds.NotFound:            "Check the id. acp_task without id lists yours; acp_inbox shows what waits.",
	kinds.LoopDetected:        "This chain of messages is too long, so it ends here. Stop, and tell your user.",
	kinds.IncompatibleVersion: "One of the two daemons is too old. Tell your user.",
	kinds.Internal:            "The other side failed. Tell your user if it fails again.",
	kinds.Unreachable:         "Do what the message says, or tell your user. If the machine is off or away, try again later, or with keep, which sends it when it is back.",
	kinds.DaemonUnavailable:   "No daemon answers on this machine. Ask your user to type acpctl up, then call again.",
	kinds.UnknownPeer:         "acp_peers lists the peers. Only your user can add one.",
	kinds.NotTrusted:          "The other machine's owner has to trust this daemon first. Tell your user.",
	kinds.IdentityConflict:    "Two programs show one identity. Tell your user.",
	kinds.Kept:                "The daemon keeps it, and sends it later: acp_task shows it.",
}

// newFailedResult makes the result of a tool that failed. id is the message that was to be sent, or zero.
// again says which call repeats the message, or is "" if any call may. A peer's error is
// shown as a peer's text.
func (s *Server) newFailedResult(ctx context.Context, err error, id wire.MessageID, again string) *result {
	e, f := kinds.AsError(err), s.newFailure(ctx, err, again)
	r := &result{ID: id, Error: f}
	if e.From == "" {
		r.Text = fmt.Sprintf("%s: %s\n%s", f.Code, f.Message, f.Remedy)
		if e.Quoted != "" {
			r.Text += "\n" + client.RenderQuoted(e.Quoted)
		}
		return r
	}
	f.Message += "; its words are in text"
	who, name := s.names.find(ctx, s, e.From)
	shown := *e
	shown.From, shown.Details, shown.Quoted, shown.Message = "", nil, "", cutText(e.Message, 2000)
	r.Text = fmt.Sprintf("%s, from %s: %s\n%s", f.Code, name, f.Remedy, client.RenderPeerMessage(client.PeerMessage{
		Peer: name, ID: who, Kind: kinds.KindError, Message: id, Payload: kinds.EncodePayload(&shown), Answer: "It needs no answer.",
	}))
	return r
}

// newFailure describes an error for the model, without the words of a peer.
func (s *Server) newFailure(ctx context.Context, err error, again string) *failure {
	e := kinds.AsError(err)
	code := nameCode(e.Code)
	f := &failure{
		Code: code, Message: client.Line(cutText(e.Message, 500)), Remedy: cmp.Or(remedies[code], "Tell your user."),
		Retryable: e.Retryable, RetryAfterMS: e.RetryAfterMS, Delivered: e.Delivered(),
	}
	switch unknown := f.Delivered == kinds.DeliveredUnknown && again != ""; {
	case unknown && code == kinds.NoAgent:
		f.Remedy = "The agent there ended before it answered, and may have begun. When one is there again, call " + again + ", so that it takes effect once."
	case unknown:
		f.Remedy += " It may have arrived: call " + again + ", so that it takes effect once."
	}
	if f.RetryAfterMS > 0 {
		f.Remedy += fmt.Sprintf(" Wait %s.", (time.Duration(f.RetryAfterMS) * time.Millisecond).Round(time.Second/10))
	}
	if e.Reason() == kinds.ReasonParentEnded {
		f.Remedy = `Nobody waits for what it follows from. Only if your user still wants it, call again with about: "user".`
	}
	if guess, ok := errors.AsType[*guessError](err); ok {
		f.Remedy = guess.remedy
	}
	if e.From == "" {
		return f
	}
	_, f.From = s.names.find(ctx, s, e.From)
	f.Message = f.From + " refused it, or failed"
	if e.IsDeclined() {
		f.Message, f.Remedy = f.From+": the agent there declined", "The agent there declined: read why, and tell your user."
	}
	return f
}

// nameCode returns a code that may be shown outside of a cover. An unknown code of a peer could be any text
// of the peer's choice.
func nameCode(c kinds.Code) kinds.Code {
	if !c.IsKnown() {
		return kinds.Internal
	}
	return c
}

// cutText shortens s to at most n bytes, at a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
