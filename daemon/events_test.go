package daemon

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

func TestSubscribeRefusesWhatNeverComes(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk").dial()
	e := desk.refused(kinds.Invalid, "subscribe", payload(`{"events":["up","nope"]}`))
	if !strings.Contains(e.Message, `"nope"`) || !strings.Contains(e.Message, "up, moved, down, refused") {
		t.Errorf("%v", e)
	}
	desk.must("subscribe", client.SubscribeParams{Events: client.EventFilter{Types: client.EventTypes()}}, nil)
}

func TestSubscriberGetsCopies(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	copies, events := make(chan *client.Message, 16), make(chan *client.Event, 16)
	l := laptop.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		switch r.Method {
		case client.NotificationMessage:
			m := new(client.Message)
			if err := r.ReadParams(m); err != nil {
				t.Error(err)
			}
			copies <- m
		case client.NotificationEvent:
			e := new(client.Event)
			if err := r.ReadParams(e); err != nil {
				t.Error(err)
			}
			events <- e
		}
	})
	l.must("subscribe", client.SubscribeParams{Kinds: []string{"notify", "ping", "pong"}, Peers: []string{"desk"}, Events: client.EventFilter{Types: []client.EventType{"down"}}}, nil)
	asker := desk.dial()
	var r client.Receipt
	asker.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})}, &r)
	if r.State != client.Held {
		t.Errorf("a copy counted as %s", r.State)
	}
	if m := await.Receive(t, "copy", copies); m.Direction != client.In || m.Envelope.ID != r.ID || m.Envelope.From != desk.ID() {
		t.Errorf("%+v", m)
	}
	asker.must("ping", client.PingParams{To: "laptop"}, nil)
	directions := map[string]client.MessageDirection{}
	for range 2 {
		m := await.Receive(t, "copy", copies)
		directions[m.Envelope.Kind] = m.Direction
	}
	if directions["ping"] != client.In || directions["pong"] != client.Out {
		t.Errorf("%v", directions)
	}
	desk.stop()
	if e := await.Receive(t, "event", events); e.Type != client.EventDown || e.Name != "desk" || e.Peer != desk.ID() {
		t.Errorf("%+v", e)
	}
}

// The details of events of one type have one order.
func TestEventDetailsHaveAnOrder(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	const events = 64 // of which half would have another order
	details := make(chan string, events)
	l := desk.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		e := new(client.Event)
		if err := r.ReadParams(e); err != nil {
			t.Error(err)
		}
		details <- string(e.Details)
	})
	l.must("subscribe", client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventRefused}}}, nil)
	for range events {
		desk.handlePeerEvent(peer.Event{Type: peer.EventRefused, Peer: identity.ID{7}, Addr: "192.0.2.1:7117", Detail: "direct", At: time.Now()})
	}
	for range events {
		if got := await.Receive(t, "event", details); got != `{"addr":"192.0.2.1:7117","detail":"direct"}` {
			t.Fatal(got)
		}
	}
}

// The program is told how many peers are connected, each time that it changes.
func TestConnectedIsTold(t *testing.T) {
	t.Parallel()
	told := make(chan int, 16)
	hub := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "hub", NoMDNS: true, Connected: func(peers int) { told <- peers }})
	for n, name := range []string{"desk", "laptop"} {
		d := start(t, stateDir(t), name)
		befriend(t, d, hub)
		d.dial().must("ping", client.PingParams{To: "hub"}, nil)
		if got := await.Receive(t, "number", told); got != n+1 {
			t.Errorf("%d peers are told of when %s came, want %d", got, name, n+1)
		}
	}
	hub.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	if got := await.Receive(t, "number", told); got != 1 {
		t.Errorf("%d peers are told of when one has gone", got)
	}
}
