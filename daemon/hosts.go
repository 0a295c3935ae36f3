package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// An intent lives at its host. Agents of other machines talk to their own daemon,
// their home, which passes on what concerns a remote intent: each request on a
// stream of its own, in HTTP/1.1 (protocol, section 4, stream type 0x04).

// policyChannel is what a policy calls the requests about channels that a peer
// passes on.
const policyChannel = "channel"

const (
	gatherTime  = 2 * time.Second // for all hosts to give a list
	maxGathered = 4 << 20         // bytes of the list of one

	// Of the 64 streams to a host these may be for asks and lists, which wait: the
	// others are for what they wait for.
	maxWaiting = 48
)

// Headers of what a home passes on.
const (
	headerAgent   = "X-Agent-ID"
	headerKey     = "Idempotency-Key"
	headerMessage = "X-Message-ID" // the id of the message that is sent
)

// forward passes a request of a local agent on to the daemon that hosts the intent.
func (d *Daemon) forward(p openintent.Parcel, w http.ResponseWriter, r *http.Request) {
	to, ok := d.hostOf(p.Host)
	if !ok {
		noHost(p.Host).Answer(w)
		return
	}
	who := p.Caller
	if p.MessageID != "" {
		err := d.channels.parcels.take(r.Context(), &parcel{
			id: p.MessageID, host: to.ID, agent: who.Agent, key: r.Header.Get(headerKey), path: r.URL.EscapedPath(), body: p.Body, answer: p.Pending,
		}, w)
		if err != nil {
			d.noAnswer(w, to, err)
		}
		return
	}
	// A message that waits here is not there yet.
	if id := path.Base(r.URL.Path); r.Method == http.MethodGet && d.isHere(id) {
		if status, answer, err := d.channels.parcels.find(r.Context(), id, who.Agent); err == nil && status != 0 {
			answerWith(w, status, answer)
			return
		}
	}
	if !who.Operator {
		if err := d.channels.records.introduce(r.Context(), to.ID, who.Agent); err != nil {
			d.noAnswer(w, to, err)
			return
		}
	}
	if last := path.Base(r.URL.Path); last == "ask" || last == "messages" {
		leave, err := d.channels.waiting.enter(to)
		if err != nil {
			d.noAnswer(w, to, err)
			return
		}
		defer leave()
	}
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
		Transport: hostTransport{d, to}, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { d.noAnswer(w, to, err) },
	}).ServeHTTP(w, r)
}

// waiting counts the requests at each host whose answer may take its time.
type waiting struct {
	mu   sync.Mutex
	open map[identity.ID]int // guarded by mu
}

func (q *waiting) enter(to identity.Peer) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[to.ID] >= maxWaiting {
		return nil, kinds.Errorf(kinds.Overloaded, "%d asks and lists wait there already: try again when one has ended", maxWaiting).WithDelivered(kinds.DeliveredNo)
	}
	q.open[to.ID]++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.open[to.ID]--; q.open[to.ID] == 0 {
			delete(q.open, to.ID)
		}
	}, nil
}

// sendParcel makes the request that sends a message.
func (d *Daemon) sendParcel(ctx context.Context, p *parcel) (*http.Response, error) {
	to, ok := d.trust.Get(p.host)
	if !ok {
		return nil, kinds.Errorf(kinds.NotTrusted, "%s is not trusted here any more", p.host.Label())
	}
	if err := d.channels.records.introduce(ctx, p.host, p.agent); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://acpd"+p.path, bytes.NewReader(p.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(headerAgent, p.agent)
	r.Header.Set(headerMessage, p.id)
	if p.key != "" {
		r.Header.Set(headerKey, p.key)
	}
	return hostTransport{d, to}.RoundTrip(r)
}

// isHere reports whether an id was made by this daemon.
func (d *Daemon) isHere(id string) bool {
	host, ok := openintent.HostOf(id)
	return ok && strings.HasPrefix(d.id.String(), host)
}

// hostOf finds the trusted peer that made ids with the given digits.
func (d *Daemon) hostOf(digits string) (identity.Peer, bool) {
	for _, p := range d.trust.Peers() {
		if strings.HasPrefix(p.ID.String(), digits) {
			return p, true
		}
	}
	return identity.Peer{}, false
}

// hosts returns the peers in reach that offer channels.
func (d *Daemon) hosts() (all []identity.ID) {
	for _, p := range d.node.Peers() {
		if slices.Contains(p.Features, policyChannel) {
			all = append(all, p.ID)
		}
	}
	return all
}

// gather asks all hosts in reach for a list that an agent here wants.
func (d *Daemon) gather(ctx context.Context, who openintent.Caller, path string) map[string][]byte {
	ctx, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	var (
		mu   sync.Mutex
		all  = make(map[string][]byte)
		asks sync.WaitGroup
	)
	for _, id := range d.hosts() {
		asks.Go(func() {
			answer, err := d.list(ctx, id, who.Agent, path)
			if err != nil {
				d.log.Debug("a host gave no list", "host", id.Label(), "path", path, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all[id.String()] = answer
		})
	}
	asks.Wait()
	return all
}

func (d *Daemon) list(ctx context.Context, host identity.ID, agent, path string) ([]byte, error) {
	to, ok := d.trust.Get(host)
	if !ok {
		return nil, errUntrusted
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://acpd/api/v1/"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(headerAgent, agent)
	answer, err := hostTransport{d, to}.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxGathered+1))
	if len(body) > maxGathered {
		return nil, errors.New("the list is too long")
	}
	return body, err
}

func noHost(digits string) *openintent.Error {
	return &openintent.Error{Status: http.StatusNotFound, Code: "unknown_host", Message: "the intent lives on the daemon " + digits +
		"…, which is not trusted here: acpctl peers lists those that are, acpctl trust lets one in"}
}

// noAnswer answers an agent whose request did not reach the host, or may not have.
func (d *Daemon) noAnswer(w http.ResponseWriter, to identity.Peer, err error) {
	if own, ok := errors.AsType[*openintent.Error](err); ok {
		own.Answer(w)
		return
	}
	e := kinds.AsError(err)
	answer := &openintent.Error{Status: http.StatusBadGateway, Code: "host_unreachable", Message: to.Name + " hosts the intent: " + e.Message, More: map[string]any{"delivered": e.Delivered()}}
	switch {
	case e.Code == kinds.Internal && e.From == "":
		answer.Message, answer.More = to.Name+" hosts the intent and did not answer to the end: what was asked of it may be done; look, then try again",
			map[string]any{"delivered": kinds.DeliveredUnknown}
	case e.Code == kinds.Overloaded:
		answer.Status, answer.Code = http.StatusServiceUnavailable, string(e.Code)
		w.Header().Set("Retry-After", "1")
	}
	answer.Answer(w)
}

// hostTransport makes requests to a peer.
type hostTransport struct {
	daemon *Daemon
	to     identity.Peer
}

// RoundTrip implements [http.RoundTripper].
func (t hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s, err := t.daemon.node.OpenStream(r.Context(), t.to.ID, wire.StreamHTTP)
	if err != nil {
		return nil, err
	}
	// A host that has answered need not have read all of the request.
	unsaid := errors.Join(r.Write(s), s.CloseWrite())
	answer, err := readAnswer(s, r)
	if err != nil {
		s.Cancel()
		return nil, errors.Join(err, unsaid)
	}
	answer.Body = streamBody{answer.Body, s}
	return answer, nil
}

// readAnswer reads the head of an answer, which is bounded; its body is not.
func readAnswer(s io.Reader, r *http.Request) (*http.Response, error) {
	head := &io.LimitedReader{R: s, N: maxHeader}
	lines := bufio.NewReader(head)
	answer, err := http.ReadResponse(lines, r)
	for err == nil && answer.StatusCode < 200 && answer.StatusCode != http.StatusSwitchingProtocols {
		answer, err = http.ReadResponse(lines, r) // that was not yet the answer
	}
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return nil, errors.New("the host wants to go on with another protocol")
	}
	head.N = math.MaxInt64
	return answer, nil
}

// streamBody is a body that ends its stream.
type streamBody struct {
	io.ReadCloser
	s *peer.Stream
}

func (b streamBody) Close() error { return b.s.Close() }
