package integration

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/kinds"
)

// TestChannelsClient: two agents of a daemon use each method of the typed client.
func TestChannelsClient(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	daemon := &client.Client{Socket: desk.SocketPath()}
	defer daemon.Close()
	planner := &channels.Client{Daemon: daemon, Home: desk.Home, Agent: "planner"}
	reviewer := &channels.Client{Daemon: daemon, Home: desk.Home, Agent: "reviewer"}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	intent, err := planner.CreateIntent(ctx, channels.IntentParams{Title: "Ship it", Description: "soon"})
	must(err)
	if got, err := planner.Intent(ctx, intent.ID); err != nil || got.Title != "Ship it" || got.Description != "soon" || got.CreatedBy != "planner" || got.CreatedAt.IsZero() {
		t.Errorf("intent: %+v, %v", got, err)
	}
	options := channels.ChannelOptions{Audit: true, MaxMessages: 50, TTLSecs: 3600}
	made, err := planner.CreateChannel(ctx, intent.ID, channels.ChannelParams{
		Name: "questions", Policy: channels.PolicyExplicit, Members: []string{"planner", "reviewer"}, Options: options,
	})
	must(err)
	got, err := reviewer.Channel(ctx, made.ID)
	if must(err); got.Name != "questions" || got.IntentID != intent.ID || got.Options != options || got.Policy != channels.PolicyExplicit || len(got.Members) != 2 || got.Status != channels.StatusOpen {
		t.Errorf("channel: %+v", got)
	}
	_, err = planner.SendByName(ctx, intent.ID, "progress", channels.SendParams{Type: channels.TypeNotify, Payload: jsontext.Value(`{"done":3}`)}, "")
	must(err)
	if list, err := planner.Channels(ctx, intent.ID); err != nil || len(list) != 2 {
		t.Errorf("channels: %+v, %v", list, err)
	}

	registered, err := reviewer.Register(ctx, channels.RegisterParams{ID: "reviewer", Role: "reads", Capabilities: []string{"go"}})
	if must(err); registered.Role != "reads" || registered.Status == "" || len(registered.JSON) == 0 {
		t.Errorf("registered: %+v", registered)
	}
	if list, err := planner.Agents(ctx); err != nil || len(list) != 1 || list[0].ID != "reviewer" {
		t.Errorf("agents: %+v, %v", list, err)
	}
	if a, err := planner.AgentRecord(ctx, "reviewer"); err != nil || a.Capabilities[0] != "go" || a.Host != "" {
		t.Errorf("record: %+v, %v", a, err)
	}
	if list, err := planner.Intents(ctx); err != nil || len(list.Intents) != 1 || list.Intents[0].Title != "Ship it" {
		t.Errorf("intents: %+v, %v", list, err)
	}
	if all, err := planner.AllChannels(ctx); err != nil || len(all.Channels) != 2 || len(all.Unlisted) != 0 || len(all.Intents) != 1 {
		t.Errorf("all channels: %+v, %v", all, err)
	}
	for _, in := range []string{"", intent.ID} {
		if ch, err := reviewer.FindChannel(ctx, in, "questions"); err != nil || ch.ID != made.ID {
			t.Errorf("found by name: %+v, %v", ch, err)
		}
		if _, err := reviewer.FindChannel(ctx, in, "answers"); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
			t.Errorf("found what is not there: %v", err)
		}
	}
	if ch, err := planner.ChangeChannel(ctx, made.ID, channels.ChannelChange{AddMembers: []string{"tester"}}); err != nil || len(ch.Members) != 3 {
		t.Errorf("changed: %+v, %v", ch, err)
	}
	if list, err := planner.Homes(ctx, intent.ID); err != nil || len(list) == 0 || list[0].Agent != "planner" {
		t.Errorf("homes: %+v, %v", list, err)
	}
	if list, err := planner.Unsent(ctx); err != nil || len(list) != 0 {
		t.Errorf("unsent: %+v, %v", list, err)
	}
	tail := reviewer.Tail(made.ID)
	if list, err := tail.ReadLast(ctx, 5); err != nil || len(list) != 0 {
		t.Errorf("the last messages: %+v, %v", list, err)
	}

	notice := channels.SendParams{Type: channels.TypeNotify, Payload: jsontext.Value(`{"text":"Half done."}`), Metadata: jsontext.Value(`{"n":1}`), ExpiresAt: channels.Time{Time: time.Now().Add(time.Hour)}}
	first, err := planner.Send(ctx, made.ID, notice, "key")
	must(err)
	if again, err := planner.Send(ctx, made.ID, notice, "key"); err != nil || again.ID != first.ID {
		t.Errorf("sent again: %+v, %v, want %s", again, err, first.ID)
	}
	if list, err := tail.ReadNext(ctx); err != nil || len(list) != 1 || list[0].ID != first.ID || string(list[0].Payload) != `{"text":"Half done."}` {
		t.Errorf("the next messages: %+v, %v", list, err)
	}
	replied := make(chan error, 1)
	go func() {
		since, left := first.ID, 2
		for left > 0 {
			list, err := reviewer.Messages(ctx, made.ID, channels.MessagesParams{Since: since, Wait: 30 * time.Second})
			if err != nil {
				replied <- err
				return
			}
			for _, m := range list {
				if since = m.ID; m.Type == channels.TypeRequest {
					_, err := reviewer.Reply(ctx, made.ID, m.ID, channels.ReplyParams{Payload: jsontext.Value(`{"text":"v2.3"}`)})
					replied <- err
					left--
				}
			}
		}
	}()
	ask := channels.AskParams{To: "reviewer", Payload: jsontext.Value(`{"text":"Which schema?"}`), TimeoutSecs: 30}
	answer, err := planner.Ask(ctx, made.ID, ask)
	if must(err); answer.Sender != "reviewer" || string(answer.Payload) != `{"text":"v2.3"}` || answer.Type != channels.TypeResponse {
		t.Errorf("answer: %+v", answer)
	}
	must(<-replied)
	several, err := planner.AskSeveral(ctx, made.ID, ask)
	if must(err); len(several.Responses) != 1 || several.Request.To != "reviewer" {
		t.Errorf("answers: %+v", several)
	}
	must(<-replied)

	if closed, err := planner.CloseChannel(ctx, made.ID); err != nil || closed.Status != channels.StatusClosed {
		t.Errorf("closed: %+v, %v", closed, err)
	}
	for err = nil; err == nil; {
		_, err = tail.ReadNext(ctx)
	}
	if err != io.EOF {
		t.Errorf("the tail of a closed channel ended with %v", err)
	}
	_, err = reviewer.Send(ctx, made.ID, notice, "")
	refusal, ok := errors.AsType[*channels.Refusal](err)
	if e, is := errors.AsType[*kinds.Error](err); !ok || !is || refusal.Host != "" || refusal.Status != 409 || e.Code != kinds.Invalid {
		t.Errorf("sent to a closed channel: %v", err)
	}
	deleted, err := planner.DeleteChannel(ctx, made.ID)
	if must(err); deleted.ChannelID != made.ID {
		t.Errorf("deleted: %+v", deleted)
	}
	must(planner.FreeHome(ctx, intent.ID, "reviewer"))
	_, err = reviewer.Deregister(ctx, "reviewer")
	must(err)
	_, err = planner.Channel(ctx, made.ID)
	if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.NotFound {
		t.Errorf("deleted: %v", err)
	}
}
