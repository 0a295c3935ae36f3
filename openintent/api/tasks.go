package api

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent"
)

// readTask reads the body, and returns the id of its intent.
func readTask(r *request) (string, error) {
	want := openintent.NewTask()
	if err := r.decode(want); err != nil {
		return "", err
	}
	r.input = want
	return want.IntentID, want.Check()
}

func createTask(r *request) (any, error) { return r.e.CreateTask(r.Call, *r.input.(*openintent.Task)) }

func getTask(r *request) (any, error) { return r.e.GetTask(r.Call, r.arg(0)) }

func listTasks(r *request) (any, error) {
	q := r.query()
	list, err := r.e.ListTasks(r.Call, r.arg(0), q.Get("status"), q.page(100))
	return encodeList(r, openintent.MaxListBytes, list, err)
}

func patchTask(r *request) (any, error) {
	version, err := r.ifMatch(http.StatusPreconditionRequired)
	if err != nil {
		return nil, err
	}
	var raw jsontext.Value
	if err := r.decode(&raw); err != nil {
		return nil, err
	}
	if err := openintent.CheckObject("body", &raw); err != nil {
		return nil, err
	}
	return r.e.PatchTask(r.Call, r.arg(0), version, func(doc *openintent.Task) error {
		if err := json.Unmarshal(raw, doc); err != nil {
			return badBody(err)
		}
		return nil
	})
}
