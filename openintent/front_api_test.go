package openintent_test

import (
	"net/http"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
)

func init() {
	openintent.SetFront(
		func(e *openintent.Engine, forward func(openintent.ForwardedRequest, http.ResponseWriter, *http.Request), identify func(*http.Request) (openintent.Caller, error)) http.Handler {
			return api.NewAPI(e, forward).NewHandler(identify)
		},
		api.IdentifyLocalCaller,
		func(r *http.Request) (openintent.Caller, error) {
			return api.IdentifyRemoteCaller(openintent.NearHome, r)
		},
		func(agents map[string]string) func(*http.Request) (openintent.Caller, error) {
			var keys []api.Key
			for key, agent := range agents {
				keys = append(keys, api.Key{Hash: api.HashAPIKey(key), Agent: agent})
			}
			return api.NewKeyIdentifier(keys)
		},
	)
}
