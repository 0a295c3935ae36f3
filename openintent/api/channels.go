package api

import "github.com/acpd/acpd/openintent"

func createChannel(r *request, body *openintent.CreateChannel) (any, error) {
	return r.e.CreateChannel(r.Call, r.arg(0), body)
}

func getChannel(r *request) (any, error) { return r.e.GetChannel(r.Call, r.arg(0)) }

func listChannels(r *request) (any, error) {
	list, err := r.e.ListChannels(r.Call, r.arg(0), r.query().page(openintent.MaxList))
	return encodeList(r, openintent.MaxListBytes, list, err)
}

func patchChannel(r *request, body *openintent.PatchChannel) (any, error) {
	return r.e.PatchChannel(r.Call, r.arg(0), body)
}

func deleteChannel(r *request) (any, error) { return r.e.DeleteChannel(r.Call, r.arg(0)) }
