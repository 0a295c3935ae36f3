package api

import (
	"strings"

	"github.com/acpd/acpd/openintent"
)

func createIntent(r *request, body *openintent.CreateIntent) (any, error) {
	return r.e.CreateIntent(r.Call, body)
}

func getIntent(r *request) (any, error) { return r.e.GetIntent(r.Call, r.arg(0)) }

func listIntents(r *request) (any, error) {
	q := r.query()
	docs, err := r.e.ListIntents(r.Call, q.Get("status"), q.page(50), r.gatherIntents)
	list := openintent.JSON{[]byte(`{"intents":[`)}
	for i, doc := range docs {
		list = list.Add(i == 0, doc)
	}
	return append(list, []byte("]}")), err
}

func setIntentStatus(r *request, body *openintent.StatusChange) (any, error) {
	return r.e.SetIntentStatus(r.Call, r.arg(0), r.version, body)
}

func patchState(r *request, body *openintent.StatePatch) (any, error) {
	return r.e.PatchState(r.Call, r.arg(0), r.version, body)
}

func logEvent(r *request, body *openintent.PostEvent) (any, error) {
	return r.e.LogEvent(r.Call, r.arg(0), body)
}

func listEvents(r *request) (any, error) {
	q := r.query()
	return r.e.ListEvents(r.Call, r.arg(0), openintent.EventFilter{
		Type: q.Get("event_type"), TraceID: strings.ToLower(q.Get("trace_id")), Since: q.Get("since"), Page: q.page(100),
	})
}

func verifyEvents(r *request) (any, error) { return r.e.VerifyEvents(r.Call, r.arg(0)) }
