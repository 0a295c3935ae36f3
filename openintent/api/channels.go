package api

import (
	"github.com/acpd/acpd/openintent/object"
)

func listChannels(r *request) (any, error) {
	list, err := r.e.ListChannels(r.Call, r.args[0], r.parseQuery().readPage(object.MaxList))
	return encodeList(r, object.MaxListBytes, list, err)
}
