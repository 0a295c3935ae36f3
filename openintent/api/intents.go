package api

import (
	"strings"

	"github.com/acpd/acpd/openintent/object"
)

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
