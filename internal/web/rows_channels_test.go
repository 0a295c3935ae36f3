package web

import (
	"slices"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
)

// TestChannelsComeBack: while a daemon begins, the page says in words that channels do not answer, and it asks
// again soon.
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
	slow := poll{pause: time.Minute}
	for _, c := range []struct {
		took time.Duration
		err  error
		want time.Duration
	}{{0, nil, time.Minute}, {time.Hour, nil, 20 * time.Hour}, {0, errNoChannels, failedPause}, {time.Second, errNoChannels, 20 * time.Second}} {
		if got := slow.pauseAfter(c.took, c.err); got != c.want {
			t.Errorf("after %v in %v: %v", c.err, c.took, got)
		}
	}
}
