package api

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/object"
)

// decodeTaskForRouting reads a task, and returns the id of its intent.
func decodeTaskForRouting(r *request) (string, error) {
	want := object.NewTask()
	if err := r.decodeBody(want); err != nil {
		return "", err
	}
	r.input = want
	return want.IntentID, want.CheckNew()
}

func listTasks(r *request) (any, error) {
	q := r.parseQuery()
	list, err := r.e.ListTasks(r.Call, r.args[0], q.Get("status"), q.readPage(100))
	return encodeList(r, object.MaxListBytes, slices.Values(list), err)
}

func patchTask(r *request) (any, error) {
	version, err := r.readIfMatch(http.StatusPreconditionRequired)
	if err != nil {
		return nil, err
	}
	var raw jsontext.Value
	if err := r.decodeBody(&raw); err != nil {
		return nil, err
	}
	if err := object.NormalizeJSONObject("body", &raw); err != nil {
		return nil, err
	}
	return r.e.PatchTask(r.Call, r.args[0], version, func(doc *object.Task) error {
		return newBodyRefusal(json.Unmarshal(raw, doc))
	})
}
