package channel

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// A host that says the same again, whatever it is asked for, is shown once.
func TestTailOfAHostThatRepeatsItself(t *testing.T) {
	f := newDaemon(t)
	const id = "chan_de5c000000_01M7WK708745SZDSQ20JGH2Z1P"
	f.SetHTTPAnswers(map[string]string{
		"GET channels/" + id:               `{"id":"` + id + `","name":"n","status":"closed"}`,
		"GET channels/" + id + "/messages": `[{"id":"msg_1","sender":"planner","to":null,"message_type":"notify","payload":{"text":"abcd"},"created_at":"2026-11-20T14:00:00.000000+00:00"}]`,
		"GET unsent":                       `[]`,
	})
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	if got := f.Run("channel", "tail", "-f", id, "--as", "reviewer"); got.Code != 0 || strings.Count(got.Out, "abcd") != 1 {
		t.Errorf("%+v", got)
	}
}
