package remote

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
)

// A host that is there and says nothing, or nothing more, is waited for as long as the
// caller wants to wait, and no longer.
// holds: security.md#the-budget
func TestASilentHostIsGivenUp(t *testing.T) {
	t.Parallel()
	var says atomic.Pointer[func(net.Conn)] // what the host does with a stream; nil: nobody reaches it
	var tries atomic.Int32
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	c := home(t, func(ctx context.Context) (Stream, error) {
		tries.Add(1)
		say := says.Load()
		if say == nil {
			<-ctx.Done()
			return nil, away
		}
		return openAnsweringStream(ctx, func(_ *http.Request, s net.Conn) {
			(*say)(s)
			io.Copy(io.Discard, s)
		}), nil
	})
	const channel = "channels/chan_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
	const message = channel + "/messages/msg_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
	c.followed.startFollowing(desk.ID, false) // whose goroutine belongs to no bubble, and may wait as it is
	await.Until(t, "its try", func() bool { return tries.Load() == 1 })
	c.ctx.Done()
	nothing := func(net.Conn) {}
	half := func(s net.Conn) { io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[1") }
	slowly := func(s net.Conn) {
		for part := range strings.SplitSeq("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n|[1|,2|]", "|") {
			time.Sleep(answerTime - time.Second)
			io.WriteString(s, part)
		}
	}
	trickles := func(s net.Conn) {
		_, err := io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n[")
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(s, "1")
		}
	}
	for name, r := range map[string]struct {
		says               *func(net.Conn)
		method, path, body string
		status             int
		delivered          kinds.Delivered
		after              time.Duration
	}{
		"an ask":                    {&nothing, "POST", channel + "/ask", `{"to":"desk","payload":{},"timeout":1}`, 504, kinds.DeliveredUnknown, time.Second + askGrace},
		"an ask that goes nowhere":  {nil, "POST", channel + "/ask", `{"to":"desk","payload":{},"timeout":1}`, 504, kinds.DeliveredNo, time.Second + askGrace},
		"an ask without a timeout":  {&nothing, "POST", channel + "/ask", `{"to":"desk","payload":{}}`, 504, kinds.DeliveredUnknown, 30*time.Second + askGrace},
		"an ask for too long":       {&nothing, "POST", channel + "/ask", `{"to":"desk","payload":{},"timeout":3601}`, 422, "", 0},
		"a read":                    {&nothing, "GET", channel, "", 504, kinds.DeliveredUnknown, answerTime},
		"a list that waits":         {&nothing, "GET", channel + "/messages?wait=40", "", 200, "", 40*time.Second + listTime},
		"a list that waits nowhere": {nil, "GET", channel + "/messages?wait=40", "", 200, "", 40*time.Second + listTime},
		"a list":                    {&nothing, "GET", channel + "/messages", "", 200, "", listTime},
		"a list that waits forever": {&nothing, "GET", channel + "/messages?wait=61", "", 422, "", 0},
		"half an answer":            {&half, "GET", message, "", 200, "", answerTime},
		"an answer without an end":  {&trickles, "GET", message, "", 200, "", answerTime + wholeTime},
		"a list without an end":     {&trickles, "GET", channel + "/messages?wait=40", "", 200, "", 40*time.Second + listTime + wholeTime},
		"an ask without an end":     {&trickles, "POST", channel + "/ask", `{"to":"desk","payload":{},"timeout":1}`, 200, "", time.Second + askGrace + wholeTime},
		"channels without an end":   {&trickles, "GET", "intents/intent_0102030405_01M7WK708745SZDSQ20JGH2Z1P/channels", "", 504, kinds.DeliveredUnknown, answerTime + wholeTime},
		"an answer in parts":        {&slowly, "GET", message, "", 200, "", 4 * (answerTime - time.Second)},
	} {
		synctest.Test(t, func(t *testing.T) {
			says.Store(r.says)
			ask := httptest.NewRequest(r.method, apiPath+r.path, strings.NewReader(r.body))
			ask.Header.Set("X-Agent-ID", "planner")
			w, began := httptest.NewRecorder(), time.Now()
			c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, ask)
			if took := time.Since(began); took != r.after {
				t.Errorf("%s: after %v, want %v", name, took, r.after)
			}
			if w.Code != r.status {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
			if incomplete := w.Header().Get(headerIncomplete); (incomplete != "") != (strings.HasPrefix(name, "a list") && r.says != &trickles) && r.status == 200 || incomplete != "" && w.Body.String() != "[]" {
				t.Errorf("%s: %s %s", name, incomplete, w.Body)
			}
			if r.says == &trickles {
				time.Sleep(time.Second) // it notices that nobody listens
			}
			if r.status == 504 {
				var e struct {
					Error     string          `json:"error"`
					Delivered kinds.Delivered `json:"delivered"`
				}
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error != "host_timeout" || e.Delivered != r.delivered {
					t.Errorf("%s: %s", name, w.Body)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		says.Store(&nothing)
		began := time.Now()
		err := c.readHostEvents(t.Context(), desk.ID, func() { t.Error("it has begun") })
		if took := time.Since(began); err == nil || took != answerTime {
			t.Errorf("a stream: after %v: %v", took, err)
		}
	})
}
