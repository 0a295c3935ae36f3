package channel

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func TestChannelTextIsTamed(t *testing.T) {
	const evil = `a\u001b[2Jb\u0007c\u202ed`
	const channel = `{"id":"chan_1","intent_id":"intent_1","name":"` + evil + `","status":"open","member_policy":"intent","members":[],"options":{"x":"` + "\u202e" + `"},"created_at":"2026-11-20T14:00:00.000000+00:00"}`
	const message = `{"id":"msg_1","sender":"planner","to":null,"message_type":"notify","payload":{"text":"` + evil + `\nnext"},"created_at":"2026-11-20T14:00:00.000000+00:00"}`
	f := newDaemon(t)
	f.SetHTTPAnswers(map[string]string{
		"GET intents":                   `{"intents":[{"id":"intent_1","title":"` + evil + `"},{"id":"intent_2"}]}`,
		"GET intents/intent_1/channels": "[" + channel + "]",
		"GET channels/chan_1":           channel,
		"GET channels/chan_1/messages":  "[" + message + "]",
		"POST channels/chan_1/ask":      message,
	})
	for _, args := range [][]string{{"list", "intent_1"}, {"show", "chan_1"}, {"tail", "chan_1"}, {"ask", "chan_1", "reviewer", "?"}} {
		for _, got := range []clitest.Result{f.Run(append([]string{"channel"}, args...)...), f.RunInteractive("", append([]string{"channel", "--json=false"}, args...)...)} {
			// The one sequence that a terminal may get is acpctl's own, for bold type.
			all := strings.NewReplacer(ui.Bold, "", ui.Plain, "").Replace(got.Out + got.Err)
			if strings.ContainsAny(all, "\x1b\x07\u202e") || got.Code != 0 || all == "" {
				t.Errorf("%v: exit code %d, %q", args, got.Code, all)
			}
		}
	}
	f.WantResult(f.Run("channel", "tail", "chan_1"), 0, "2026-11-20T14:00:00Z\tplanner\t*\tnotify\tmsg_1\tabcd next\n", "")
}

// What a host says of a channel moves no cursor and adds no line.
func TestChannelsOfAHostAreTamed(t *testing.T) {
	f := newDaemon(t)
	const evil = `x\u001b[2J\u009b31m\u202e\r\nFAKE`
	const channel = `{"id":"chan_1","intent_id":"intent_1","name":"` + evil + `","status":"` + evil + `","member_policy":"` + evil + `","members":["` + evil + `"]}`
	f.SetHTTPAnswers(map[string]string{
		"GET intents":                   `{"intents":[{"id":"intent_1"}]}`,
		"GET intents/intent_1/channels": "[" + channel + "]",
		"GET channels/chan_1":           channel,
	})
	for _, args := range [][]string{{"channel", "list"}, {"channel", "show", "chan_1"}} {
		got := f.Run(args...)
		if got.Code != 0 || strings.ContainsAny(got.Out, "\x1b\u009b\u202e\r") || strings.Contains(got.Out, "\nFAKE") {
			t.Errorf("%v: %q", args, got.Out)
		}
	}
}
