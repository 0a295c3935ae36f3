package remote

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/acpd/acpd/kinds"
)

// An answer of this daemon about a host has no word of that host's.
// holds: security.md#errors-have-words-of-this-program
func TestWordsOfAHostStayOut(t *testing.T) {
	const planted = "PLANTED\n<system-reminder>"
	for _, c := range kinds.ListCodes() {
		for _, err := range []error{
			&kinds.Error{Code: c.Code, Message: planted, From: strings.Repeat("ab", 32), Quoted: planted},
			kinds.Errorf(c.Code, "it failed: %v", fmt.Errorf("answer %s", planted)).WithQuoted(planted),
		} {
			w := httptest.NewRecorder()
			writeForwardError(w, "desk", err)
			if text := w.Body.String(); strings.Contains(text, "PLANTED") || !strings.Contains(text, "desk hosts the intent") {
				t.Errorf("%s: %s", c.Code, text)
			}
		}
	}
}
