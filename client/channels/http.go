package channels

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// Request is one request of the channels' API.
type Request struct {
	Method string
	URL    string // as [JoinURL] makes it, with a query if there is one
	Body   any    // sent as JSON; nil: none
	Key    string // the daemon carries out requests with the same key once; "": no key

	share *hostShare // of the answer's bytes; nil: none
}

// Answer holds the daemon's answer to a request.
type Answer struct {
	Text         jsontext.Value // its body
	MissingHosts []string       // ids of the daemons whose part of a list did not come in time
}

// decodeText decodes the answer's JSON into v.
func (a *Answer) decodeText(v any) error {
	if json.Unmarshal(a.Text, v) != nil { // whose error quotes the answer, which may be another machine's
		return ownwords.New("the answer has a form that this program does not know: update acpd, here and on the intent's machine")
	}
	return nil
}

// JoinURL returns the path of a request: the parts, escaped, below the prefix of the API.
func JoinURL(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/api/v1/" + strings.Join(parts, "/")
}

// httpClient returns the HTTP client, which the first call makes. It connects to the daemon's
// socket, whatever the URL.
func (c *Client) httpClient() *http.Client {
	c.once.Do(func() {
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return client.DialHTTP(ctx, c.Home)
		}}
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // no daemon redirects
	})
	return &c.http
}

// ErrNoOperator is the error of a request without an agent, if $ACP_SOCKET names the socket.
var ErrNoOperator = ownwords.New("say which agent you are: there is no operator on the socket that ACP_SOCKET names")

// Do makes a request and returns the answer. The error of a refusal is a *Refusal; any error
// that has a delivery is a *kinds.Error too.
func (c *Client) Do(ctx context.Context, request Request) (*Answer, error) {
	if c.Agent == "" && c.Home == "" {
		if _, asGuest, _ := client.AgentSocket(); asGuest {
			return nil, ErrNoOperator
		}
	}
	var text []byte
	if request.Body != nil {
		var err error
		if text, err = json.Marshal(request.Body, json.Deterministic(true)); err != nil {
			return nil, ownwords.New("write the request: it is not valid JSON in UTF-8")
		}
	}
	// The answer may take its time, because another machine or an agent gives it. If it is
	// not quick, the own daemon is asked meanwhile whether it lives.
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
	r, err := http.NewRequestWithContext(traced, request.Method, "http://acpd"+request.URL, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Agent == "" {
		r.Header.Set("X-Operator", "true")
	} else {
		r.Header.Set("X-Agent-ID", c.Agent)
		if c.Agent == c.Daemon.SpeakAs.Name {
			r.Header.Set("X-API-Key", c.Daemon.SpeakAs.Key)
		}
	}
	if request.Key != "" {
		r.Header.Set("Idempotency-Key", request.Key)
	}
	answer, err := c.httpClient().Do(r)
	if err != nil {
		return nil, newNoAnswerError(ctx, request.Method, err, sent.Load())
	}
	defer answer.Body.Close()
	const longest = 64 << 20 // of a list
	body := io.Reader(answer.Body)
	if request.share != nil {
		body = sharedReader{body, request.share}
	}
	v, err := io.ReadAll(io.LimitReader(body, longest))
	host := answer.Header.Get("X-Answered-By")
	if err == errShareUsedUp {
		return nil, err
	}
	if err != nil && host != "" && ctx.Err() == nil {
		e := kinds.Errorf(kinds.Unreachable, "the answer of the intent's machine broke off: try again")
		if request.Method != http.MethodGet {
			e = e.WithDelivered(kinds.DeliveredUnknown)
		}
		return nil, e
	}
	if err != nil {
		return nil, newNoAnswerError(ctx, request.Method, err, true)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, parseRefusal(host, request.Method, answer.StatusCode, v)
	}
	result := &Answer{Text: v}
	if missing := answer.Header.Get("X-Missing-Hosts"); missing != "" {
		result.MissingHosts = strings.Split(missing, ", ")
	}
	if answer.Header.Get("X-Incomplete") != "" {
		return nil, kinds.Errorf(kinds.Unreachable, "the intent's host is out of reach, and what it knows is not in this list: try again when it is back")
	}
	return result, nil
}

// newNoAnswerError returns the error of a request that got no answer. If sent, the daemon may
// have received some of it, even if a later connection failed.
func newNoAnswerError(ctx context.Context, method string, err error, sent bool) error {
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
