package api

import (
	"slices"

	"github.com/acpd/acpd/openintent/object"
)

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
