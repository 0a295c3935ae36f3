package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// The tables of mail and channels are no wider than their terminal. A reason is whole, below its row.
func TestTablesOfMailAndChannelsHaveTheWidthOfTheirTerminal(t *testing.T) {
	f := newDaemon(t)
	const (
		channel1 = "chan_0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF"
		channel2 = "chan_0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RG"
		intent   = "intent_acdc000000_01JD3M8Q2W7ZK5T9XVB4NHC6RF"
		message  = "msg_acdc000000_01JD3M8Q2W7ZK5T9XVB4NHC6RF"
		file     = "20260101120000_planner_question_0a1b.yaml"
		reason   = "nothing listens at 192.0.2.1:7117; start its daemon, and see acpctl doctor"
	)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetAnswer(client.MethodOACPQueue, &client.OACPQueue{Entries: []client.OACPQueued{
		{Project: "demo", Agent: "reviewer", Peer: frankfurt1, File: file, State: client.MailWaiting, Reason: reason},
		{Project: "demo", Agent: "reviewer", Peer: frankfurt2, File: file, State: client.MailWaiting, Reason: reason},
	}})
	f.SetAnswer(client.MethodOACPBindings, &client.OACPBindings{Bindings: []client.OACPBinding{
		{Project: "demo", Agent: "reviewer", Peer: frankfurt1, Mode: client.ModeMirror}, {Project: "demo", Agent: "builder", Peer: frankfurt2, Mode: client.ModeMirror},
	}})
	channelOf := func(id, name string) string {
		return `{"id":"` + id + `","intent_id":"` + intent + `","name":"` + name + `","status":"open","member_policy":"intent","message_count":12,"last_message_at":"2026-11-20T14:00:00.000000+00:00"}`
	}
	unsent := `{"id":"` + message + `","seq":1,"channel_id":"` + channel1 + `","sender":"` + frankfurt1 + `","to":null,"message_type":"notify","payload":{"text":"x"},` +
		`"created_at":"2026-11-20T14:00:00.000000+00:00","status":"refused","refusal":{"status":403,"error":"not_member","message":"` + reason + `"}}`
	answers := map[string]string{
		"intents":                         `{"intents":[{"id":"` + intent + `","title":"What the machines of the team run, and since when"}]}`,
		"intents/" + intent + "/channels": "[" + channelOf(channel1, "research-questions") + "," + channelOf(channel2, "progress") + "]",
		"intents/" + intent + "/homes":    `[{"agent_id":"` + frankfurt1 + `","home":""},{"agent_id":"reviewer@` + clitest.DeskID.String() + `","home":""}]`,
		"unsent":                          "[" + unsent + "," + strings.Replace(unsent, frankfurt1, frankfurt2, 1) + "]",
	}
	f.SetHTTPHandler(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		answer := answers[path]
		if first := r.FormValue("offset") + r.FormValue("after"); strings.Trim(first, "0") != "" {
			answer = map[bool]string{true: "{}", false: "[]"}[path == "intents"]
		}
		w.Write([]byte(answer))
	})
	for _, verb := range []string{"oacp queue", "oacp bindings", "channel list", "channel list " + intent, "channel homes " + intent, "channel unsent"} {
		for _, columns := range []int{40, 60, 66, 80, 100, 122, 160, 200} {
			lines := runAtWidth(t, f, columns, strings.Fields(verb)...)
			if hasReason := verb == "oacp queue" || verb == "channel unsent"; hasReason != (len(lines) > 3) {
				t.Errorf("%s at %d columns: %q", verb, columns, lines)
			} else if hasReason && !strings.Contains(strings.Join(strings.Fields(strings.Join(lines, " ")), " "), reason) {
				t.Errorf("%s at %d columns: the reason is not whole: %q", verb, columns, lines)
			}
			for _, line := range lines {
				if n := ui.CountCells(line); n > columns {
					t.Errorf("%s at %d columns: %d cells: %q", verb, columns, n, line)
				}
			}
			if columns >= 200 && verb == "channel list" && !strings.Contains(lines[1], channel1) {
				t.Errorf("%s at %d columns: no id: %q", verb, columns, lines)
			}
		}
	}
}
