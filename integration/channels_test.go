package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
)

// http makes requests to the daemon's http.sock, as an agent.
func (m *machine) http(agent string) func(method, path, key, body string) (status int, answer string) {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.Home, "http.sock"))
		},
	}}
	return func(method, path, key, body string) (int, string) {
		r, err := http.NewRequestWithContext(m.T.Context(), method, "http://acpd/api/v1/"+path, strings.NewReader(body))
		if err != nil {
			m.T.Fatal(err)
		}
		r.Header.Set("X-Agent-ID", agent)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		answer, err := c.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return 0, err.Error()
		}
		return answer.StatusCode, string(text)
	}
}

// TestKillsInChannels: daemons are killed again and again while an agent at one sends
// to a channel at the other. It repeats what got no answer, and each message is there
// once, in order.
func TestKillsInChannels(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachine(t, "desk"), running(t, "laptop")
	if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte("channels: {open_to: [laptop]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.StartDaemon()
	befriend(t, desk, laptop)
	planner, reviewer := desk.http("planner"), laptop.http("reviewer")
	_, made := planner("POST", "intents", "", `{"title":"Ship it"}`)
	var intent, channel struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(made), &intent); err != nil {
		t.Fatal(made, err)
	}
	_, made = planner("POST", "intents/"+intent.ID+"/channels", "", `{"name":"build"}`)
	if err := json.Unmarshal([]byte(made), &channel); err != nil {
		t.Fatal(made, err)
	}
	var sent atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			n := sent.Load()
			switch status, answer := reviewer("POST", "channels/"+channel.ID+"/messages", fmt.Sprint("key-", n), fmt.Sprintf(`{"payload":{"n":%d}}`, n)); status {
			case 0:
				select { // its daemon is being killed
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			case http.StatusCreated:
				sent.Add(1)
			default:
				ended <- fmt.Errorf("%d: %d %s", n, status, answer)
				return
			}
		}
		ended <- nil
	}()
	for i := range 6 {
		before := sent.Load()
		await.Until(t, "some messages", func() bool { return sent.Load() > before+5 || len(ended) > 0 })
		victim := []*machine{desk, laptop}[i%2]
		victim.KillDaemon()
		if i < 4 { // while this one is down
			during := sent.Load()
			await.Until(t, "some more", func() bool { return victim == laptop || sent.Load() > during+1 || len(ended) > 0 })
		}
		victim.StartDaemon()
	}
	stop()
	if err := await.Receive(t, "the end of sending", ended); err != nil {
		t.Fatal(err)
	}
	n := int(sent.Load())
	var got []struct {
		Payload struct {
			N int `json:"n"`
		} `json:"payload"`
	}
	await.Until(t, "all messages", func() bool {
		status, answer := planner("GET", "channels/"+channel.ID+"/messages?wait=0", "", "")
		return status == 200 && json.Unmarshal([]byte(answer), &got) == nil && len(got) >= n
	})
	for i, m := range got {
		if m.Payload.N != i {
			t.Fatalf("message %d is %d, of %d", i, m.Payload.N, len(got))
		}
	}
}
