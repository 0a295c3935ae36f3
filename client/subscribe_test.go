package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
)

func TestSubscribe(t *testing.T) {
	subscribed := make(chan *jsonrpc.Conn, 4)
	s := newServer(t, func(_ context.Context, c *jsonrpc.Conn, r *jsonrpc.Request) {
		var p SubscribeParams
		if err := r.ReadParams(&p); err != nil || !slices.Equal(p.Events.Types, []EventType{EventUp}) {
			t.Errorf("got %s, %v", r.Params, err)
		}
		r.Respond(nil)
		subscribed <- c
	})
	c := &Client{Socket: s.path}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string, 16)
	ended := make(chan error)
	go func() {
		ended <- c.Subscribe(ctx, SubscribeParams{Events: EventFilter{Types: []EventType{EventUp}}},
			func(m *Message) { got <- string(m.Direction) + " " + string(m.Envelope.Payload) },
			func(e *Event) { got <- string(e.Type) + " " + e.Name })
	}()
	expect := func() {
		t.Helper()
		conn := <-subscribed
		conn.Notify(NotificationMessage, &Message{Envelope: inbound("query", `{"question":"x"}`).Envelope, Direction: In})
		conn.Notify(NotificationEvent, &Event{Type: EventUp, Name: "desk", At: time.Unix(0, 0).UTC()})
		conn.Notify("of_tomorrow", nil)
		for _, want := range []string{`in {"question":"x"}`, `up desk`} {
			if s := <-got; s != want {
				t.Errorf("got %s, want %s", s, want)
			}
		}
	}
	expect()
	s.stop()
	s.start()
	expect()
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("Subscribe ended with %v", err)
	}
}
