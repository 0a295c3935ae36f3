package channel

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// What a host says is said to be its word, and has no code that only this machine can know
// of; what the own daemon says has.
func TestWhoseWordItIs(t *testing.T) {
	const id = "chan_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	var host, body string
	var status int
	cut := false
	f.SetHTTPHandler(func(w http.ResponseWriter, _ *http.Request) {
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
		{503, said("cancelled"), false, 6, 5, "the intent's machine takes nothing now: try again later\nit says: so it is"},
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

// What the daemon was sent is never said to be undelivered, also where it is gone when it
// is asked whether it lives.
func TestLostAfterItWasSent(t *testing.T) {
	f := newDaemon(t)
	f.SetHTTPHandler(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		f.RemoveSocket(client.SocketName)
		<-r.Context().Done()
	})
	got := f.Run("channel", "reply", "chan_1", "msg_1", "v2.3", "--as", "reviewer")
	if got.Code != 6 || !strings.HasSuffix(got.Err, "; delivered: unknown\n") {
		t.Errorf("to a person: %+v", got)
	}
	got = f.Run("channel", "reply", "chan_1", "msg_1", "v2.3", "--as", "reviewer", "--json")
	if got.Code != 6 || !strings.Contains(got.Out, "no daemon at") || !strings.Contains(got.Out, `"delivered":"unknown"`) {
		t.Errorf("%+v", got)
	}
}

// The same where Go's Transport sends it again, and finds no daemon then.
func TestLostWhenItWasSentAgain(t *testing.T) {
	const intent = "intent_acdc000000_01M7WK708745SZDSQ20JGH2Z99"
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetHTTPHandler(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/"); {
		case r.Method == http.MethodPost:
			io.Copy(io.Discard, r.Body)
			f.RemoveSocket(client.HTTPSocketName)
			panic(http.ErrAbortHandler)
		case path == "intents" && r.FormValue("offset") != "0":
			w.Write([]byte("{}"))
		case path == "intents":
			fmt.Fprintf(w, `{"intents":[{"id":%q}]}`, intent)
		case r.FormValue("offset") != "0":
			w.Write([]byte("[]"))
		default:
			w.Write([]byte(`[{"id":"chan_1","name":"questions","status":"open"}]`))
		}
	})
	got := f.Run("channel", "send", "questions", "hi", "--key", "k", "--as", "planner", "--json")
	if got.Code != 6 || !strings.Contains(got.Out, "no daemon at") || !strings.Contains(got.Out, `"delivered":"unknown"`) {
		t.Errorf("%+v", got)
	}
	got = f.Run("channel", "send", "chan_1", "hi", "--key", "k", "--as", "planner", "--json")
	if got.Code != 6 || !strings.Contains(got.Out, `"delivered":"no"`) {
		t.Errorf("to no daemon at all: %+v", got)
	}
}
