package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
)

const farChannel = "channels/chan_0102030405_01M7WK708745SZDSQ20JGH2Z1P"

// Who asks by polling, as the SDK does, sends and then lists: while the host is out of
// reach its lists hold what waits for it, and none is an error.
func TestListsOfAHostThatIsAway(t *testing.T) {
	t.Parallel()
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	c := home(t, func(context.Context) (Stream, error) { return nil, away })
	send := func(kind, to string) string {
		t.Helper()
		status, m := local[obj](t, c, "planner", "POST", farChannel+"/messages", fmt.Sprintf(`{"message_type":%q,"to":%q,"payload":{"n":1}}`, kind, to))
		if status != 201 || m["status"] != "pending" {
			t.Fatal(status, m)
		}
		return m["id"].(string)
	}
	request, notice := send("request", "desk"), send("notify", "reviewer")
	if status, m := local[obj](t, c, "planner", "POST", farChannel+"/messages/"+request+"/reply", `{"payload":{}}`); status != 201 {
		t.Fatal(status, m)
	}
	other := strings.Replace(farChannel, "P", "Q", 1)
	for _, l := range []struct {
		agent, path string
		want        string
	}{
		{"planner", farChannel + "/messages", "request notify response"},
		{"planner", farChannel + "/messages?types=request", "request"},
		{"planner", farChannel + "/messages?to=desk", "request response"},
		{"planner", farChannel + "/messages?since=" + request, "notify response"},
		{"planner", farChannel + "/messages?limit=1", "response"},
		{"planner", farChannel + "/messages?limit=1&since=" + request, "notify"},
		{"planner", farChannel + "/messages?status=expired", ""},
		{"planner", farChannel + "/messages?wait=20&since=2026-01-01T00:00:00Z", "request notify response"},
		{"planner", other + "/messages", ""},
		{"reviewer", farChannel + "/messages", ""}, // it is not its message
	} {
		r := httptest.NewRequest("GET", apiPath+l.path, nil)
		speak(r, l.agent)
		w := httptest.NewRecorder()
		c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
		var list []obj
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || w.Header().Get(headerIncomplete) != codeUnreachable {
			t.Errorf("%s: %d %s %v", l.path, w.Code, w.Body, w.Header())
		}
		var kinds []string
		for _, m := range list {
			kinds = append(kinds, m["message_type"].(string))
			if m["status"] != "pending" {
				t.Errorf("%s: %v", l.path, m)
			}
		}
		if got := strings.Join(kinds, " "); got != l.want {
			t.Errorf("%s of %s: %q, want %q", l.path, l.agent, got, l.want)
		}
	}
	if status, m := local[obj](t, c, "planner", "GET", farChannel+"/messages/"+notice, ""); status != 200 || m["status"] != "pending" {
		t.Error(status, m)
	}
}

// A list that waits for a host which is away waits as long as its caller wants, and
// asks it again once it is back.
func TestAListWaitsForItsHost(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var there atomic.Bool
			c := home(t, func(context.Context) (Stream, error) {
				if !there.Load() {
					return nil, kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
				}
				return &spoken{in: strings.NewReader("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]")}, nil
			})
			began := time.Now()
			done := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				r := httptest.NewRequest("GET", apiPath+farChannel+"/messages?wait=30", nil)
				speak(r, "planner")
				w := httptest.NewRecorder()
				c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
				done <- w
			}()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("it is answered at once: %s", (<-done).Body)
			}
			if back {
				there.Store(true)
				c.SetPeerConnected(desk.ID, true)
			}
			w := <-done
			took, want, incomplete := time.Since(began), 30*time.Second, codeUnreachable
			if back {
				want, incomplete = 10*time.Second, ""
			}
			if w.Code != 200 || w.Body.String() != "[]" || took != want || w.Header().Get(headerIncomplete) != incomplete {
				t.Errorf("after %v: %d %s %v", took, w.Code, w.Body, w.Header())
			}
		})
	}
}

// An ask whose host is lost ends as a timeout does, and nobody knows what has become of
// it; one that did not reach its host says so.
func TestAnAskWhoseHostIsLost(t *testing.T) {
	t.Parallel()
	for reads, want := range map[bool]struct {
		status    int
		code      string
		delivered string
	}{true: {504, codeTimeout, "unknown"}, false: {502, codeUnreachable, "no"}} {
		c := home(t, func(ctx context.Context) (Stream, error) {
			if !reads {
				return nil, kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
			}
			return openAnsweringStream(ctx, func(*http.Request, net.Conn) {}), nil
		})
		status, e := local[obj](t, c, "planner", "POST", farChannel+"/ask", `{"to":"desk","payload":{},"timeout":20}`)
		if status != want.status || e["error"] != want.code || e["delivered"] != want.delivered {
			t.Errorf("%v: %d %v", reads, status, e)
		}
	}
}
