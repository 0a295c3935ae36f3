package channel

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
)

// A host that says the same again, whatever it is asked for, is shown once; one that has
// nothing and does not wait is asked ever more rarely.
func TestTailOfAHostThatRepeatsItself(t *testing.T) {
	f := newDaemon(t)
	const id = "chan_de5c000000_01M7WK708745SZDSQ20JGH2Z1P"
	f.AnswerHTTP(map[string]string{
		"GET channels/" + id:               `{"id":"` + id + `","name":"n","status":"closed"}`,
		"GET channels/" + id + "/messages": `[{"id":"msg_1","sender":"planner","to":null,"message_type":"notify","payload":{"text":"abcd"},"created_at":"2026-11-20T14:00:00.000000+00:00"}]`,
		"GET unsent":                       `[]`,
	})
	f.Answer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	if got := f.Run("channel", "tail", "-f", id, "--as", "reviewer"); got.Code != 0 || strings.Count(got.Out, "abcd") != 1 {
		t.Errorf("%+v", got)
	}
	var pause, all time.Duration
	for range 20 {
		pause = pauseAfter(pause, 0, time.Millisecond)
		all += pause
	}
	if pause != 2*time.Second || all < 20*time.Second {
		t.Errorf("20 empty answers take %v, the last pause is %v", all, pause)
	}
	if pauseAfter(pause, 1, 0) != 0 || pauseAfter(pause, 0, time.Minute) != 0 {
		t.Error("news, or a host that waits, is followed by a pause")
	}
}
