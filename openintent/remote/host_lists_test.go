package remote

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
)

// A list that many hosts have a part in comes with what there is in time: a host that is
// silent, or says a little now and then, is missing, and named; one that says too much takes
// no room that is another's.
// holds: security.md#the-budget
func TestListsOfManyHosts(t *testing.T) {
	t.Parallel()
	const listed = `{"intents":[{"id":"intent_%s_00000000000000000000000001","title":"x"}]}`
	db := openStore(t)
	synctest.Test(t, func(t *testing.T) {
		answer := func(s net.Conn, body string) {
			fmt.Fprintf(s, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
		says := map[identity.ID]func(net.Conn){
			{1}: func(s net.Conn) { answer(s, fmt.Sprintf(listed, identity.ID{1}.String()[:object.HostDigits])) },
			{2}: func(net.Conn) {},
			{3}: func(s net.Conn) {
				_, err := io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
				for err == nil {
					time.Sleep(100 * time.Millisecond)
					_, err = io.WriteString(s, "{")
				}
			},
			{4}: func(s net.Conn) { answer(s, `{"intents":[`+strings.Repeat(" ", maxGathered)) },
			{5}: func(s net.Conn) { io.WriteString(s, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n{}") },
		}
		var hosts []identity.ID
		var peers []identity.Peer
		for id := range says {
			hosts, peers = append(hosts, id), append(peers, identity.Peer{ID: id, Name: id.Label()})
		}
		book := new(budget.Book)
		cfg := engineOn(db, slog.New(slog.DiscardHandler))
		cfg.Budget = book
		c, err := OpenGateway(t.Context(), Config{
			Self: identity.ID{9}, Engine: cfg,
			Trusted: func(identity.ID) (identity.Peer, bool) { return identity.Peer{}, true },
			Peers:   func() []identity.Peer { return peers }, Hosts: func() []identity.ID { return hosts },
			OpenTo: func(identity.Peer) bool { return false },
			Open: func(ctx context.Context, to identity.ID) (Stream, error) {
				return openAnsweringStream(ctx, func(_ *http.Request, s net.Conn) {
					says[to](s)
					io.Copy(io.Discard, s)
				}), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		began, w, r := time.Now(), httptest.NewRecorder(), httptest.NewRequest("GET", apiPath+"intents", nil)
		speak(r, "planner")
		c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
		if took := time.Since(began); w.Code != 200 || took != gatherTime || strings.Count(w.Body.String(), `"id"`) != 1 || !strings.Contains(w.Body.String(), identity.ID{1}.String()) {
			t.Errorf("after %v: %d %s", took, w.Code, w.Body)
		}
		want := strings.Join([]string{identity.ID{2}.String(), identity.ID{3}.String(), identity.ID{5}.String()}, ", ")
		if missing := w.Header().Get("X-Missing-Hosts"); missing != want {
			t.Errorf("missing: %s, want %s", missing, want)
		}
		time.Sleep(time.Second) // the slow one notices that nobody listens
		for _, u := range book.ListUsage() {
			if u.Row.Name == budget.Answers.Name && u.Held != 0 {
				t.Errorf("%s is charged for %d bytes when all is over", u.Peer.Label(), u.Held)
			}
		}
	})
}
