package channels

import (
	"net/http"
	"strings"
	"testing"

	"github.com/acpd/acpd/kinds"
)

// What an answer says of delivery is read whatever its type is, and a host's word that
// nothing was delivered is not this machine's.
func TestDeliveredOfAnAnswer(t *testing.T) {
	host := strings.Repeat("ab", 32)
	for _, c := range []struct{ host, method, delivered, want string }{
		{"", http.MethodPost, `"no"`, "no"},
		{"", http.MethodPost, `"unknown"`, "unknown"},
		{"", http.MethodPost, `"maybe"`, ""},
		{"", http.MethodPost, `false`, ""},
		{"", http.MethodPost, `{"a":[]}`, ""},
		{"", http.MethodGet, `"no"`, ""},
		{host, http.MethodPost, `"no"`, ""},
		{host, http.MethodPost, `"unknown"`, "unknown"},
		{host, http.MethodPost, `false`, ""},
	} {
		err := parseRefusal(c.host, c.method, http.StatusForbidden, []byte(`{"error":"forbidden","message":"the real reason","delivered":`+c.delivered+`}`))
		if e := kinds.AsError(err); e.Code != kinds.NotAuthorized || e.Message != "the real reason" || e.Delivered() != kinds.Delivered(c.want) {
			t.Errorf("%+v: %v, delivered %q", c, e, e.Delivered())
		}
	}
}
