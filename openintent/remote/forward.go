package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
)

// This daemon as the home of agents that have to do with intents elsewhere.

const (
	gatherTime  = 2 * time.Second  // for all hosts to give a list
	answerTime  = 20 * time.Second // for a host to begin with an answer, and between two parts of it
	wholeTime   = 2 * time.Minute  // for all of an answer, beyond what the request may wait
	askGrace    = 2 * time.Second  // for the answer to an ask, beyond its timeout
	maxGathered = 4 << 20          // bytes that are read of the list of one

	// maxWaiting bounds the asks and lists of messages among the 64 streams to a host. They
	// wait for messages, for which the other streams are.
	maxWaiting = 48
)

// Codes of answers about a host.
const (
	codeUnreachable = "host_unreachable"
	codeTimeout     = "host_timeout"
	codeNotTrusted  = "not_trusted" // the host does not trust this daemon, or is no longer trusted here
)

// forwardRequest passes a request of an agent here on to the daemon that hosts the intent.
func (g *Gateway) forwardRequest(p openintent.ForwardedRequest, w http.ResponseWriter, r *http.Request) {
	to, refusal := g.findHostByDigits(p.Host)
	if refusal != nil {
		refusal.WriteAnswer(w)
		return
	}
	if err := g.routeRequest(p, to.ID, w, r); err != nil {
		writeForwardError(w, to.Name, err)
	}
}

// routeRequest passes a request on to a host, or answers it from what waits here. If it returns an
// error, it has answered nothing.
func (g *Gateway) routeRequest(p openintent.ForwardedRequest, to identity.ID, w http.ResponseWriter, r *http.Request) error {
	ctx, who := r.Context(), p.Caller
	if p.MessageID != "" {
		return g.messages.sendOrQueue(ctx, &outgoingMessage{
			id: p.MessageID, host: to, agent: who.Agent, idempotencyKey: r.Header.Get(headerKey), path: r.URL.EscapedPath(), body: p.Body, answer: p.Pending, charge: p.Hold,
		}, w)
	}
	switch p.Class {
	case openintent.MessageListRequest:
		return g.forwardMessageList(p, to, w, r)
	case openintent.AskRequest:
		return g.proxyRequest(p, to, askGrace+p.Wait, w, r)
	case openintent.MessageRequest:
		// The host does not have a message that waits here, or was refused.
		id := path.Base(r.URL.Path)
		if maker, ok := object.HostOfID(id); ok && strings.HasPrefix(g.cfg.Self.String(), maker) {
			if message, err := g.messages.findAgentMessage(ctx, id, who.Agent); err == nil && message != nil {
				writeAnswer(w, http.StatusOK, message)
				return nil
			}
		}
	}
	return g.proxyRequest(p, to, answerTime+p.Wait, w, r)
}

// proxyRequest passes a request on to a host, which must begin with its answer in that time. If it
// returns an error, it has answered nothing.
func (g *Gateway) proxyRequest(p openintent.ForwardedRequest, to identity.ID, within time.Duration, w http.ResponseWriter, r *http.Request) error {
	ctx, who := r.Context(), p.Caller
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(within, func() { end(context.DeadlineExceeded) })
	defer silence.Stop()
	defer time.AfterFunc(within+wholeTime, func() { end(context.DeadlineExceeded) }).Stop()
	if p.Class == openintent.AskRequest || p.Class == openintent.MessageListRequest {
		leave, err := g.reserveWaitSlot(to)
		if err != nil {
			return err
		}
		defer leave()
	}
	var failed error
	(&httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host, out.Out.Host = "http", "acpd", "acpd"
			out.Out.Header.Del("X-API-Key") // a secret of this daemon and its agent
			out.Out.Header.Del(headerMessage)
			out.Out.Header.Del("Expect") // the body has come
			out.Out.Header.Del(headerAgent)
			if !who.Operator {
				out.Out.Header.Set(headerAgent, who.Agent)
			}
		},
		Transport: transport{g, to}, FlushInterval: -1, ErrorLog: g.server.ErrorLog,
		ModifyResponse: func(answer *http.Response) error {
			silence.Stop()
			if p.Class == openintent.MessageListRequest && answer.StatusCode == http.StatusServiceUnavailable {
				return kinds.Errorf(kinds.Unreachable, "it stops").WithDelivered(kinds.DeliveredUnknown)
			}
			answer.Body = idleBody{answer.Body, silence, answerTime}
			err := checkHostAnswer(answer, p, func(bytes int) error { return p.Hold(to.String(), bytes) })
			answer.Header.Set(headerHost, to.String())
			return err
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}).ServeHTTP(w, r.WithContext(ctx))
	err := toForwardError(ctx, failed, kinds.DeliveredUnknown)
	if code, away := codeIfOutOfReach(err); p.Class == openintent.AskRequest && away && code != codeTimeout && kinds.AsError(err).Delivered() != kinds.DeliveredNo {
		// The answer can come no more. To the agent that is a timeout.
		return kinds.Errorf(kinds.Timeout, "it was lost before it answered: what was asked may be done; list the responses when it is back").WithDelivered(kinds.DeliveredUnknown)
	}
	return err
}

// toForwardError returns why a request failed with err, which may be because ctx had no more time.
// delivered is what is known of the request if err does not say. If err is nil, so is the result.
func toForwardError(ctx context.Context, err error, delivered kinds.Delivered) error {
	if err == nil {
		return nil
	}
	e, said := errors.AsType[*kinds.Error](err)
	if said {
		delivered = cmp.Or(e.Delivered(), delivered)
	}
	late := context.Cause(ctx) == context.DeadlineExceeded
	switch {
	case late && delivered == kinds.DeliveredNo:
		return kinds.Errorf(kinds.Timeout, "it was not reached in time: try again").WithDelivered(delivered)
	case late:
		return kinds.Errorf(kinds.Timeout, "it gave no answer in time: what was asked may be done; look, then try again").WithDelivered(delivered)
	case !said && delivered == kinds.DeliveredNo:
		return kinds.Errorf(kinds.Unreachable, "it did not take to the end who asks: try again").WithDelivered(delivered)
	}
	return err
}

// reserveWaitSlot takes one of the maxWaiting places at a host; leave gives it back.
func (g *Gateway) reserveWaitSlot(host identity.ID) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waitingAt[host] >= maxWaiting {
		return nil, kinds.Errorf(kinds.Overloaded, "%d asks and lists wait there already: try again when one has ended", maxWaiting).WithDelivered(kinds.DeliveredNo)
	}
	g.waitingAt[host]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waitingAt[host]--
	}, nil
}

// findHostByDigits returns the trusted peer whose ids have these digits. It refuses if two peers have them,
// because somebody can make a key with the digits of another's.
func (g *Gateway) findHostByDigits(digits string) (host identity.Peer, refusal *api.Error) {
	for _, p := range g.cfg.Peers() {
		switch {
		case !strings.HasPrefix(p.ID.String(), digits):
		case host.ID == identity.ID{}:
			host = p
		default:
			return host, &api.Error{Status: http.StatusNotFound, Code: "ambiguous_host", Message: fmt.Sprintf(
				"the intent lives on the daemon %s…, and two that are trusted here have these digits, %s (%s) and %s (%s): acpctl untrust the one that does not host it",
				digits, host.Name, host.ID, p.Name, p.ID)}
		}
	}
	if (host.ID == identity.ID{}) {
		refusal = &api.Error{Status: http.StatusNotFound, Code: "unknown_host", Message: "the intent lives on the daemon " + digits +
			"…, which is not trusted here: acpctl peers lists those that are, acpctl trust lets one in"}
	}
	return host, refusal
}

// writeForwardError answers an agent whose request to a host has failed with err. host is its petname.
func writeForwardError(w http.ResponseWriter, host string, err error) {
	if api.WriteIfRefusal(w, err) {
		return
	}
	e := kinds.AsError(err)
	answer := &api.Error{Status: http.StatusBadGateway, Code: codeUnreachable, Message: host + " hosts the intent: " + e.OwnWords(), More: map[string]any{"delivered": e.Delivered()}}
	switch {
	case e.Code == kinds.Internal && e.From == "":
		answer.Message, answer.More = host+" hosts the intent and did not answer to the end: what was asked of it may be done; look, then try again",
			map[string]any{"delivered": kinds.DeliveredUnknown}
	case e.Code == kinds.Timeout:
		answer.Status, answer.Code = http.StatusGatewayTimeout, codeTimeout
	case e.Code == kinds.NotTrusted:
		answer.Status, answer.Code = http.StatusForbidden, codeNotTrusted
	case e.Code == kinds.Overloaded:
		answer.Status, answer.Code = http.StatusServiceUnavailable, string(e.Code)
		w.Header().Set("Retry-After", "1")
	}
	answer.WriteAnswer(w)
}

// gatherHostLists asks all hosts in reach at a time for a list that an agent here wants. A host is
// missing if its list is late or there is no room for it.
func (g *Gateway) gatherHostLists(ctx context.Context, who openintent.Caller, path string, room func(host string, bytes int) error) (lists map[string][]byte, missing []string) {
	ctx, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	lists = make(map[string][]byte)
	var (
		mu   sync.Mutex
		asks sync.WaitGroup
	)
	for _, id := range g.cfg.Hosts() {
		asks.Go(func() {
			host := id.String()
			status, list, err := g.fetchFromHost(ctx, maxGathered, func(bytes int) error { return room(host, bytes) }, id, who.Agent, http.MethodGet, apiPath+path, nil)
			if err == nil && status != http.StatusOK {
				err = ownwords.Errorf("it answered with status %d", status)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				g.log.Debug("a host gave no list", "host", id.Label(), "path", path, "err", err)
				missing = append(missing, host)
				return
			}
			lists[host] = list
		})
	}
	asks.Wait()
	return lists, missing
}

// meteredReader reads a body, and returns the error of room if there is no room for more.
type meteredReader struct {
	io.Reader
	room func(bytes int) error
}

func (r meteredReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 && r.room != nil {
		if full := r.room(n); full != nil {
			return 0, full
		}
	}
	return n, err
}
