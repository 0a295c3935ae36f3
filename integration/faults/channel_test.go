//go:build faults

package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// channel is one of an intent at desk, in which an agent of laptop counts. It says a
// number again, under the same key, until it is told that it was taken.
type channel struct {
	c    *check
	id   string
	next int
}

// beginWithChannel is begin with a channel, and what writes in it: for talk. More may
// be made before what is open is counted.
func beginWithChannel(t *testing.T, more ...func(*check)) (*check, *channel) {
	t.Helper()
	c := newCheck(t, func(desk *live.Machine) {
		if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte("channels: {open_to: [laptop]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	c.befriend(c.desk.Addr, c.laptop.Addr)
	ch := &channel{c: c}
	var made struct {
		ID string `json:"id"`
	}
	for _, of := range []string{"intents", "intents/%s/channels"} {
		path := strings.Replace(of, "%s", made.ID, 1)
		status, answer := request(t.Context(), c.desk, "planner", "POST", path, "", `{"title": "Ship it", "name": "build"}`)
		if status != http.StatusCreated {
			t.Fatalf("POST %s: %d %s", path, status, answer)
		}
		if err := json.Unmarshal([]byte(answer), &made); err != nil {
			t.Fatal(err)
		}
	}
	ch.id = made.ID
	ch.write(t.Context())
	for _, make := range more {
		make(c)
	}
	c.ready()
	return c, ch
}

// request makes one to a daemon's http.sock; without an answer the status is 0.
func request(ctx context.Context, s *side, agent, method, path, key, body string) (status int, answer string) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.Home, "http.sock"))
	}}
	r, err := http.NewRequestWithContext(ctx, method, "http://acpd/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("X-Agent-ID", agent)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	got, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return 0, err.Error()
	}
	return got.StatusCode, string(text)
}

// write says the next number once.
func (ch *channel) write(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, limit+slack)
	defer cancel()
	status, answer := request(within, ch.c.laptop, "reviewer", "POST", "channels/"+ch.id+"/messages", fmt.Sprint("key-", ch.next), fmt.Sprintf(`{"payload": {"n": %d}}`, ch.next))
	ch.c.count("channel", fmt.Sprint(status))
	switch {
	case status == http.StatusCreated:
		ch.next++
	case status == http.StatusServiceUnavailable: // its daemon is about to end
	case status != 0 || within.Err() != nil:
		ch.c.t.Errorf("message %d: %d %s", ch.next, status, answer)
	}
}

// check looks whether all that was taken is there, once and in its order.
func (ch *channel) check() {
	t := ch.c.t
	t.Helper()
	type message struct {
		ID      string `json:"id"`
		Type    string `json:"message_type"`
		Payload struct {
			N int `json:"n"`
		} `json:"payload"`
	}
	var all []message
	last := ""
	await.Until(t, "all messages are there", func() bool {
		path := "channels/" + ch.id + "/messages?limit=1000"
		if last != "" {
			path += "&since=" + last
		}
		var page []message
		if status, answer := request(t.Context(), ch.c.desk, "planner", "GET", path, "", ""); status != http.StatusOK || json.Unmarshal([]byte(answer), &page) != nil {
			t.Fatalf("list the messages: %d %s", status, answer)
		}
		for _, m := range page {
			if last = m.ID; m.Type != "request" {
				all = append(all, m)
			}
		}
		return len(page) == 0 && len(all) >= ch.next
	})
	for i, m := range all {
		if m.Payload.N != i {
			t.Fatalf("message %d says %d", i, m.Payload.N)
		}
	}
	t.Logf("%d messages in the channel", len(all))
}
