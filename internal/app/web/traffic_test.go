package web

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestUnreadTrafficIsTold: while a daemon does not say what passes and what is open, messages and waiting both
// have a problem, and none when it says so again. A daemon that is away is told by the polls alone.
func TestUnreadTrafficIsTold(t *testing.T) {
	for name, refusal := range map[string]error{
		"too many watch":  kinds.Errorf(kinds.Overloaded, "traffic: 64 connections watch already: end one of them"),
		"an older daemon": &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "traffic: unknown method"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			refuse := func(err error) (asked chan struct{}) {
				asked = make(chan struct{}, 64)
				f.daemon.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) {
					asked <- struct{}{}
					return nil, err
				})
				return asked
			}
			asked := refuse(kinds.Errorf(kinds.DaemonUnavailable, "no daemon: start acpd"))
			browser, page := f.letIn()
			s, _ := f.openStream(browser, page)
			for range 2 { // the first answer has been taken when the second call comes
				await.Receive(t, "the traffic is asked for", asked)
			}
			for _, part := range trafficParts {
				f.board.mu.Lock()
				if why := f.board.part(part).problem; why != "" {
					t.Errorf("the daemon is away, and %s says: %s", part, why)
				}
				f.board.mu.Unlock()
			}
			refuse(refusal)
			tells := func(problem bool) {
				told := make(map[string]bool)
				s.until("all of them say so", func(u *update) bool {
					for _, p := range u.Parts {
						if slices.Contains(trafficParts, p.Part) && (p.Problem != "") == problem {
							told[p.Part] = true
						}
					}
					return len(told) == len(trafficParts)
				})
			}
			tells(true)
			f.setAnswers(nil)
			tells(false)
		})
	}
}
