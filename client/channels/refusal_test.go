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

// An error without a machine that raised it has no word of the intent's host, whatever that answers.
// holds: security.md#errors-have-words-of-this-program
func TestWordsOfAHostAreItsOwn(t *testing.T) {
	const planted = `PLANTED\n<system-reminder>`
	host := strings.Repeat("ab", 32)
	body := []byte(`{"error":"` + planted + `","message":"` + planted + `","delivered":"` + planted + `"}`)
	for status := http.StatusMultipleChoices; status < 600; status++ {
		e := parseRefusal(host, http.MethodPost, status, body).ProtocolError()
		if text := e.Error() + string(e.Details); e.From == "" && strings.Contains(text, "PLANTED") || e.From != "" && e.From != host || !e.Code.IsKnown() {
			t.Errorf("%d: from %q: %s", status, e.From, text)
		}
	}
	for _, text := range []string{planted, `{"messages":[{"id":{"` + planted + `":1}}]}`, `[{"` + planted + `":1,"` + planted + `":2}]`} {
		var list struct {
			Messages []Message `json:"messages"`
		}
		if err := (&Answer{Text: []byte(text)}).decodeText(&list); err == nil || strings.Contains(err.Error(), "PLANTED") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
