package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/openintent/api"
)

// TestAnswersLeadNowhereElse: what a host answers neither sends an agent here to another
// place nor gives it an id of another daemon's, and sets nothing in its client.
// holds: security.md#in-channels
func TestAnswersLeadNowhereElse(t *testing.T) {
	t.Parallel()
	var says atomic.Value // what the host answers next: it is followed, too, while this changes
	says.Store("")
	c := home(t, func(ctx context.Context) (Stream, error) {
		return openAnsweringStream(ctx, func(_ *http.Request, s net.Conn) { io.WriteString(s, says.Load().(string)) }), nil
	})
	const (
		intent  = "intent_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
		channel = "chan_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
		other   = "chan_9900000000_01M7WK708745SZDSQ20JGH2Z1P"
	)
	json := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	object := func(id, intent string) string { return fmt.Sprintf(`{"name":"x","id":%q,"intent_id":%q}`, id, intent) }
	message := func(in string) string {
		return fmt.Sprintf(`{"id":"msg_0102030405_1","channel_id":%q,"status":"delivered"}`, in)
	}
	refusal := func(code, channel string) string {
		body := fmt.Sprintf(`{"detail":"no","message":"no","error":%q,"channel_id":%q}`, code, channel)
		return fmt.Sprintf("HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for name, r := range map[string]struct {
		method, path, says string
		status             int
	}{
		"a channel":                      {"GET", "channels/" + channel, json(object(channel, intent)), 200},
		"a list":                         {"GET", "intents/" + intent + "/channels", json("[" + object(channel, intent) + "]"), 200},
		"no list":                        {"GET", "intents/" + intent + "/channels", json("[]"), 200},
		"nothing":                        {"DELETE", "channels/" + channel, "HTTP/1.1 204 No Content\r\n\r\n", 204},
		"a refusal":                      {"GET", "channels/" + channel, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", 404},
		"a redirection":                  {"GET", "channels/" + channel, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /api/v1/channels/" + other + "\r\nContent-Length: 0\r\n\r\n", 502},
		"a redirection of a close":       {"DELETE", "channels/" + channel, "HTTP/1.1 308 Permanent Redirect\r\nLocation: /api/v1/channels/" + other + "\r\nContent-Length: 0\r\n\r\n", 502},
		"another's channel":              {"GET", "channels/" + channel, json(object(other, intent)), 502},
		"another's channel in a list":    {"GET", "intents/" + intent + "/channels", json("[" + object(channel, intent) + "," + object(other, intent) + "]"), 502},
		"another's intent":               {"GET", "channels/" + channel, json(object(channel, strings.Replace(other, "chan", "intent", 1))), 502},
		"an id that is none":             {"GET", "channels/" + channel, json(object("questions", intent)), 502},
		"another's channel of that name": {"POST", "intents/" + intent + "/channels", refusal("channel_name_conflict", other), 502},
		"a channel of that name":         {"POST", "intents/" + intent + "/channels", refusal("channel_name_conflict", channel), 409},
		"a message":                      {"POST", "intents/" + intent + "/channels/talk/messages", json(message(channel)), 200},
		"a message elsewhere":            {"POST", "intents/" + intent + "/channels/talk/messages", json(message(other)), 502},
		"a message that breaks off":      {"POST", "intents/" + intent + "/channels/talk/messages", json(message(channel)[:40]), 502},
		"two ids":                        {"GET", "channels/" + channel, json(`{"id":"` + channel + `","id":"` + other + `"}`), 502},
	} {
		says.Store(r.says)
		body := io.Reader(nil)
		if r.method == http.MethodPost {
			body = strings.NewReader(`{"name":"talk","payload":{}}`)
		}
		request := httptest.NewRequest(r.method, apiPath+r.path, body)
		speak(request, "planner")
		w := httptest.NewRecorder()
		c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, request)
		if w.Code != r.status || w.Header().Get("Location") != "" || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
}
