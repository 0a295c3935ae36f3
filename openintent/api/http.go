package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/chain"
)

// request is a request on its way through a handler.
type request struct {
	*openintent.Call
	api    *API
	e      *openintent.Engine
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
	p, size := openintent.JSON{[]byte("[")}, 0
	for i, v := range list {
		doc := text(v)
		if err := r.Charge(len(doc)); err != nil {
			return nil, err
		}
		p = p.Add(i == 0, doc)
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

// Config is what the API needs beside the engine.
type Config struct {
	// Forward answers a request about an intent of another host; nil: there are no others,
	// and the answer is 404. It must answer.
	Forward func(p openintent.Parcel, w http.ResponseWriter, r *http.Request)
}

// API serves an engine. Its methods may be called from any goroutine.
type API struct {
	e        *openintent.Engine
	cfg      Config
	unhappy  unhappy
	describe func() jsontext.Value // of the API, made when somebody asks for it
}

// New returns the API of an engine.
func New(e *openintent.Engine, cfg Config) *API {
	return &API{e: e, cfg: cfg, describe: sync.OnceValue(describeAPI)}
}

// Handler returns the whole API. identify finds out who makes a request: [Local], [Keys], or a
// function of whoever receives requests otherwise. Its error is an [*openintent.Error] or an
// [*Error].
func (a *API) Handler(identify func(*http.Request) (openintent.Caller, error)) http.Handler {
	return a.handler(routes(), identify)
}

func (a *API) handler(table table, identify func(*http.Request) (openintent.Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		rt, args, missing := table.find(in)
		if missing != nil {
			AnswerError(w, missing)
			return
		}
		r := &request{Call: a.e.Begin(in.Context()), api: a, e: a.e, http: in, w: answering{ResponseWriter: w}, route: rt, args: args, status: rt.status}
		defer r.End()
		answer, err := r.prepare(identify)
		switch {
		case err == nil:
			r.body = nil
			respond(w, r.status, answer)
		case err == errAnswered:
		case err == errBroken:
			panic(http.ErrAbortHandler) // so that what there is does not look whole
		case in.Context().Err() != nil:
			stops := "this daemon"
			if r.Caller.Home != "" {
				stops = "the intent's host"
			}
			AnswerError(w, openintent.Refuse("cancelled", "%s stops, or who asked has left: what was asked may be done; look, then try again", stops).With("delivered", "unknown"))
		default:
			switch {
			case asHTTP(err) != nil:
			case disk.IsFull(err):
				err = openintent.Refuse("disk_full", "the daemon's disk is full, and nothing was kept: free some space, then try again")
			default:
				r.e.Config().Log.Error("openintent: a request failed", "method", in.Method, "path", rt.path, "error", err)
				err = failed()
			}
			if rt.stream {
				a.unhappy.hold(r)
			}
			AnswerError(w, err)
		}
	})
}

func failed() *openintent.Error {
	return openintent.Refuse("internal", "the daemon failed to do this: its log says why")
}

// prepare does what is asked, and returns the answer. A handler that panics has failed,
// and no more: what a program or another daemon says must not end this one. One that breaks
// off with [http.ErrAbortHandler], as where a host ends in the middle of its answer, has done
// what it should.
func (r *request) prepare(identify func(*http.Request) (openintent.Caller, error)) (answer openintent.JSON, err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = errBroken
		default:
			r.LogError("openintent: a handler panicked", "method", r.http.Method, "path", r.route.path, "panic", v, "stack", string(debug.Stack()))
			if err = failed(); r.w.began {
				err = errBroken
			}
		}
	}()
	body, err := r.serve(identify)
	if err == nil && r.status != http.StatusNoContent {
		answer = encode(body)
		err = r.Settle(answer.Size(), r.http.Method != http.MethodGet)
	}
	return answer, err
}

func (r *request) serve(identify func(*http.Request) (openintent.Caller, error)) (body any, err error) {
	rt, cfg := r.route, r.e.Config()
	if !rt.public {
		if r.Caller, err = identify(r.http); err != nil {
			return nil, err
		}
		r.SetCaller(r.Caller)
		if rt.home != (r.Caller.Agent == openintent.Daemon && r.Caller.Home != "") {
			return nil, openintent.Refuse("not_an_agent", "this is for daemons; all else is for agents")
		}
		if !rt.home && !r.Caller.Operator && !openintent.ValidAgentID(r.Caller.Agent) {
			return nil, openintent.BadAgentID(headerAgent)
		}
		r.e.Saw(r.Caller)
	}
	if r.http.Method != http.MethodGet && r.http.Method != http.MethodDelete {
		if err := r.e.CheckRoom(r.Caller.Home); err != nil {
			return nil, openintent.Refuse("disk_low", "the disk of the intent's host is almost full: its owner has to free some space; try again later").With("row", budget.FreeSpace.Name)
		}
	}
	if rt.stream && rt.host == hostInPath && cfg.Follow != nil && r.Caller.Home == "" {
		if host, ok := openintent.HostOf(r.args[0]); ok && host != r.e.Host() {
			r.e.AwaitFollow(r.Context(), host)
			return streamElsewhere(r, host)
		}
	}
	if rt.in != nil {
		limit := int64(cfg.MaxPayload + bodyRoom)
		length := limit
		if r.http.ContentLength >= 0 {
			length = min(length, r.http.ContentLength)
		}
		if err := r.Charge(int(length) + max(rt.room, openintent.AnswerRoom)); err != nil {
			return nil, err
		}
		// Not MaxBytesReader: it would close the connection under the answer.
		from := io.LimitReader(r.http.Body, limit+1)
		if r.Caller.Home == "" {
			r.body, err = io.ReadAll(from)
		} else {
			r.body, err = readCharged(from, int(length))
		}
		if err != nil {
			if AnswerError(&r.w, err) { // it is not the caller who has left
				return nil, errAnswered
			}
			return nil, openintent.Refuse("bad_body", "the body could not be read")
		}
		if int64(len(r.body)) > limit {
			return nil, openintent.Refuse("too_large", "the body has more than %d bytes: send less, or a reference to it", limit)
		}
	}
	r.Size, r.Removes = len(r.body)+rt.room, r.http.Method == http.MethodDelete
	if rt.host == hostInPath {
		if err := r.elsewhere(r.args[0]); err != nil {
			return nil, err
		}
	}
	end, err := r.e.AwaitTurn(r.Call, len(r.body))
	if err != nil {
		return nil, err
	}
	defer end()
	if rt.read != nil {
		id, err := rt.read(r)
		if err != nil {
			return nil, err
		}
		if err := r.elsewhere(id); err != nil {
			return nil, err
		}
	}
	if r.http.Method != http.MethodDelete || cfg.Freeing == nil || r.Caller.Home != "" { // others do not use up the reserve
		return rt.do(r)
	}
	err = cfg.Freeing(func() (err error) {
		body, err = rt.do(r)
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

func (r *request) arg(i int) string { return r.args[i] }

// decode reads the body into v.
func (r *request) decode(v any) error { return r.decodeWith(v) }

func (r *request) decodeWith(v any, how ...json.Options) error {
	if len(bytes.TrimSpace(r.body)) == 0 {
		return openintent.Refuse("no_body", "a JSON object is needed as the body, and there is none: /openapi.json describes it")
	}
	if jsonscan.IsDeeper(r.body, openintent.MaxDepth) {
		return openintent.Refuse("bad_json", "the body nests more than %d objects and arrays in each other: send what is so deep as a text, or put it elsewhere and refer to it", openintent.MaxDepth)
	}
	if err := json.Unmarshal(r.body, v, how...); err != nil {
		return badBody(err)
	}
	return nil
}

func badBody(err error) error {
	if e, ok := errors.AsType[*openintent.Error](err); ok {
		return e
	}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		field := strings.TrimPrefix(string(s.JSONPointer), "/")
		if field == "" {
			field = "body"
		}
		if len(field) > openintent.MaxName {
			field = field[:openintent.MaxName]
		}
		field = strings.ToValidUTF8(field, "")
		if errors.Is(s, json.ErrUnknownName) {
			return openintent.Invalid(field, "nothing was changed: there is no such member here: /openapi.json describes those that there are")
		}
		if errors.Is(s, chain.ErrTime) {
			return openintent.Invalid(field, "%v", chain.ErrTime)
		}
		return openintent.Invalid(field, "a value of another type is needed")
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return openintent.Refuse("bad_json", "the body is not valid JSON, from byte %d on (counted from 0): names must not repeat, and text must be UTF-8", s.ByteOffset)
	}
	return openintent.Refuse("bad_json", "the body is not valid JSON: names must not repeat, and text must be UTF-8")
}

// query is the request's query.
type query struct{ url.Values }

func (r *request) query() query { return query{r.http.URL.Query()} }

// page reads limit and offset. What is no number is read as -1, which [openintent.Page.Check]
// refuses.
func (q query) page(usual int) openintent.Page {
	return openintent.Page{Limit: q.number("limit", usual), Offset: q.number("offset", 0)}
}

// number reads a number: usual if there is none, -1 if it is something else.
func (q query) number(name string, usual int) int {
	text := q.Get(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// version is ifMatch for what is refused as a bad request without it.
func (r *request) version() (int64, error) { return r.ifMatch(http.StatusBadRequest) }

// ifMatch reads the version that If-Match names, bare or in quotes.
func (r *request) ifMatch(missing int) (int64, error) {
	text := strings.Trim(strings.TrimPrefix(strings.TrimSpace(r.http.Header.Get("If-Match")), "W/"), `"`)
	if text == "" {
		return 0, refuseAs(missing, "no_version", "the header If-Match must name the version that is to be changed")
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, openintent.Refuse("bad_version", "If-Match: the version is a number")
	}
	return v, nil
}

// encode returns the body of an answer.
func encode(body any) openintent.JSON {
	switch b := body.(type) {
	case openintent.JSON:
		return b
	case jsontext.Value:
		return openintent.JSON{b}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own types
	}
	return openintent.JSON{text}
}

// respond writes an answer, up to the first write that fails.
func respond(w http.ResponseWriter, status int, answer openintent.JSON) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(answer.Size()))
	w.WriteHeader(status)
	for _, part := range answer {
		if _, err := w.Write(part); err != nil {
			return // the client has left or takes nothing
		}
	}
}

// text returns v as JSON, in which the members of maps are sorted.
func text(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // our own types
	}
	return b
}
