package openintent

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/openintent/chain"
)

// request is a request on its way through a handler.
type request struct {
	*Call
	e      *Engine
	http   *http.Request
	w      answering
	route  *route
	args   []string
	body   []byte
	input  any // what route.read has made of the body
	status int // of the answer
}

// handler does what a request asks for, and returns the body of the answer.
type handler func(*request) (any, error)

// decoded makes a handler of one that takes the body.
func decoded[T any](do func(*request, *T) (any, error)) handler {
	return func(r *request) (any, error) {
		body := new(T)
		if err := r.decode(body); err != nil {
			return nil, err
		}
		return do(r, body)
	}
}

// decodedStrictly is decoded for a body that has no members but those of T: where access is
// granted, a word that is mistyped must not mean what its absence means.
func decodedStrictly[T any](do func(*request, *T) (any, error)) handler {
	return func(r *request) (any, error) {
		body := new(T)
		if err := r.decodeWith(body, json.RejectUnknownMembers(true)); err != nil {
			return nil, err
		}
		return do(r, body)
	}
}

// encodeList makes the answer of a list, of as many elements as room has bytes for.
func encodeList[T any](r *request, room int, list []T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	p, size := JSON{[]byte("[")}, 0
	for i, v := range list {
		doc := []byte(text(v))
		if err := r.take(len(doc)); err != nil {
			return nil, err
		}
		p = p.list(i == 0, doc)
		if size += len(doc); size >= room {
			break
		}
	}
	return append(p, []byte("]")), nil
}

// errAnswered is the error of a handler that has answered by itself, errBroken of one
// that could not do so to the end.
var (
	errAnswered = errors.New("answered")
	errBroken   = errors.New("broken")
)

// answering is what a handler answers with by itself.
type answering struct {
	http.ResponseWriter
	began bool
}

func (a *answering) WriteHeader(status int) {
	a.began = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(b []byte) (int, error) {
	a.began = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// bodyRoom is what a body may have beyond the largest payload.
const bodyRoom = 320 << 10

// firstPart is how much of a body of another daemon's request has to come before it gets
// memory for all.
const firstPart = 16 << 10

// prefixes are where the API is served: the RFC's table says one, its samples
// and every client say the other.
var prefixes = []string{"/api/v1/", "/v1/"}

// Handler returns the whole API. identify finds out who makes a request:
// [Local], [Keys], or a function of whoever receives requests otherwise; its
// error is an [*Error].
func (e *Engine) Handler(identify func(*http.Request) (Caller, error)) http.Handler {
	return e.handler(routes(), identify)
}

func (e *Engine) handler(table table, identify func(*http.Request) (Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt, args, missing := table.find(r)
		if missing != nil {
			AnswerError(w, missing)
			return
		}
		c := &request{Call: e.Begin(r.Context()), e: e, http: r, w: answering{ResponseWriter: w}, route: rt, args: args, status: rt.status}
		defer c.End()
		answer, err := e.prepare(c, rt, identify)
		switch {
		case err == nil:
			c.body = nil
			respond(w, c.status, answer)
		case err == errAnswered:
		case err == errBroken:
			panic(http.ErrAbortHandler) // so that what there is does not look whole
		case r.Context().Err() != nil:
			stops := "this daemon"
			if c.who.Home != "" {
				stops = "the intent's host"
			}
			AnswerError(w, refuse("cancelled", "%s stops, or who asked has left: what was asked may be done; look, then try again", stops).with("delivered", "unknown"))
		default:
			switch {
			case asHTTP(err) != nil:
			case disk.IsFull(err):
				err = refuse("disk_full", "the daemon's disk is full, and nothing was kept: free some space, then try again")
			default:
				e.cfg.Log.Error("openintent: a request failed", "method", c.http.Method, "path", rt.path, "error", err)
				err = failed()
			}
			if rt.stream {
				e.unhappy.hold(c)
			}
			AnswerError(w, err)
		}
	})
}

func failed() *Error {
	return refuse("internal", "the daemon failed to do this: its log says why")
}

// prepare does what is asked, and returns the answer. A handler that panics has failed,
// and no more: what a program or another daemon says must not end this one. One that breaks
// off with [http.ErrAbortHandler], as where a host ends in the middle of its answer, has done
// what it should.
func (e *Engine) prepare(c *request, rt *route, identify func(*http.Request) (Caller, error)) (answer JSON, err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = errBroken
		default:
			e.panicked(c, v, string(debug.Stack()))
			if err = failed(); c.w.began {
				err = errBroken
			}
		}
	}()
	body, err := e.serve(c, rt, identify)
	if err == nil && c.status != http.StatusNoContent {
		answer = encode(body)
		err = c.settle(answer.size(), c.http.Method != http.MethodGet)
	}
	return answer, err
}

// panicked logs that a handler has.
func (e *Engine) panicked(c *request, v any, stack string) {
	const what = "openintent: a handler panicked"
	about := []any{"method", c.http.Method, "path", c.route.path, "panic", v, "stack", stack}
	if c.who.Home == "" || e.cfg.Lines == nil {
		e.cfg.Log.Error(what, about...)
		return
	}
	e.cfg.Lines.Add(peerOf(c.who.Home), slog.LevelError, what, about...)
}

func (e *Engine) serve(c *request, rt *route, identify func(*http.Request) (Caller, error)) (body any, err error) {
	if !rt.public {
		if c.who, err = identify(c.http); err != nil {
			return nil, err
		}
		c.who = e.known(c.who)
		if rt.home != (c.who.Agent == Daemon && c.who.Home != "") {
			return nil, refuse("not_an_agent", "this is for daemons; all else is for agents")
		}
		if !rt.home && !c.who.Operator && !validAgentID(c.who.Agent) {
			return nil, badAgent(headerAgent)
		}
		e.saw(c.who)
	}
	if c.http.Method != http.MethodGet && c.http.Method != http.MethodDelete {
		if err := e.room(c.who.Home); err != nil {
			return nil, refuse("disk_low", "the disk of the intent's host is almost full: its owner has to free some space; try again later").with("row", budget.FreeSpace.Name)
		}
	}
	if rt.stream && rt.host == hostInPath && e.cfg.Follow != nil && c.who.Home == "" {
		if host, ok := HostOf(c.args[0]); ok && host != e.host {
			e.awaitFollow(c.Context(), host)
			return streamElsewhere(c, host)
		}
	}
	if rt.in != nil {
		limit := int64(e.cfg.MaxPayload + bodyRoom)
		length := limit
		if c.http.ContentLength >= 0 {
			length = min(length, c.http.ContentLength)
		}
		if err := c.take(int(length) + max(rt.room, answerRoom)); err != nil {
			return nil, err
		}
		// Not MaxBytesReader: it would close the connection under the answer.
		from := io.LimitReader(c.http.Body, limit+1)
		if c.who.Home == "" {
			c.body, err = io.ReadAll(from)
		} else {
			c.body, err = readCharged(from, int(length))
		}
		if err != nil {
			if AnswerError(&c.w, err) { // it is not the caller who has left
				return nil, errAnswered
			}
			return nil, refuse("bad_body", "the body could not be read")
		}
		if int64(len(c.body)) > limit {
			return nil, refuse("too_large", "the body has more than %d bytes: send less, or a reference to it", limit)
		}
	}
	c.size, c.removes = len(c.body)+rt.room, c.http.Method == http.MethodDelete
	if rt.host == hostInPath {
		if err := c.elsewhere(c.args[0]); err != nil {
			return nil, err
		}
	}
	if c.who.Home != "" && len(c.body) >= longBody {
		end, err := e.awaitTurn(c.Call)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	if rt.read != nil {
		id, err := rt.read(c)
		if err != nil {
			return nil, err
		}
		if err := c.elsewhere(id); err != nil {
			return nil, err
		}
	}
	if c.http.Method != http.MethodDelete || e.cfg.Freeing == nil || c.who.Home != "" { // others do not use up the reserve
		return rt.do(c)
	}
	err = e.cfg.Freeing(func() (err error) {
		body, err = rt.do(c)
		return err
	})
	return body, err
}

// readCharged reads a body that has length bytes, or fewer, for all of which its caller is
// charged: so it takes memory twice, for its first part and for all. (To grow with a long body,
// as io.ReadAll does, takes several times its length, and leaves some of it over.)
func readCharged(from io.Reader, length int) ([]byte, error) {
	const over = 2 // for a byte too many, and to see the end
	body := make([]byte, 0, min(length, firstPart)+over)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		switch body = body[:len(body)+n]; {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == cap(body):
			body = append(make([]byte, 0, max(length, len(body))+over), body...)
		}
	}
}

func (c *request) arg(i int) string { return c.args[i] }

// decode reads the body into v.
func (c *request) decode(v any) error { return c.decodeWith(v) }

func (c *request) decodeWith(v any, how ...json.Options) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return refuse("no_body", "a JSON object is needed as the body, and there is none: /openapi.json describes it")
	}
	if isDeeper(c.body, maxDepth) {
		return refuse("bad_json", "the body nests more than %d objects and arrays in each other: send what is so deep as a text, or put it elsewhere and refer to it", maxDepth)
	}
	if err := json.Unmarshal(c.body, v, how...); err != nil {
		return badBody(err)
	}
	return nil
}

// maxDepth bounds how deep a body nests. What is stored of it nests a little deeper, by the
// steps of a patch at most, and SQLite reads no more than 1,000 levels when a daemon starts.
const maxDepth = 256

// isDeeper reports whether JSON nests more than so many objects and arrays.
func isDeeper(text []byte, most int) bool {
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > most {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

func badBody(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		field := strings.TrimPrefix(string(s.JSONPointer), "/")
		if field == "" {
			field = "body"
		}
		if len(field) > maxName {
			field = field[:maxName]
		}
		field = strings.ToValidUTF8(field, "")
		if errors.Is(s, json.ErrUnknownName) {
			return invalid(field, "nothing was changed: there is no such member here: /openapi.json describes those that there are")
		}
		if errors.Is(s, chain.ErrTime) {
			return invalid(field, "%v", chain.ErrTime)
		}
		return invalid(field, "a value of another type is needed")
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return refuse("bad_json", "the body is not valid JSON, from byte %d on (counted from 0): names must not repeat, and text must be UTF-8", s.ByteOffset)
	}
	return refuse("bad_json", "the body is not valid JSON: names must not repeat, and text must be UTF-8")
}

// object makes sure that v is an object, in one line; none at all is an empty one.
func object(field string, v *jsontext.Value) error {
	if *v == nil || v.Kind() == 'n' {
		*v = jsontext.Value("{}")
		return nil
	}
	if v.Kind() != '{' {
		return invalid(field, "an object is needed")
	}
	if err := v.Compact(); err != nil {
		return invalid(field, "an object is needed")
	}
	return nil
}

// as returns who acts when a body names an agent: the caller, or, for an
// operator, that agent.
func (c *Call) as(field, agent string) (Caller, error) {
	if agent == "" || agent == c.who.Agent || agent == c.who.name {
		return c.who, nil
	}
	if !c.who.Operator {
		return Caller{}, refuse("sender_mismatch", "%s: you are another agent", field)
	}
	if !validAgentID(agent) {
		return Caller{}, badAgent(field)
	}
	return c.e.known(Caller{Agent: agent}), nil
}

// actor is as for bodies where the name alone matters.
func (c *Call) actor(field, agent string) (string, error) {
	who, err := c.as(field, agent)
	return who.name, err
}

// query is the request's query.
type query struct{ url.Values }

func (c *request) query() query { return query{c.http.URL.Query()} }

// page reads limit and offset.
func (q query) page(usual int) (p Page, err error) {
	if p.Limit, err = q.limit(usual); err != nil {
		return p, err
	}
	if text := q.Get("offset"); text != "" {
		if p.Offset, err = strconv.Atoi(text); err != nil || p.Offset < 0 || p.Offset > 1<<30 {
			return p, invalid("offset", "0 or more")
		}
	}
	return p, nil
}

func (q query) limit(usual int) (limit int, err error) {
	text := q.Get("limit")
	if text == "" {
		return usual, nil
	}
	if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxList {
		return 0, invalid("limit", "1 to %d", maxList)
	}
	return limit, nil
}

// room returns how many bytes the caller's list may have: fewer for another daemon,
// which puts the lists of several together.
func (c *Call) room() int {
	if c.who.Home != "" {
		return maxGathered
	}
	return maxListBytes
}

// ifMatch reads the version that If-Match names, bare or in quotes.
func (c *request) ifMatch(missing int) (int64, error) {
	text := strings.Trim(strings.TrimPrefix(strings.TrimSpace(c.http.Header.Get("If-Match")), "W/"), `"`)
	if text == "" {
		return 0, refuseAs(missing, "no_version", "the header If-Match must name the version that is to be changed")
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, refuse("bad_version", "If-Match: the version is a number")
	}
	return v, nil
}

// encode returns the body of an answer.
func encode(body any) JSON {
	switch b := body.(type) {
	case JSON:
		return b
	case jsontext.Value:
		return JSON{b}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own types
	}
	return JSON{text}
}

// respond writes an answer, up to the first write that fails.
func respond(w http.ResponseWriter, status int, answer JSON) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(answer.size()))
	w.WriteHeader(status)
	for _, part := range answer {
		if _, err := w.Write(part); err != nil {
			return // the client has left or takes nothing
		}
	}
}
