package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/acpd/acpd/openintent"
)

func registerAgent(r *request, body *openintent.Register) (any, error) {
	doc, isNew, err := r.e.RegisterAgent(r.Call, body)
	if !isNew {
		r.status = http.StatusOK
	}
	return doc, err
}

func getAgent(r *request) (any, error) { return r.e.GetAgent(r.Call, r.arg(0)) }

func listAgents(r *request) (any, error) {
	q := r.query()
	p := q.page(openintent.MaxList)
	if err := p.Check(); err != nil {
		return nil, err
	}
	status, role := q.Get("status"), q.Get("role_id")
	list, err := r.e.ListAgents(r.Call, status, role)
	if err != nil {
		return nil, err
	}
	list = r.gatherAgents(list, status, role)
	slices.SortFunc(list, func(a, b openintent.Agent) int {
		return cmp.Or(cmp.Compare(min(len(a.Host), 1), min(len(b.Host), 1)), cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Host, b.Host))
	})
	return encodeList(r, r.ListRoom(), openintent.PageOf(list, p), nil)
}

func setAgentStatus(r *request, body *openintent.StatusChange) (any, error) {
	return r.e.SetAgentStatus(r.Call, r.arg(0), body)
}

func deregisterAgent(r *request) (any, error) { return r.e.DeregisterAgent(r.Call, r.arg(0)) }

func beatAgent(r *request) (any, error) { return r.e.BeatAgent(r.Call, r.arg(0)) }

func takeRecord(r *request, body *openintent.Guest) (any, error) {
	return nil, r.e.TakeRecord(r.Call, r.arg(0), body)
}

func listDeparted(r *request, body *openintent.ListOf) (any, error) { return r.e.ListDeparted(body) }

func listRecords(r *request) (any, error) { return r.e.ListRecords(r.Call), nil }
