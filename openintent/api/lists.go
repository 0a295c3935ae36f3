package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/acpd/acpd/openintent/object"
)

// The handlers of agents, channels, coordinators and intents that are more than a call of the engine: most read a
// page of a list.

func registerAgent(r *request, body *object.Register) (any, error) {
	doc, isNew, err := r.e.RegisterAgent(r.Call, body)
	if !isNew {
		r.status = http.StatusOK
	}
	return doc, err
}

func listAgents(r *request) (any, error) {
	q := r.parseQuery()
	list, err := r.e.ListAgents(r.Call, q.Get("status"), q.Get("role_id"), q.readPage(object.MaxList), r.gatherRemoteAgents)
	return encodeList(r, r.ListByteLimit(), slices.Values(list), err)
}

func listAgentStates(r *request, body *object.ListOf) (any, error) {
	return r.e.ListAgentStates(body)
}

func listChannels(r *request) (any, error) {
	list, err := r.e.ListChannels(r.Call, r.args[0], r.parseQuery().readPage(object.MaxList))
	return encodeList(r, object.MaxListBytes, list, err)
}

// decodeAppointmentForRouting reads the appointment of a coordinator, and returns the id of its intent.
func decodeAppointmentForRouting(r *request) (string, error) {
	want := object.NewAppoint(r.Caller.Agent)
	if err := r.decodeBody(want); err != nil {
		return "", err
	}
	r.input = want
	return want.IntentID, want.Check()
}

func listCoordinators(r *request) (any, error) {
	list, err := r.e.ListCoordinators(r.Call, r.args[0], r.parseQuery().readPage(object.MaxList))
	return encodeList(r, object.MaxListBytes, slices.Values(list), err)
}

func listIntents(r *request) (any, error) {
	q := r.parseQuery()
	docs, err := r.e.ListIntents(r.Call, q.Get("status"), q.readPage(50), r.gatherRemoteIntents)
	list := object.JSON{[]byte(`{"intents":[`)}
	for i, doc := range docs {
		list = list.AppendMember(i == 0, doc)
	}
	return append(list, []byte("]}")), err
}

func listEvents(r *request) (any, error) {
	q := r.parseQuery()
	return r.e.ListEvents(r.Call, r.args[0], object.EventFilter{
		Type: q.Get("event_type"), TraceID: strings.ToLower(q.Get("trace_id")), Since: q.Get("since"), Page: q.readPage(100),
	})
}
