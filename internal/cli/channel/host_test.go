package channel

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// What a host says is said to be its word, and has no code that only this machine can know
// of; what the own daemon says has.
func TestWhoseWordItIs(t *testing.T) {
	const id = "chan_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
	f := newDaemon(t)
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	var host, body string
	var status int
	cut := false
	f.ServeHTTP(func(w http.ResponseWriter, _ *http.Request) {
		if host != "" {
			w.Header().Set("X-Answered-By", host)
		}
		if cut {
			w.Header().Set("Content-Length", "1000")
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
		if cut {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	said := func(code string) string { return fmt.Sprintf(`{"error":%q,"message":"so it is"}`, code) }
	for _, r := range []struct {
		status    int
		body      string
		cut       bool
		own, code int    // exit codes: of the own daemon's word, and the host's
		words     string // of the host's
	}{
		{503, said("cancelled"), false, 6, 5, "the intent's machine takes nothing now, try again later: it says: so it is"},
		{503, said("overloaded"), false, 1, 7, "desk says: so it is"},
		{403, said("not_trusted"), false, 4, 4, "desk says: so it is"},
		{404, said("not_trusted"), false, 4, 7, "desk says: so it is"},
		{404, said("unknown_host"), false, 5, 7, "channels.open_to"},
		{404, said("not_found"), false, 1, 7, "desk says: so it is; an open intent there"},
		{409, said("channel_closed"), false, 1, 7, "desk says: so it is"},
		{429, said("overloaded"), false, 1, 7, "desk says: so it is"},
		{502, said("host_unreachable"), false, 5, 7, "desk says: so it is"},
		{504, said("timeout"), false, 3, 3, "desk says: so it is"},
		{500, "<html>", false, 1, 7, "desk says: answers 500 Internal Server Error"},
		{200, "[", true, 6, 5, "the answer of the intent's machine broke off"},
	} {
		status, body, cut = r.status, r.body, r.cut
		host = ""
		if got := f.Run("channel", "show", id, "--as", "reviewer"); got.Code != r.own || strings.Contains(got.Err, "desk says") || strings.Contains(got.Err, "the intent's machine") {
			t.Errorf("%d %s of the own daemon: %+v, want exit code %d", r.status, r.body, got, r.own)
		}
		host = clitest.DeskID.String()
		if got := f.Run("channel", "show", id, "--as", "reviewer"); got.Code != r.code || !strings.Contains(got.Err, r.words) {
			t.Errorf("%d %s of the host: %+v, want exit code %d and %q", r.status, r.body, got, r.code, r.words)
		}
	}
}

// What an answer says of delivery is read whatever its type is, and a host's word that
// nothing was delivered is not this machine's.
func TestDeliveredOfAnAnswer(t *testing.T) {
	host := clitest.DeskID.String()
	for _, c := range []struct{ host, method, delivered, want string }{
		{"", http.MethodPost, `"no"`, "no"},
		{"", http.MethodPost, `"unknown"`, "unknown"},
		{"", http.MethodPost, `"maybe"`, ""},
		{"", http.MethodPost, `false`, ""},
		{"", http.MethodPost, `{"a":[]}`, ""},
		{"", http.MethodGet, `"no"`, ""},
		{host, http.MethodPost, `"no"`, ""},
		{host, http.MethodPost, `"unknown"`, "unknown"},
		{host, http.MethodPost, `false`, ""},
	} {
		err := refusalError(c.host, c.method, http.StatusForbidden, []byte(`{"error":"forbidden","message":"the real reason","delivered":`+c.delivered+`}`))
		if e := kinds.AsError(err); e.Code != kinds.NotAuthorized || e.Message != "the real reason" || e.Delivered() != kinds.Delivered(c.want) {
			t.Errorf("%+v: %v, delivered %q", c, e, e.Delivered())
		}
	}
}

// What other machines list is read as far as it has room in one command, which each has
// its portion of; a machine that lists without end takes nothing from another.
func TestListsOfMachinesAreBounded(t *testing.T) {
	f := newDaemonWith(t, 5*time.Minute)
	f.Answer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.Answer(client.MethodPeers, &client.Peers{})
	const rest = "_01M7WK708745SZDSQ20JGH2Z"
	far := func(n int) string { return fmt.Sprintf("intent_0102030405%s%02d", rest, n) }
	good := "intent_" + clitest.DeskID.String()[:10] + rest + "99"
	const intents, each = 60, 1 << 20
	list := []string{}
	for n := range intents {
		list = append(list, fmt.Sprintf(`{"id":%q}`, far(n)))
	}
	list = append(list, fmt.Sprintf(`{"id":%q}`, good))
	f.ServeHTTP(func(w http.ResponseWriter, r *http.Request) {
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
	if n := strings.Count(got.Out, "chan_intents"); got.Code != 0 || n == 0 || n > maxHostsBytes/2/each || !strings.Contains(got.Out, "chan_good") {
		t.Errorf("exit code %d, %d lists of the long ones: %.2000s", got.Code, n, got.Out)
	}
	if n := strings.Count(got.Err, "the lists of its machine are longer than a command reads"); n != 1 {
		t.Errorf("it is told %d times: %.2000s", n, got.Err)
	}
}
