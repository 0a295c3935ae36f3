package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// apiPath returns the path of a request: the parts, escaped, below the prefix of the API.
func apiPath(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/api/v1/" + strings.Join(parts, "/")
}

// call makes a request and returns the JSON of the answer, on one line. body is sent as JSON
// unless it is nil. The error of a refusal is a *kinds.Error.
func (c *verbs) call(ctx context.Context, method, path string, body any) (jsontext.Value, error) {
	return c.callOnce(ctx, method, path, body, "")
}

// callOnce does as call. The daemon carries out requests with the same key once; "" is no key.
func (c *verbs) callOnce(ctx context.Context, method, path string, body any, key string) (jsontext.Value, error) {
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
	switch agent := c.callingAgent(); {
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
		return nil, noAnswerError(ctx, method, err, sent.Load())
	}
	defer answer.Body.Close()
	const longest = 64 << 20 // of a list
	v, err := io.ReadAll(io.LimitReader(limitToPortion(ctx, answer.Body), longest))
	host := answer.Header.Get("X-Answered-By")
	if err == errPortionUsedUp {
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
		return nil, noAnswerError(ctx, method, err, true)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, refusalError(host, method, answer.StatusCode, v)
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

// get makes a GET request and decodes the answer into out.
func (c *verbs) get(ctx context.Context, path string, out any) error {
	v, err := c.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(v, out); err != nil {
		return fmt.Errorf("read the daemon's answer: %w", err)
	}
	return nil
}

// noAnswerError returns the error of a request that got no answer. If sent, the daemon may
// have received some of it, even if a later connection failed.
func noAnswerError(ctx context.Context, method string, err error, sent bool) error {
	e, ok := errors.AsType[*kinds.Error](context.Cause(ctx))
	if !ok && sent {
		e, ok = errors.AsType[*kinds.Error](err)
	}
	// The cause is why the daemon did not answer whether it lives: it may have the request.
	if ok {
		return withDeliveryUnknown(method, e)
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
	return withDeliveryUnknown(method, kinds.Errorf(kinds.DaemonUnavailable, "the daemon hung up before it answered (%v): see whether it runs, then try again", err))
}

// withDeliveryUnknown returns e as the error of a request that the daemon may have received.
func withDeliveryUnknown(method string, e *kinds.Error) error {
	if method == http.MethodGet {
		return e
	}
	copied := *e
	return copied.WithDelivered(kinds.DeliveredUnknown)
}

// refusalError returns the error that an answer stands for: of the machine host, or of the own
// daemon if host is "". The answer's own code goes into the details. A host's answer never
// gets a code that only this machine can know of, and never says that nothing was delivered.
func refusalError(host, method string, status int, body []byte) error {
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
	message, ownWords := flagOfField(said.Message), false
	switch {
	case status == http.StatusServiceUnavailable && said.Code == string(kinds.Overloaded):
		code = kinds.Overloaded
	case host != "" && status == http.StatusServiceUnavailable:
		code, ownWords = kinds.Unreachable, true
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
	if !ownWords {
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

// describeError returns the message of an error, with the name of the machine that raised it.
func (c *verbs) describeError(ctx context.Context, e *kinds.Error) string {
	if e.From != "" {
		return c.PetnameOf(ctx, e.From) + " says: " + e.Message
	}
	return e.Message
}

// flagOfField replaces the header or field that a message begins with by its name on the
// command line.
func flagOfField(message string) string {
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
