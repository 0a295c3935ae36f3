package api

import (
	"net/http"
	"slices"

	"github.com/acpd/acpd/openintent/object"
)

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
