package api

import "github.com/acpd/acpd/openintent"

func getACL(r *request) (any, error) { return r.e.GetACL(r.Call, r.arg(0)) }

func setACL(r *request, body *openintent.SetACL) (any, error) {
	return r.e.SetACL(r.Call, r.arg(0), body)
}

func grantAccess(r *request, body *openintent.GrantEntry) (any, error) {
	return r.e.GrantAccess(r.Call, r.arg(0), *body)
}

func revokeAccess(r *request) (any, error) {
	return nil, r.e.RevokeAccess(r.Call, r.arg(0), r.arg(1))
}

func assignAgent(r *request, body *openintent.Assign) (any, error) {
	return r.e.AssignAgent(r.Call, r.arg(0), *body)
}

func listAssignments(r *request) (any, error) { return r.e.ListAssignments(r.Call, r.arg(0)) }

func unassignAgent(r *request) (any, error) {
	return nil, r.e.UnassignAgent(r.Call, r.arg(0), r.arg(1))
}

func listHomes(r *request) (any, error) { return r.e.ListHomes(r.Call, r.arg(0)) }

func freeHome(r *request) (any, error) { return nil, r.e.FreeHome(r.Call, r.arg(0), r.arg(1)) }

// readAppointment reads the body, and returns the id of its intent.
func readAppointment(r *request) (string, error) {
	want := openintent.NewAppoint(r.Call)
	if err := r.decode(want); err != nil {
		return "", err
	}
	r.input = want
	return want.IntentID, want.Check()
}

func appointCoordinator(r *request) (any, error) {
	return r.e.AppointCoordinator(r.Call, r.input.(*openintent.Appoint))
}

func getCoordinator(r *request) (any, error) { return r.e.GetCoordinator(r.Call, r.arg(0)) }

func listCoordinators(r *request) (any, error) {
	list, err := r.e.ListCoordinators(r.Call, r.arg(0), r.query().page(openintent.MaxList))
	return encodeList(r, openintent.MaxListBytes, list, err)
}

func beatCoordinator(r *request) (any, error) { return r.e.BeatCoordinator(r.Call, r.arg(0)) }
