// Package channel is the verbs of acpctl channel. They speak HTTP with the daemon, as the
// programs do that take part in channels.
package channel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// channels is what the verbs share.
type channels struct {
	*frame.Frame
	agent    string        // --as
	patience time.Duration // with other machines that list their channels, all together
	http     http.Client
	names    map[identity.ID]string // of daemons; nil until they are needed
	self     identity.ID            // this daemon's; known with names

	titles map[string]string // of the intents that were listed, by their ids

	mu      sync.Mutex // guards missing
	missing []string   // the ids of machines that gave no list in time
}

// New returns the command channel with its verbs.
func New(f *frame.Frame) *cobra.Command { return newCommand(f, listPatience) }

// newCommand is New with another time for other machines to list their channels.
func newCommand(f *frame.Frame, patience time.Duration) *cobra.Command {
	c := &channels{Frame: f, patience: patience}
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return client.DialHTTP(ctx, f.Home)
	}}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // no daemon redirects
	cmd := &cobra.Command{
		Use:   "channel",
		Short: "Channels of OpenIntent: agents that work on one intent talk there",
		Example: `  acpctl channel create questions --title 'Research Q1'
  acpctl channel ask questions reviewer 'Which schema?'
  acpctl channel tail questions -f --as reviewer
  acpctl channel reply questions MESSAGE 'v2.3' --as reviewer
  acpctl channel send questions 'Half done.'
  acpctl channel close questions`,
		Long: `Channels belong to an intent, on this machine or another. CHANNEL is a channel's id, or
INTENT/NAME, or a name that only one open channel has. TEXT is sent as {"text": TEXT};
--payload sends any other JSON object.

An agent of another machine than the intent's is AGENT@PEER, with the name that the peer
has here, or AGENT@ and its 64 digits; one of this machine is AGENT@here there.

--as says which agent you are (default $ACP_AGENT). Without it you are the operator of
this machine's daemon, who sees and manages everything that is here, but not where
ACP_SOCKET is set.`,
	}
	frame.NeedVerb(cmd)
	cmd.PersistentFlags().StringVar(&c.agent, "as", "", "the agent that you are (default $ACP_AGENT, else the operator)")
	cmd.RegisterFlagCompletionFunc("as", ofFlag(c.completeAgents))
	cmd.AddCommand(
		c.listCmd(), c.createCmd(), c.showCmd(), c.sendCmd(), c.askCmd(), c.replyCmd(),
		c.tailCmd(), c.unsentCmd(), c.closeCmd(), c.homesCmd(),
	)
	for _, verb := range cmd.Commands() {
		run := verb.RunE
		verb.RunE = func(cmd *cobra.Command, args []string) error {
			if err := frame.RefuseEmpty(cmd, args); err != nil {
				return err
			}
			return misspelt(cmd, args, run(cmd, args))
		}
	}
	return cmd
}

// speaker is the agent that calls, "" for the operator.
func (c *channels) speaker() string { return cmp.Or(c.agent, os.Getenv("ACP_AGENT")) }

// path joins the parts of a URL below the API's prefix.
func path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/api/v1/" + strings.Join(parts, "/")
}

// call makes a request, with the JSON of body unless it is nil, and returns the
// answer's JSON, on one line. A refusal is a *kinds.Error.
func (c *channels) call(ctx context.Context, method, path string, body any) (jsontext.Value, error) {
	return c.request(ctx, method, path, body, "")
}

// request is call for a message that is sent once, however often it is repeated with
// the same key; "" is none.
func (c *channels) request(ctx context.Context, method, path string, body any, key string) (jsontext.Value, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
	}
	// The answer may have to come from another machine, or from an agent, and take its
	// time; where it is not quick, the own daemon is asked beside it whether it lives.
	const quick = 200 * time.Millisecond
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer time.AfterFunc(quick, func() {
		if _, err := c.Daemon.Whoami(ctx); err != nil {
			end(err)
		}
	}).Stop()
	// A request with a key is sent again on another connection when its own breaks.
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	r, err := http.NewRequestWithContext(traced, method, "http://acpd"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	switch agent := c.speaker(); {
	case agent == "" && c.AsGuest:
		return nil, frame.Usagef("--as: say which agent you are: there is no operator on the socket that ACP_SOCKET names")
	case agent == "":
		r.Header.Set("X-Operator", "true")
	default:
		r.Header.Set("X-Agent-ID", agent)
		if agent == c.Daemon.As.Name {
			r.Header.Set("X-API-Key", c.Daemon.As.Key)
		}
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, lost(ctx, method, err, sent.Load())
	}
	defer answer.Body.Close()
	const longest = 64 << 20 // of a list
	v, err := io.ReadAll(io.LimitReader(portionOf(ctx, answer.Body), longest))
	host := answer.Header.Get("X-Answered-By")
	if err == errPortion {
		return nil, err
	}
	if err != nil && host != "" && ctx.Err() == nil {
		e := kinds.Errorf(kinds.Unreachable, "the answer of the intent's machine broke off: try again")
		if method != http.MethodGet {
			e = e.WithDelivered(kinds.DeliveredUnknown)
		}
		return nil, e
	}
	if err != nil {
		return nil, lost(ctx, method, err, true)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, refused(host, method, answer.StatusCode, v)
	}
	if missing := answer.Header.Get("X-Missing-Hosts"); missing != "" {
		c.mu.Lock()
		c.missing = append(c.missing, strings.Split(missing, ", ")...)
		c.mu.Unlock()
	}
	if answer.Header.Get("X-Incomplete") != "" {
		return nil, kinds.Errorf(kinds.Unreachable, "the intent's host is out of reach, and what it knows is not in this list: try again when it is back")
	}
	return v, nil
}

// lost is the error of a request that got no answer. sent says that something of it may have
// reached the daemon: a later connection that fails does not make it undelivered.
func lost(ctx context.Context, method string, err error, sent bool) error {
	e, ok := errors.AsType[*kinds.Error](context.Cause(ctx))
	if !ok && sent {
		e, ok = errors.AsType[*kinds.Error](err)
	}
	// The cause is why the daemon did not answer whether it lives: it may have the request.
	if ok {
		return unsure(method, e)
	}
	if _, ok := errors.AsType[*kinds.Error](err); ok || ctx.Err() != nil {
		return err
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return unsure(method, kinds.Errorf(kinds.DaemonUnavailable, "the daemon hung up before it answered (%v): see whether it runs, then try again", err))
}

// unsure returns e as the error of a request that may have reached the daemon.
func unsure(method string, e *kinds.Error) error {
	if method == http.MethodGet {
		return e
	}
	copied := *e
	return copied.WithDelivered(kinds.DeliveredUnknown)
}

// refused is what the answer to a request says that failed: that of the machine host, or
// of the own daemon where host is empty. Its own word for that is in the details. What a
// host says never gets a code that only this machine can know of, nor does it say here that
// nothing was delivered.
func refused(host, method string, status int, body []byte) error {
	var said struct {
		Code      string         `json:"error"`
		Message   string         `json:"message"`
		Delivered jsontext.Value `json:"delivered"` // a host may say anything
	}
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		e := kinds.Errorf(kinds.Internal, "answers %d %s: try again later", status, http.StatusText(status))
		if e.From = host; host == "" {
			e.Message = "the daemon " + e.Message
		}
		return e
	}
	code, ok := map[int]kinds.Code{
		http.StatusUnauthorized:          kinds.NotAuthorized,
		http.StatusForbidden:             kinds.NotAuthorized,
		http.StatusNotFound:              kinds.NotFound,
		http.StatusRequestEntityTooLarge: kinds.TooLarge,
		http.StatusTooManyRequests:       kinds.Overloaded,
		http.StatusInternalServerError:   kinds.Internal,
		http.StatusBadGateway:            kinds.Unreachable,
		http.StatusInsufficientStorage:   kinds.Overloaded,
		http.StatusServiceUnavailable:    kinds.DaemonUnavailable,
		http.StatusGatewayTimeout:        kinds.Timeout,
	}[status]
	if !ok {
		code = kinds.Invalid
	}
	message, stops := asFlag(said.Message), false
	switch {
	case status == http.StatusServiceUnavailable && said.Code == string(kinds.Overloaded):
		code = kinds.Overloaded
	case host != "" && status == http.StatusServiceUnavailable:
		code, stops = kinds.Unreachable, true
		message = "the intent's machine takes nothing now, try again later: it says: " + message
	case host != "" && code == kinds.Unreachable:
		code = kinds.Internal
	case host != "":
	case said.Code == "unknown_host":
		code = kinds.UnknownPeer
	case said.Code == "not_trusted":
		code = kinds.NotTrusted
	}
	e := kinds.Errorf(code, "%s", message)
	if !stops {
		e.From = host
	}
	delivered := kinds.Delivered("")
	switch d := string(said.Delivered); {
	case method == http.MethodGet:
	case d == `"unknown"`:
		delivered = kinds.DeliveredUnknown
	case d == `"no"` && host == "":
		delivered = kinds.DeliveredNo
	}
	e.Details = jsontext.Value(kinds.Encode(struct {
		Error     string          `json:"error"`
		Status    int             `json:"status"`
		Delivered kinds.Delivered `json:"delivered,omitzero"`
	}{said.Code, status, delivered}))
	if host != "" && code == kinds.NotFound {
		return frame.WithHint(e, "an open intent there is open to agents of this machine where its owner names it in channels.open_to, any intent where they are granted access with their home")
	}
	return e
}

// saying is the message of an error, with the name of the machine that raised it.
func (c *channels) saying(ctx context.Context, e *kinds.Error) string {
	if e.From != "" {
		return c.Frame.PetnameOf(ctx, e.From) + " says: " + e.Message
	}
	return e.Message
}

// asFlag gives the header or field that an error begins with its name on the command line.
func asFlag(message string) string {
	for _, names := range [][2]string{
		{"X-Agent-ID: ", "--as: "}, {"Idempotency-Key: ", "--key: "}, {"members: ", "--member: "}, {"name: ", "NAME: "}, {"correlation_id: ", "MESSAGE: "}, {"min_responses: ", "--min: "},
		{"expires_at: ", "--expires: "}, {"task_id: ", "--task: "}, {"options: max_messages: ", "--keep: "}, {"options: ttl_seconds: ", "--ttl: "},
	} {
		if rest, ok := strings.CutPrefix(message, names[0]); ok {
			return names[1] + rest
		}
	}
	return message
}

// read makes a request as call does and decodes the answer into out.
func (c *channels) read(ctx context.Context, path string, out any) error {
	v, err := c.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(v, out); err != nil {
		return fmt.Errorf("read the daemon's answer: %w", err)
	}
	return nil
}

// speak is what send, ask and reply have in common: their last argument is what
// they say, unless --payload does.
type speak struct{ payload string }

func (s *speak) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.payload, "payload", "", "a JSON object, @file or -, instead of TEXT")
}

func (s *speak) args(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if s.payload == "" {
			return frame.NamedArgs(append(names[:len(names):len(names)], "TEXT")...)(nil, args)
		}
		if len(args) > len(names) {
			return errors.New("--payload stands instead of TEXT: leave one of them out")
		}
		return frame.NamedArgs(names...)(nil, args)
	}
}

// object is the payload.
func (s *speak) object(ctx context.Context, a *frame.Frame, args []string) (jsontext.Value, error) {
	if s.payload != "" {
		return a.ReadObject(ctx, "--payload", s.payload)
	}
	text, err := a.ReadArgument(ctx, "TEXT", args[len(args)-1])
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"text": text})
}

// wording is what a payload says: the text of one that has nothing else.
func wording(payload jsontext.Value) string {
	var said map[string]any
	if json.Unmarshal(payload, &said) == nil && len(said) == 1 {
		if text, ok := said["text"].(string); ok {
			return text
		}
	}
	return string(payload)
}
