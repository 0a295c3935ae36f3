package channel

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/ui"
)

func TestChannelTextIsTamed(t *testing.T) {
	const evil = `a\u001b[2Jb\u0007c\u202ed`
	const channel = `{"id":"chan_1","intent_id":"intent_1","name":"` + evil + `","status":"open","member_policy":"intent","members":[],"options":{"x":"` + "\u202e" + `"},"created_at":"2026-11-20T14:00:00.000000+00:00"}`
	const message = `{"id":"msg_1","sender":"planner","to":null,"message_type":"notify","payload":{"text":"` + evil + `\nnext"},"created_at":"2026-11-20T14:00:00.000000+00:00"}`
	f := newDaemon(t)
	f.AnswerHTTP(map[string]string{
		"GET intents":                   `{"intents":[{"id":"intent_1","title":"` + evil + `"},{"id":"intent_2"}]}`,
		"GET intents/intent_1/channels": "[" + channel + "]",
		"GET channels/chan_1":           channel,
		"GET channels/chan_1/messages":  "[" + message + "]",
		"POST channels/chan_1/ask":      message,
	})
	for _, args := range [][]string{{"list", "intent_1"}, {"show", "chan_1"}, {"tail", "chan_1"}, {"ask", "chan_1", "reviewer", "?"}} {
		for _, got := range []clitest.Result{f.Run(append([]string{"channel"}, args...)...), f.RunTyped("", append([]string{"channel", "--json=false"}, args...)...)} {
			// The one sequence that a terminal may get is acpctl's own, for bold type.
			all := strings.NewReplacer(ui.Bold, "", ui.Plain, "").Replace(got.Out + got.Err)
			if strings.ContainsAny(all, "\x1b\x07\u202e") || got.Code != 0 || all == "" {
				t.Errorf("%v: exit code %d, %q", args, got.Code, all)
			}
		}
	}
	f.Want(f.Run("channel", "tail", "chan_1"), 0, "2026-11-20T14:00:00Z\tplanner\t*\tnotify\tmsg_1\tabcd next\n", "")
}

// What is not found may be where nobody can be asked.
func TestChannelMayBeElsewhere(t *testing.T) {
	f := newDaemon(t)
	f.AnswerHTTP(map[string]string{"GET intents": `{"intents":[]}`})
	near, stranger := client.Peer{ID: clitest.MyID, Name: "laptop", State: client.PeerConnected}, client.Peer{ID: clitest.MyID, State: client.PeerPending}
	far := client.Peer{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted}
	wary := client.Peer{ID: clitest.DeskID, Name: "tower", State: client.PeerTrusted, Refuses: true}
	for _, want := range []struct {
		peers []client.Peer
		code  int
		words string
	}{
		{[]client.Peer{near, stranger}, 1, "that you can see"},
		{[]client.Peer{near, stranger, far}, 5, "it may be on desk, which is not: try again when that is back, or name it by its id"},
		{[]client.Peer{far, far, far}, 5, "it may be on desk or another of the 3 machines that gave no list"},
		{[]client.Peer{near, wary}, 4, "it may be on tower, which does not trust this daemon: ask its owner to run acpctl trust there"},
		{[]client.Peer{wary, far}, 5, "it may be on desk or another of the 2 machines that gave no list"},
	} {
		f.Answer(client.MethodPeers, &client.Peers{Peers: want.peers})
		if got := f.Run("channel", "show", "questions", "--as", "reviewer"); got.Code != want.code || !strings.Contains(got.Err, want.words) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A page that is short is not the last: lists are bounded in bytes, too.
func TestChannelListHasAllPages(t *testing.T) {
	f := newDaemon(t)
	one := func(id string) string {
		return `[{"id":"chan_` + id + `","intent_id":"intent_1","name":"n` + id + `","status":"open"}]`
	}
	f.AnswerHTTP(map[string]string{
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
	f.AnswerHTTP(map[string]string{
		"GET intents": `{"intents":[{"id":"intent_2"},{"id":"intent_1","title":"Research Q1"}]}`,
		"GET intents/intent_1/channels": `[{"id":"chan_1","intent_id":"intent_1","name":"questions","status":"open","member_policy":"intent",` +
			`"last_message_at":null,"message_count":7}]`,
		"GET intents/intent_2/channels": `{"error":"unreachable","message":"laptop is out of reach"}`,
	})
	got := f.Run("channel", "list")
	if want := "questions\topen\tintent\t7\t-\tchan_1\tintent_1\tResearch Q1\n"; got != (clitest.Result{Out: want, Err: "acpctl channel: intent_2: laptop is out of reach\n"}) {
		t.Errorf("%+v", got)
	}
	if got := f.Run("channel", "list", "intent_2"); got.Code != 5 {
		t.Errorf("an intent out of reach: %+v", got)
	}
	if got := f.Run("channel", "list", "intent_3"); got.Code != 1 || !strings.Contains(got.Err, "the daemon answers 502 Bad Gateway") {
		t.Errorf("an answer that is none: %+v", got)
	}
}

// A channel here is found by its name whatever other machines list: endless pages, one
// of the same name, silence.
func TestChannelHereIsFoundFirst(t *testing.T) {
	f := newDaemon(t)
	f.Answer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "plan", State: client.PeerTrusted}}})
	const rest = "_01M7WK708745SZDSQ20JGH2Z1P"
	here, there := "intent_"+clitest.MyID.String()[:10]+rest, "intent_"+clitest.DeskID.String()[:10]+rest
	ch := func(id, name, status string) string {
		return `{"id":"chan_` + id + `","name":"` + name + `","status":"` + status + `"}`
	}
	endless := "[" + ch("9", "questions", "open") + "," + ch("8", "far", "open") + "]"
	f.AnswerHTTP(map[string]string{
		"GET intents":                               `{"intents":[{"id":"` + there + `"},{"id":"` + here + `"}]}`,
		"GET intents from 2":                        `{"intents":[{"id":"` + there + `"},{"id":"` + here + `"}]}`,
		"GET intents/" + here + "/channels":         "[" + ch("1", "questions", "open") + "," + ch("2", "old", "closed") + "]",
		"GET intents/" + there + "/channels":        endless,
		"GET intents/" + there + "/channels from 2": endless,
		"GET channels/chan_1":                       ch("1", "questions", "open"),
		"GET channels/chan_8":                       ch("8", "far", "open"),
	})
	for name, want := range map[string]string{"questions": "chan_1", "far": "chan_8"} {
		if got := f.Run("channel", "show", name, "--as", "reviewer"); got.Code != 0 || !strings.Contains(got.Out, want) || got.Err != "" {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	if got := f.Run("channel", "list", "--as", "reviewer"); got.Code != 0 || !strings.Contains(got.Err, "not in this list: plan (out of reach)\n") || strings.Count(got.Out, "chan_") != 4 {
		t.Errorf("list: %+v", got)
	}
	for name, words := range map[string]string{"old": "is closed: name it by its id, chan_2", here + "/old": "is closed: name it by its id, chan_2", here + "/none": "that you can see"} {
		if got := f.Run("channel", "show", name, "--as", "reviewer"); got.Code != 1 || !strings.Contains(got.Err, words) {
			t.Errorf("%s: %+v, want %q", name, got, words)
		}
	}
	// What would be refused under the id, too, is not sent there.
	for _, line := range [][]string{{"send", "old", "x"}, {"ask", "old", "planner", "x"}, {"reply", "old", "msg_1", "x"}, {"ask", here + "/old", "planner", "x"}} {
		got := f.Run(append([]string{"channel", "--as", "reviewer"}, line...)...)
		if want := "acpctl channel " + line[0] + ": the channel \"" + line[1] + "\" is closed: create another with acpctl channel create; acpctl channel tail chan_2 shows what was said there\n"; got.Code != 1 || got.Err != want {
			t.Errorf("%q: %+v, want %q", line, got, want)
		}
	}
}

// What another machine keeps back ends nothing here: it has its time, in all, and is told of.
func TestChannelsOfASilentMachine(t *testing.T) {
	f := newDaemonWith(t, 300*time.Millisecond)
	f.Answer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	const rest = "_01M7WK708745SZDSQ20JGH2Z1"
	here, one, other := "intent_"+clitest.MyID.String()[:10]+rest+"P", "intent_"+clitest.DeskID.String()[:10]+rest+"Q", "intent_"+clitest.DeskID.String()[:10]+rest+"R"
	f.AnswerHTTP(map[string]string{
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
	if got := run("show", "far"); got.Code != 5 || !strings.Contains(got.Err, one+late) || !strings.Contains(got.Err, "which is connected and gave no list: try again, or name it by its id, or ask its owner") {
		t.Errorf("by its name: %+v", got)
	}
	for _, intent := range []string{one, other} {
		if got := run("show", intent+"/far"); got.Code != 3 || !strings.Contains(got.Err, "has not answered within 300ms: try again, or name the channel by its id") {
			t.Errorf("by intent and name: %+v", got)
		}
	}
}

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

// What a host says of a channel moves no cursor and adds no line.
func TestChannelsOfAHostAreTamed(t *testing.T) {
	f := newDaemon(t)
	const evil = `x\u001b[2J\u009b31m\u202e\r\nFAKE`
	const channel = `{"id":"chan_1","intent_id":"intent_1","name":"` + evil + `","status":"` + evil + `","member_policy":"` + evil + `","members":["` + evil + `"]}`
	f.AnswerHTTP(map[string]string{
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
