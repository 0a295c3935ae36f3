package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
)

const (
	apiPath   = "/api/v1/"
	maxHeader = 32 << 10 // bytes of the head of a request, and of an answer
)

// Headers of the requests that a home passes on.
const (
	headerAgent   = "X-Agent-ID"
	headerKey     = "Idempotency-Key"
	headerMessage = "X-Message-ID" // the id of the message that is sent
)

// errUntrusted says that a host is no longer trusted.
var errUntrusted = kinds.Errorf(kinds.NotTrusted, "it is not trusted here any more")

// errConnectionLeaves says that a stream ended after its connection began to take no more streams.
var errConnectionLeaves = ownwords.New("the connection takes no more streams")

// checkConnection returns errConnectionLeaves if the connection of s takes no more streams.
func checkConnection(s Stream) error {
	select {
	case <-s.Leaving():
		return errConnectionLeaves
	default:
		return nil
	}
}

// sendHostRequest makes a request to a host as an agent here. headers are pairs of a name and a value;
// those with the value "" are left out. The caller closes the answer's body.
func (g *Gateway) sendHostRequest(ctx context.Context, host identity.ID, agent, method, path string, body []byte, headers ...string) (*http.Response, error) {
	if _, ok := g.cfg.Trusted(host); !ok {
		return nil, errUntrusted
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://acpd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for h := range slices.Chunk(append(headers, headerAgent, agent), 2) {
		if h[1] != "" {
			r.Header.Set(h[0], h[1])
		}
	}
	return transport{g, host}.RoundTrip(r)
}

// fetchFromHost makes a request and reads at most so many bytes of the answer. It asks room for what
// has come of these, unless room is nil, and returns room's error.
func (g *Gateway) fetchFromHost(ctx context.Context, most int64, room func(bytes int) error, host identity.ID, agent, method, path string, body []byte, headers ...string) (status int, answer []byte, err error) {
	r, err := g.sendHostRequest(ctx, host, agent, method, path, body, headers...)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(meteredReader{r.Body, room}, most))
	return r.StatusCode, answer, err
}

// transport makes requests to one host, each on a stream of its own.
type transport struct {
	g    *Gateway
	host identity.ID
}

// RoundTrip implements [http.RoundTripper]. It adds the record of the agent that makes the request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Del(api.HeaderRecord) // an agent says nothing of itself here
	if record := t.g.Engine.EncodeAgentRecord(r.Header.Get(headerAgent)); record != "" {
		r.Header.Set(api.HeaderRecord, record)
	}
	s, err := t.g.cfg.Open(r.Context(), t.host)
	if err != nil {
		return nil, err
	}
	// A host may answer before it has read all of the request.
	unsaid := errors.Join(r.Write(s), s.CloseWrite())
	answer, err := readAnswerHead(s, r)
	if err != nil {
		s.Cancel()
		return nil, errors.Join(err, unsaid, checkConnection(s))
	}
	// Trailers are read into the answer that came, not into this copy.
	alone := *answer
	alone.Trailer, alone.Body = nil, streamBody{answer.Body, s}
	return &alone, nil
}

// readAnswerHead reads the head of an answer, of at most maxHeader bytes. The body has no bound.
func readAnswerHead(s io.Reader, r *http.Request) (*http.Response, error) {
	head := &io.LimitedReader{R: s, N: maxHeader}
	lines := bufio.NewReader(head)
	answer, err := http.ReadResponse(lines, r)
	for err == nil && answer.StatusCode < 200 {
		answer, err = http.ReadResponse(lines, r) // 1xx is not yet the answer
	}
	if err != nil {
		return nil, err
	}
	head.N = math.MaxInt64
	return answer, nil
}

// streamBody is the body of an answer. Close closes the stream of the answer.
type streamBody struct {
	io.ReadCloser
	s Stream
}

func (b streamBody) Close() error { return b.s.Close() }

// idleBody is a body with a limit for each read. If nothing comes for so long, the timer ends the
// request.
type idleBody struct {
	io.ReadCloser
	silence *time.Timer
	limit   time.Duration
}

func (h idleBody) Read(b []byte) (int, error) {
	h.silence.Reset(h.limit)
	defer h.silence.Stop()
	return h.ReadCloser.Read(b)
}
