package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

var desk = identity.Peer{ID: identity.ID{1, 2, 3, 4, 5}, Name: "desk"}

// home makes a Gateway for agents whose only host is the desk, which answers with what
// open returns.
func home(t testing.TB, open func(context.Context) (Stream, error)) *Gateway {
	t.Helper()
	return homeLogging(t, slog.DiscardHandler, open)
}

func homeLogging(t testing.TB, log slog.Handler, open func(context.Context) (Stream, error)) *Gateway {
	t.Helper()
	c, err := OpenGateway(t.Context(), Config{
		Self: identity.ID{9}, Engine: engineOn(openStore(t), slog.New(log)),
		Trusted: func(id identity.ID) (identity.Peer, bool) { return desk, id == desk.ID },
		Peers:   func() []identity.Peer { return []identity.Peer{desk} },
		Hosts:   func() []identity.ID { return nil },
		OpenTo:  func(identity.Peer) bool { return false },
		Open:    func(ctx context.Context, _ identity.ID) (Stream, error) { return open(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	return c
}

// A message that the host will never take is refused; one that it cannot take now waits.
func TestRefusedOrLater(t *testing.T) {
	t.Parallel()
	const send = "channels/chan_0102030405_01M7WK708745SZDSQ20JGH2Z1P/messages"
	for _, r := range []struct {
		status int
		code   string
		want   int
	}{
		{429, "too_many", 429}, {413, "too_large", 413}, {408, "late", 408}, {404, "not_found", 404}, {429, "", 429},
		{429, "overloaded", 201}, {503, "cancelled", 201}, {500, "internal", 201},
	} {
		answer := fmt.Sprintf("HTTP/1.1 %d No\r\nConnection: close\r\n\r\n{\"error\":%q}", r.status, r.code)
		c := home(t, func(context.Context) (Stream, error) { return &spoken{in: strings.NewReader(answer)}, nil })
		status, got := local[obj](t, c, "planner", "POST", send, `{"payload": {}}`)
		if status != r.want || (status == 201) != (got["status"] == "pending") || status != 201 && got["error"] != r.code {
			t.Errorf("%d %s: %d %v, want %d", r.status, r.code, status, got, r.want)
		}
	}
}

// sends returns messages that are sent by send once deliver is called: nobody is reached
// while they are taken.
func sends(t *testing.T, send postFunc, all ...outgoingMessage) *messageQueue {
	t.Helper()
	reach := false
	q, err := openMessageQueue(t.Context(), openStore(t), slog.New(slog.DiscardHandler), quiet(), func(ctx context.Context, p *outgoingMessage) (int, []byte, error) {
		if !reach {
			return 0, nil, kinds.Errorf(kinds.Unreachable, "away")
		}
		return send(ctx, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		p.host, p.answer = desk.ID, []byte("{}")
		if err := q.sendOrQueue(t.Context(), &p, httptest.NewRecorder()); err != nil {
			t.Fatal(err)
		}
	}
	reach = true
	return q
}

// What fails with one agent's message keeps nothing from the others, but a host that
// takes nothing is not asked by all of them.
func TestAFailureIsOfOneLine(t *testing.T) {
	t.Parallel()
	var all []outgoingMessage
	for i := range 40 { // lines come in any order
		all = append(all, outgoingMessage{id: fmt.Sprint("m", i), agent: fmt.Sprint("planner", i%8), body: []byte("{}")})
	}
	broken := errors.New("the host fails at this one")
	tries := 0
	q := sends(t, func(_ context.Context, p *outgoingMessage) (int, []byte, error) {
		tries++
		if p.agent < "planner4" {
			return 0, nil, broken
		}
		return http.StatusCreated, nil, nil
	}, all...)
	if err := q.deliverWaitingMessages(t.Context(), desk.ID); err != broken || q.count != 20 || tries != 24 {
		t.Errorf("%d of 40 wait after %d tries: %v", q.count, tries, err)
	}
	tries = 0
	q.post = func(context.Context, *outgoingMessage) (int, []byte, error) {
		tries++
		return 0, nil, kinds.Errorf(kinds.Overloaded, "come again")
	}
	if err := q.deliverWaitingMessages(t.Context(), desk.ID); err == nil || q.count != 20 || tries != 1 {
		t.Errorf("%d of 20 wait after %d tries: %v", q.count, tries, err)
	}
}

// An idempotency key is one of its sender in its channel, while messages wait too.
func TestKeysAreOfAChannel(t *testing.T) {
	t.Parallel()
	path := func(channel string) string { return apiPath + "channels/" + channel + "/messages" }
	refuse := func(context.Context, *outgoingMessage) (int, []byte, error) {
		return http.StatusNotFound, []byte(`{"error":"gone"}`), nil
	}
	q := sends(t, refuse, outgoingMessage{id: "m1", agent: "planner", idempotencyKey: "k1", path: path("gone"), body: []byte("1")})
	if err := q.deliverWaitingMessages(t.Context(), desk.ID); err != nil || q.count != 0 {
		t.Fatal(q.count, err)
	}
	q.post = func(context.Context, *outgoingMessage) (int, []byte, error) {
		return 0, nil, kinds.Errorf(kinds.Unreachable, "away")
	}
	for i, r := range []struct {
		key, path, body string
		want            int // 0: key_reused
		answer          string
	}{
		{"k0", path("build"), "0", 201, "{0}"}, // from here on messages wait
		{"k1", path("gone"), "1", 404, `{"error":"gone"}`},
		{"k1", path("gone"), "2", 0, ""},
		{"k1", path("build"), "2", 201, "{3}"},
		{"k1", path("build"), "2", 201, "{3}"},
		{"k1", path("build"), "3", 0, ""},
		{"k1", path("build") + "/msg_1/reply", "2", 0, ""},
		{"k1", path("build2"), "3", 201, "{7}"},
		{"k1", path("build2") + "/msg_1/reply", "3", 0, ""},
		{"k1", apiPath + "intents/i/channels/build/messages", "3", 201, "{9}"},
	} {
		p := outgoingMessage{id: fmt.Sprint("p", i), host: desk.ID, agent: "planner", idempotencyKey: r.key, path: r.path, body: []byte(r.body), answer: fmt.Appendf(nil, "{%d}", i)}
		w := httptest.NewRecorder()
		err := q.sendOrQueue(t.Context(), &p, w)
		if (err != nil) != (r.want == 0) || err == nil && (w.Code != r.want || w.Body.String() != r.answer) {
			t.Errorf("%d: %v: %d %s", i, err, w.Code, w.Body)
		}
	}
	if q.count != 4 {
		t.Errorf("%d wait", q.count)
	}
}

// A host that refuses all that waits fills no log, and is known for what is kept of that.
func TestRefusalsOfAHost(t *testing.T) {
	t.Parallel()
	var all []outgoingMessage
	for i := range 5 * int(budget.LogLines.Peer) {
		all = append(all, outgoingMessage{id: fmt.Sprint("m", i), agent: "planner", body: []byte("{}")})
	}
	q := sends(t, func(context.Context, *outgoingMessage) (int, []byte, error) {
		return http.StatusForbidden, []byte("{}"), nil
	}, all...)
	var text strings.Builder
	q.hostLog = new(budget.Book).OpenLog(slog.New(slog.NewTextHandler(&text, nil)))
	q.log = slog.New(slog.NewTextHandler(&text, nil))
	if err := q.deliverWaitingMessages(t.Context(), desk.ID); err != nil || q.count != 0 {
		t.Fatal(q.count, err)
	}
	if n := strings.Count(text.String(), "\n"); n != int(budget.LogLines.Peer) {
		t.Errorf("%d lines for %d refusals", n, len(all))
	}
	q.hostLog.Close()
	if last := text.String(); !strings.Contains(last, fmt.Sprintf("lines=%d", len(all)-int(budget.LogLines.Peer))) {
		t.Errorf("what was left out is not summed up: %s", last)
	}
	if hosts, err := q.listHosts(t.Context()); err != nil || !slices.Equal(hosts, []identity.ID{desk.ID}) {
		t.Errorf("known: %v %v", hosts, err)
	}
	if err := q.deleteHostMessages(t.Context(), desk.ID); err != nil {
		t.Fatal(err)
	}
	if hosts, err := q.listHosts(t.Context()); err != nil || len(hosts) > 0 {
		t.Errorf("known once it is forgotten: %v %v", hosts, err)
	}
}

// What is wanted of a host that does not trust this daemon is refused with that, and
// nothing waits for it; a message that waits already goes on waiting.
func TestAHostThatDoesNotTrustThisDaemon(t *testing.T) {
	t.Parallel()
	var trusts atomic.Bool
	c := home(t, func(context.Context) (Stream, error) {
		if trusts.Load() {
			return nil, kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
		}
		return nil, kinds.Errorf(kinds.NotTrusted, "desk does not trust this daemon; ask its owner to run acpctl trust there").WithDelivered(kinds.DeliveredNo)
	})
	for _, r := range [][3]string{
		{"GET", farChannel, ""}, {"GET", farChannel + "/messages", ""}, {"GET", farChannel + "/messages?wait=20", ""}, {"POST", farChannel + "/messages", `{"payload":{}}`},
		{"POST", farChannel + "/ask", `{"to":"desk","payload":{}}`}, {"GET", "intents/intent_0102030405_01M7WK708745SZDSQ20JGH2Z1P/channels", ""},
		{"GET", "subscribe/" + farChannel, ""},
	} {
		status, e := local[obj](t, c, "planner", r[0], r[1], r[2])
		if message, _ := e["message"].(string); status != 403 || e["error"] != codeNotTrusted || e["delivered"] != "no" || !strings.Contains(message, "ask its owner to run acpctl trust there") {
			t.Errorf("%s %s: %d %v", r[0], r[1], status, e)
		}
	}
	trusts.Store(true)
	_, m := local[obj](t, c, "planner", "POST", farChannel+"/messages", `{"payload":{}}`)
	trusts.Store(false)
	if err := c.messages.deliverWaitingMessages(t.Context(), desk.ID); kinds.AsError(err).Code != kinds.NotTrusted {
		t.Errorf("it is sent: %v", err)
	}
	if status, list := local[[]obj](t, c, "planner", "GET", "unsent", ""); status != 200 || len(list) != 1 || list[0]["id"] != m["id"] || list[0]["status"] != "pending" {
		t.Errorf("what waits: %d %v", status, list)
	}
}
