package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
)

// remove takes a socket of the fake's away: who dials it is told that there is no daemon.
func (f *fake) remove(socket string) {
	if err := os.Remove(filepath.Join(f.home, socket)); err != nil && !os.IsNotExist(err) {
		f.t.Error(err)
	}
}

// What the daemon was sent is never said to be undelivered, also where it is gone when it
// is asked whether it lives.
func TestLostAfterItWasSent(t *testing.T) {
	f := newFake(t)
	f.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		f.remove(client.SocketName)
		<-r.Context().Done()
	})
	got := f.run("channel", "reply", "chan_1", "msg_1", "v2.3", "--as", "reviewer")
	if got.code != 6 || !strings.HasSuffix(got.err, "; delivered: unknown\n") {
		t.Errorf("to a person: %+v", got)
	}
	got = f.run("channel", "reply", "chan_1", "msg_1", "v2.3", "--as", "reviewer", "--json")
	if got.code != 6 || !strings.Contains(got.out, "no daemon at") || !strings.Contains(got.out, `"delivered":"unknown"`) {
		t.Errorf("%+v", got)
	}
}

// The same where Go's Transport sends it again, and finds no daemon then.
func TestLostWhenItWasSentAgain(t *testing.T) {
	const intent = "intent_acdc000000_01M7WK708745SZDSQ20JGH2Z99"
	f := newFake(t)
	f.on(client.MethodWhoami, &client.Whoami{ID: me})
	f.on(client.MethodPeers, &client.Peers{})
	f.serveHTTP(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/"); {
		case r.Method == http.MethodPost:
			io.Copy(io.Discard, r.Body)
			f.remove(client.HTTPSocketName)
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
	got := f.run("channel", "send", "questions", "hi", "--key", "k", "--as", "planner", "--json")
	if got.code != 6 || !strings.Contains(got.out, "no daemon at") || !strings.Contains(got.out, `"delivered":"unknown"`) {
		t.Errorf("%+v", got)
	}
	got = f.run("channel", "send", "chan_1", "hi", "--key", "k", "--as", "planner", "--json")
	if got.code != 6 || !strings.Contains(got.out, `"delivered":"no"`) {
		t.Errorf("to no daemon at all: %+v", got)
	}
}
