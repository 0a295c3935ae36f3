package api

import (
	"slices"

	"github.com/acpd/acpd/openintent"
)

// decodeAppointmentForRouting reads the appointment of a coordinator, and returns the id of its intent.
func decodeAppointmentForRouting(r *request) (string, error) {
	want := openintent.NewAppoint(r.Call)
	if err := r.decodeBody(want); err != nil {
		return "", err
	}
	r.input = want
	return want.IntentID, want.Check()
}

func listCoordinators(r *request) (any, error) {
	list, err := r.e.ListCoordinators(r.Call, r.args[0], r.parseQuery().readPage(openintent.MaxList))
	return encodeList(r, openintent.MaxListBytes, slices.Values(list), err)
}
