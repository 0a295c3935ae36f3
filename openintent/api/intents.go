package api

import (
	"net/http"
	"strings"

	"github.com/acpd/acpd/openintent"
)

func createIntent(r *request, body *openintent.CreateIntent) (any, error) {
	return r.e.CreateIntent(r.Call, body)
}

func getIntent(r *request) (any, error) { return r.e.GetIntent(r.Call, r.arg(0)) }

func listIntents(r *request) (any, error) {
	q := r.query()
	p, err := q.page(50)
	if err != nil {
		return nil, err
	}
	status := q.Get("status")
	if err := openintent.CheckIntentStatus(status); err != nil {
		return nil, err
	}
	docs, err := r.e.ListIntents(r.Call, status, p, r.gatherIntents(status, p.Offset+p.Limit))
	list := openintent.JSON{[]byte(`{"intents":[`)}
	for i, doc := range docs {
		list = list.Add(i == 0, doc)
	}
	return append(list, []byte("]}")), err
}

func setIntentStatus(r *request, body *openintent.StatusChange) (any, error) {
	if err := body.CheckForIntent(); err != nil {
		return nil, err
	}
	version, err := r.ifMatch(http.StatusBadRequest)
	if err != nil {
		return nil, err
	}
	return r.e.SetIntentStatus(r.Call, r.arg(0), version, body)
}

func patchState(r *request, body *openintent.StatePatch) (any, error) {
	if err := body.Check(); err != nil {
		return nil, err
	}
	version, err := r.ifMatch(http.StatusBadRequest)
	if err != nil {
		return nil, err
	}
	return r.e.PatchState(r.Call, r.arg(0), version, body)
}

func logEvent(r *request, body *openintent.PostEvent) (any, error) {
	return r.e.LogEvent(r.Call, r.arg(0), body)
}

func listEvents(r *request) (any, error) {
	q := r.query()
	which := openintent.EventFilter{Type: q.Get("event_type"), TraceID: strings.ToLower(q.Get("trace_id"))}
	var err error
	if which.Page, err = q.page(100); err != nil {
		return nil, err
	}
	if which.Since, err = q.since(); err != nil {
		return nil, err
	}
	return r.e.ListEvents(r.Call, r.arg(0), which)
}

func verifyEvents(r *request) (any, error) { return r.e.VerifyEvents(r.Call, r.arg(0)) }
