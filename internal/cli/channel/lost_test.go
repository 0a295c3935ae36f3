package channel

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
)

// What the daemon was sent is never said to be undelivered, also where it is gone when it
// is asked whether it lives.
func TestLostAfterItWasSent(t *testing.T) {
	f := newDaemon(t)
	f.ServeHTTP(func(w http.ResponseWriter, r *http.Request) {
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
	f.Answer(client.MethodWhoami, &client.Whoami{ID: clitest.MyID})
	f.Answer(client.MethodPeers, &client.Peers{})
	f.ServeHTTP(func(w http.ResponseWriter, r *http.Request) {
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
