package api

import "github.com/acpd/acpd/openintent"

func listChannels(r *request) (any, error) {
	list, err := r.e.ListChannels(r.Call, r.args[0], r.parseQuery().readPage(openintent.MaxList))
	return encodeList(r, openintent.MaxListBytes, list, err)
}
