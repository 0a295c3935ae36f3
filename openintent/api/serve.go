package api

import (
	"errors"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

// Handlers that answer by themselves return errAnswered, or errBroken if the answer has not come
// to its end.
var (
	errAnswered = errors.New("answered")
	errBroken   = errors.New("broken")
)

// prefixes begin the paths of the API: the RFC's table has one, its samples and all clients have
// the other.
var prefixes = []string{"/api/v1/", "/v1/"}

// API serves an engine. Its methods may be called from any goroutine.
type API struct {
	e        *openintent.Engine
	forward  func(openintent.ForwardedRequest, http.ResponseWriter, *http.Request)
	refused  refusedStreams
	describe func() jsontext.Value // returns the OpenAPI document, made when somebody asks for it
}

// NewAPI returns the API of an engine. forward answers a request about an intent of another host.
// If it is nil, there are no others, and the answer is 404.
func NewAPI(e *openintent.Engine, forward func(openintent.ForwardedRequest, http.ResponseWriter, *http.Request)) *API {
	return &API{e: e, forward: forward, describe: sync.OnceValue(buildOpenAPIDocument)}
}

// NewHandler returns a handler that serves the whole API to the callers that identify finds.
func (a *API) NewHandler(identify Identify) http.Handler {
	return a.newRouteHandler(newRouteTable(a.e), identify)
}

// newRouteHandler returns a handler that serves these routes.
func (a *API) newRouteHandler(table routeTable, identify Identify) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		rt, args, missing := table.findRoute(in)
		if missing != nil {
			WriteIfRefusal(w, missing)
			return
		}
		r := &request{Call: a.e.NewCall(in.Context()), API: a, http: in, w: answerWriter{ResponseWriter: w}, identify: identify, route: rt, args: args, status: rt.status}
		defer r.End()
		answer, err := r.handleAndEncode()
		switch {
		case err == nil:
			r.body = nil
			writeAnswer(w, r.status, answer)
		case err == errAnswered:
		case err == errBroken:
			panic(http.ErrAbortHandler) // so that the answer does not look whole
		case in.Context().Err() != nil:
			stops := "this daemon"
			if r.Caller.Home != "" {
				stops = "the intent's host"
			}
			WriteIfRefusal(w, object.NewError("cancelled", "%s stops, or who asked has left: what was asked may be done; look, then try again", stops).WithMember("delivered", "unknown"))
		default:
			switch {
			case toAPIError(err) != nil:
			case disk.IsFullError(err):
				err = object.NewError("disk_full", "the daemon's disk is full, and nothing was kept: free some space, then try again")
			default:
				r.e.Config().Log.Error("openintent: a request failed", "method", in.Method, "path", rt.path, "error", err)
				err = newInternalRefusal()
			}
			if rt.stream {
				a.refused.delayRefusal(r)
			}
			WriteIfRefusal(w, err)
		}
	})
}

// newInternalRefusal returns the refusal of a request that has failed here.
func newInternalRefusal() *object.Error {
	return object.NewError("internal", "the daemon failed to do this: its log says why")
}

// handleAndEncode does what the request asks for, and returns the encoded answer. If a handler panics,
// the request fails and nothing else: no request must end this daemon. A handler may break off
// with [http.ErrAbortHandler], for example if a host ends in the middle of its answer.
func (r *request) handleAndEncode() (answer object.JSON, err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = errBroken
		default:
			r.LogError("openintent: a handler panicked", "method", r.http.Method, "path", r.route.path, "panic", v, "stack", string(debug.Stack()))
			if err = newInternalRefusal(); r.w.began {
				err = errBroken
			}
		}
	}()
	body, err := r.handleOrForward()
	if err == nil && r.status != http.StatusNoContent {
		answer = encodeAnswer(body)
		err = r.AdjustCallerCharge(answer.Len(), r.http.Method != http.MethodGet)
	}
	return answer, err
}

// handleOrForward has the handler of the route do what the request asks for, or passes the request
// on to the host that has to do it.
func (r *request) handleOrForward() (answer any, err error) {
	freeing, isDelete := r.e.Config().Freeing, r.http.Method == http.MethodDelete
	if err := r.identifyAndAdmitCaller(); err != nil {
		return nil, err
	}
	if r.http.Method != http.MethodGet && !isDelete {
		if err := r.e.CheckDiskRoom(r.Caller.Home); err != nil {
			return nil, object.NewError("disk_low", "the disk of the intent's host is almost full: its owner has to free some space; try again later").WithMember("row", budget.FreeSpace.Name)
		}
	}
	if r.route.in != nil {
		if err := r.readBody(object.MaxPayload + bodyRoom); err != nil {
			return nil, err
		}
	}
	r.Size, r.Removes = len(r.body)+r.route.room, isDelete
	end, err := r.e.AwaitLongBodyTurn(r.Call, len(r.body))
	if err != nil {
		return nil, err
	}
	defer end()
	if r.route.host != nil {
		id, err := r.route.host(r)
		if err != nil {
			return nil, err
		}
		if err := r.forwardIfElsewhere(id); err != nil {
			return nil, err
		}
	}
	if !isDelete || freeing == nil || r.Caller.Home != "" { // other daemons do not use up the reserve
		return r.route.handler(r)
	}
	err = freeing(func() (err error) {
		answer, err = r.route.handler(r)
		return err
	})
	return answer, err
}

// identifyAndAdmitCaller identifies the caller, and refuses a caller that the route is not for.
func (r *request) identifyAndAdmitCaller() error {
	if r.route.public {
		return nil
	}
	who, err := r.identify(r.http)
	if err != nil {
		return err
	}
	r.SetCaller(who)
	if r.route.home != (who.Agent == object.Daemon && who.Home != "") {
		return object.NewError("not_an_agent", "this is for daemons; all else is for agents")
	}
	if !r.route.home && !who.Operator && !object.IsAgentID(who.Agent) {
		return object.NewAgentIDError(headerAgent)
	}
	if record := r.http.Header.Get(HeaderRecord); record != "" && who.Home != "" && !r.route.home {
		if err := r.e.StoreCallerRecord(r.Call, record); err != nil { // if the agent needs it, its request fails and says why
			r.e.Config().Log.Debug("openintent: the record of an agent elsewhere is not kept", "agent", who.Agent, "home", who.Home, "error", err)
		}
	}
	r.e.MarkAgentSeen(r.Caller)
	return nil
}
