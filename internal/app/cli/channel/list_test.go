package channel

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// A page that is short is not the last: lists are bounded in bytes, too.
func TestChannelListHasAllPages(t *testing.T) {
	f := newDaemon(t)
	one := func(id string) string {
		return `[{"id":"chan_` + id + `","intent_id":"intent_1","name":"n` + id + `","status":"open"}]`
	}
	f.SetHTTPAnswers(map[string]string{
		"GET intents":                          `{"intents":[{"id":"intent_1"}]}`,
		"GET intents from 1":                   `{"intents":[{"id":"intent_2"}]}`,
		"GET intents/intent_1/channels":        one("1"),
		"GET intents/intent_1/channels from 1": one("2"),
		"GET intents/intent_2/channels":        one("3"),
	})
	got := f.Run("channel", "list")
	for _, id := range []string{"chan_1", "chan_2", "chan_3"} {
		if got.Code != 0 || strings.Count(got.Out, id) != 1 {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// A host that is out of reach is told of, and the other channels are listed.
func TestChannelListGoesOn(t *testing.T) {
	f := newDaemon(t)
	f.SetHTTPAnswers(map[string]string{
		"GET intents": `{"intents":[{"id":"intent_2"},{"id":"intent_1","title":"Research Q1"}]}`,
		"GET intents/intent_1/channels": `[{"id":"chan_1","intent_id":"intent_1","name":"questions","status":"open","member_policy":"intent",` +
			`"last_message_at":null,"message_count":7}]`,
		"GET intents/intent_2/channels": `{"error":"unreachable","message":"laptop is out of reach"}`,
	})
	got := f.Run("channel", "list")
	if want := "questions\topen\tintent\t7\t-\tchan_1\tintent_1\tResearch Q1\n"; got != (clitest.Result{Out: want, Err: "acpctl channel list: intent_2: laptop is out of reach\n"}) {
		t.Errorf("%+v", got)
	}
	if got := f.Run("channel", "list", "intent_2"); got.Code != 5 {
		t.Errorf("an intent out of reach: %+v", got)
	}
	if got := f.Run("channel", "list", "intent_3"); got.Code != 1 || !strings.Contains(got.Err, "the daemon answers 502 Bad Gateway") {
		t.Errorf("an answer that is none: %+v", got)
	}
}

// What another machine keeps back ends nothing here: it has its time, in all, and is told of.
// holds: security.md#the-budget
func TestChannelsOfASilentMachine(t *testing.T) {
	f := newDaemonWith(t, 300*time.Millisecond)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	const rest = "_01M7WK708745SZDSQ20JGH2Z1"
	here, one, other := "intent_"+clitest.MyID.String()[:10]+rest+"P", "intent_"+clitest.DeskID.String()[:10]+rest+"Q", "intent_"+clitest.DeskID.String()[:10]+rest+"R"
	f.SetHTTPAnswers(map[string]string{
		"GET intents":                        `{"intents":[{"id":"` + here + `"},{"id":"` + one + `"},{"id":"` + other + `"}]}`,
		"GET intents/" + here + "/channels":  `[{"id":"chan_1","name":"questions","status":"open"}]`,
		"GET intents/" + one + "/channels":   clitest.Silent,
		"GET intents/" + other + "/channels": clitest.Trickling,
		"GET channels/chan_1":                `{"id":"chan_1","name":"questions","status":"open"}`,
		"GET intents missing":                clitest.DeskID.String(),
	})
	run := func(args ...string) clitest.Result {
		return f.Run(append(append([]string{"channel"}, args...), "--as", "reviewer")...)
	}
	late := ": its machine has not answered within 300ms\n"
	if got := run("list"); got.Code != 0 || strings.Count(got.Out, "chan_") != 1 || !strings.Contains(got.Err, "not in this list: desk (connected, but gave no list: it is slow, or its policy allows this daemon no channels)\n") || !strings.Contains(got.Err, one+late) || !strings.Contains(got.Err, other+late) {
		t.Errorf("list: %+v", got)
	}
	if got := run("show", "questions"); got.Code != 0 || got.Err != "" {
		t.Errorf("what is here: %+v", got)
	}
	if got := run("show", "far"); got.Code != 5 || !strings.Contains(got.Err, one+late) || !strings.Contains(got.Err, "which is connected and gave no list: try again, or name it by its id, or ask its owner") ||
		!strings.Contains(got.Err, "channels.open_to there") || !strings.Contains(got.Err, "INTENT/far") {
		t.Errorf("by its name: %+v", got)
	}
	for _, intent := range []string{one, other} {
		if got := run("show", intent+"/far"); got.Code != 3 || !strings.Contains(got.Err, "has not answered within 300ms: try again, or name the channel by its id") {
			t.Errorf("by intent and name: %+v", got)
		}
	}
}

// What other machines list is read as far as it has room in one command, which each has
// its portion of; a machine that lists without end takes nothing from another.
func TestListsOfMachinesAreBounded(t *testing.T) {
	f := newDaemonWith(t, 5*time.Minute)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	const rest = "_01M7WK708745SZDSQ20JGH2Z"
	far := func(n int) string { return fmt.Sprintf("intent_0102030405%s%02d", rest, n) }
	good := "intent_" + clitest.DeskID.String()[:10] + rest + "99"
	const intents, each = 60, 1 << 20
	list := []string{}
	for n := range intents {
		list = append(list, fmt.Sprintf(`{"id":%q}`, far(n)))
	}
	list = append(list, fmt.Sprintf(`{"id":%q}`, good))
	f.SetHTTPHandler(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		switch {
		case path == "intents" && r.FormValue("offset") == "0":
			fmt.Fprintf(w, `{"intents":[%s]}`, strings.Join(list, ","))
		case path == "intents":
			w.Write([]byte(`{}`))
		case r.FormValue("offset") != "0":
			w.Write([]byte("[]"))
		case path == "intents/"+good+"/channels":
			w.Write([]byte(`[{"id":"chan_good","name":"questions","status":"open"}]`))
		default: // a channel, and much that is none
			fmt.Fprintf(w, `[{"id":"chan_%s","name":"x","status":"open"}%s]`, path, strings.Repeat(" ", each))
		}
	})
	got := f.Run("channel", "list", "--as", "reviewer")
	if n := strings.Count(got.Out, "chan_intents"); got.Code != 0 || n == 0 || n > 64<<20/2/each || !strings.Contains(got.Out, "chan_good") {
		t.Errorf("exit code %d, %d lists of the long ones: %.2000s", got.Code, n, got.Out)
	}
	if n := strings.Count(got.Err, "the lists of its machine are longer than a command reads"); n != 1 {
		t.Errorf("it is told %d times: %.2000s", n, got.Err)
	}
}
