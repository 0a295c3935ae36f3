package web

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
)

// TestChannelsComeBack: while a daemon begins, the page says in words that channels do not answer, and then
// no more.
func TestChannelsComeBack(t *testing.T) {
	f := newFixture(t, nil)
	f.daemon.RemoveSocket(client.HTTPSocketName)
	browser, page := f.letIn()
	s, _ := f.openStream(browser, page)
	tells := func(problem string) func(*update) bool {
		return func(u *update) bool {
			return slices.ContainsFunc(u.Parts, func(p partUpdate) bool { return p.Part == partChannels && p.Problem == problem })
		}
	}
	s.until("it is told", tells(errNoChannels.Error()))
	f.daemon.SetHTTPAnswers(map[string]string{"GET intents": `{"intents":[]}`})
	s.until("channels are read again", tells(""))
}
