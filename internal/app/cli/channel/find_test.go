package channel

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// What is not found may be where nobody can be asked.
func TestChannelMayBeElsewhere(t *testing.T) {
	f := newDaemon(t)
	f.SetHTTPAnswers(map[string]string{"GET intents": `{"intents":[]}`})
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
		f.SetAnswer(client.MethodPeers, &client.Peers{Peers: want.peers})
		if got := f.Run("channel", "show", "questions", "--as", "reviewer"); got.Code != want.code || !strings.Contains(got.Err, want.words) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A channel here is found by its name whatever other machines list: endless pages, one
// of the same name, silence.
func TestChannelHereIsFoundFirst(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "plan", State: client.PeerTrusted}}})
	const rest = "_01M7WK708745SZDSQ20JGH2Z1P"
	here, there := "intent_"+clitest.MyID.String()[:10]+rest, "intent_"+clitest.DeskID.String()[:10]+rest
	ch := func(id, name, status string) string {
		return `{"id":"chan_` + id + `","name":"` + name + `","status":"` + status + `"}`
	}
	endless := "[" + ch("9", "questions", "open") + "," + ch("8", "far", "open") + "]"
	f.SetHTTPAnswers(map[string]string{
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
	for name, words := range map[string]string{"old": "is closed: create another", here + "/old": "is closed: create another", here + "/none": "that you can see"} {
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
