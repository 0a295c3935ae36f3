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
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
)

// This daemon as the home of agents that have to do with intents elsewhere.

const (
	gatherTime  = 2 * time.Second  // for all hosts to give a list
	answerTime  = 20 * time.Second // for a host to begin with an answer, and to go on with it
	wholeTime   = 2 * time.Minute  // for all of an answer, beyond what the request may wait: a host that says a little now and then has no more
	askGrace    = 2 * time.Second  // for the answer to an ask, beyond its timeout
	maxGathered = 4 << 20          // bytes of the list of one; of a longer one that much

	// Of the 64 streams to a host these may be for asks and lists, which wait: the
	// others are for what they wait for.
	maxWaiting = 48
)

// Codes of answers about a host.
const (
	codeUnreachable = "host_unreachable"
	codeTimeout     = "host_timeout"
	codeNotTrusted  = "not_trusted" // it does not trust this daemon, or is trusted here no more
)

// forwardRequest passes a request of an agent here on to the daemon that hosts the intent.
func (g *Gateway) forwardRequest(p openintent.Parcel, w http.ResponseWriter, r *http.Request) {
	to, refusal := g.findHost(p.Host)
	if refusal != nil {
		refusal.Answer(w)
		return
	}
	if err := g.routeRequest(p, to.ID, w, r); err != nil {
		answerFailure(w, to.Name, err)
	}
}

// routeRequest is forward to a host; with an error nothing was answered.
func (g *Gateway) routeRequest(p openintent.Parcel, to identity.ID, w http.ResponseWriter, r *http.Request) error {
	ctx, who, last := r.Context(), p.Caller, path.Base(r.URL.Path)
	if p.MessageID != "" {
		return g.messages.sendOrHold(ctx, &outgoingMessage{
			id: p.MessageID, host: to, agent: who.Agent, idempotencyKey: r.Header.Get(headerKey), path: r.URL.EscapedPath(), body: p.Body, answer: p.Pending, charge: p.Hold,
		}, w)
	}
	// A message that waits here is not there yet, and one that was refused never.
	if maker, ok := openintent.HostOf(last); ok && r.Method == http.MethodGet && strings.HasPrefix(g.cfg.Self.String(), maker) {
		if message, err := g.messages.findForAgent(ctx, last, who.Agent); err == nil && message != nil {
			writeAnswer(w, http.StatusOK, message)
			return nil
		}
	}
	switch last {
	case "messages":
		if r.Method == http.MethodGet {
			return g.listMessages(p, to, w, r)
		}
	case "ask":
		return g.proxyRequest(p, to, askGrace+p.Wait, w, r)
	}
	return g.proxyRequest(p, to, answerTime+p.Wait, w, r)
}

// proxyRequest passes a request on to a host, which has so long to begin with its answer.
func (g *Gateway) proxyRequest(p openintent.Parcel, to identity.ID, within time.Duration, w http.ResponseWriter, r *http.Request) error {
	ctx, who, last := r.Context(), p.Caller, path.Base(r.URL.Path)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(within, func() { end(context.DeadlineExceeded) })
	defer silence.Stop()
	defer time.AfterFunc(within+wholeTime, func() { end(context.DeadlineExceeded) }).Stop()
	if !who.Operator {
		if err := g.introductions.introduceAgent(ctx, to, who.Agent); err != nil {
			return describeFailure(ctx, err, kinds.DeliveredNo)
		}
	}
	if last == "ask" || last == "messages" {
		leave, err := g.takeWaitSlot(to)
		if err != nil {
			return err
		}
		defer leave()
	}
	var failed error
	(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "acpd", "acpd"
			p.Out.Header.Del("X-API-Key") // between this daemon and its agent
			p.Out.Header.Del(headerMessage)
			p.Out.Header.Del("Expect") // the body is here
			p.Out.Header.Del(headerAgent)
			if !who.Operator {
				p.Out.Header.Set(headerAgent, who.Agent)
			}
		},
		Transport: transport{g, to}, FlushInterval: -1, ErrorLog: g.server.ErrorLog,
		ModifyResponse: func(answer *http.Response) error {
			silence.Stop()
			if last == "messages" && r.Method == http.MethodGet && answer.StatusCode == http.StatusServiceUnavailable {
				return kinds.Errorf(kinds.Unreachable, "it stops").WithDelivered(kinds.DeliveredUnknown)
			}
			answer.Body = idleBody{answer.Body, silence, answerTime}
			err := checkAnswer(answer, p.Host, r.URL.Path, func(bytes int) error { return p.Hold(to.String(), bytes) })
			answer.Header.Set(headerHost, to.String())
			return err
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}).ServeHTTP(w, r.WithContext(ctx))
	err := describeFailure(ctx, failed, kinds.DeliveredUnknown)
	if code, away := awayCode(err); last == "ask" && away && code != codeTimeout && kinds.AsError(err).Delivered() != kinds.DeliveredNo {
		// Its answer can come no more: to its agent that is a timeout, and nothing is known of the request.
		return kinds.Errorf(kinds.Timeout, "it was lost before it answered: what was asked may be done; list the responses when it is back").WithDelivered(kinds.DeliveredUnknown)
	}
	return err
}

// describeFailure returns why a request failed with err, which may have been for lack of
// time; delivered is what is known where err does not say.
func describeFailure(ctx context.Context, err error, delivered kinds.Delivered) error {
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

// takeWaitSlot takes one of the places at a host for what waits there.
func (g *Gateway) takeWaitSlot(host identity.ID) (leave func(), err error) {
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

// findHost finds the trusted peer that made ids with the given digits. Where two could
// have, neither is asked: keys with the digits of another's can be made.
func (g *Gateway) findHost(digits string) (host identity.Peer, refusal *api.Error) {
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

// answerFailure answers an agent whose request did not reach the host, or may not have.
func answerFailure(w http.ResponseWriter, host string, err error) {
	if api.AnswerError(w, err) {
		return
	}
	e := kinds.AsError(err)
	answer := &api.Error{Status: http.StatusBadGateway, Code: codeUnreachable, Message: host + " hosts the intent: " + e.Message, More: map[string]any{"delivered": e.Delivered()}}
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
	answer.Answer(w)
}

// gatherLists asks all hosts in reach, at a time, for a list that an agent here wants. What of a
// list has no room, and a list that is late, is not waited for: its host is missing then.
func (g *Gateway) gatherLists(ctx context.Context, who openintent.Caller, path string, room func(host string, bytes int) error) (lists map[string][]byte, missing []string) {
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
			list, err := g.readList(ctx, id, who.Agent, path, func(bytes int) error { return room(host, bytes) })
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

// readList reads the list of one host, as long as there is room for it.
func (g *Gateway) readList(ctx context.Context, host identity.ID, agent, path string, room func(bytes int) error) ([]byte, error) {
	answer, err := g.sendRequest(ctx, host, agent, http.MethodGet, apiPath+path, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(meteredReader{answer.Body, room}, maxGathered))
}

// meteredReader is a body that fails where there is no room for more.
type meteredReader struct {
	io.Reader
	room func(bytes int) error
}

func (r meteredReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		if full := r.room(n); full != nil {
			return 0, full
		}
	}
	return n, err
}
