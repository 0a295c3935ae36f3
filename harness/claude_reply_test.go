package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

func TestClaudeReplies(t *testing.T) {
	f := newFakeClaude(t)
	type reply struct {
		to   wire.MessageID
		text string
	}
	var mu sync.Mutex
	var replies []reply
	failing := errors.New("no such message")
	env := f.environment()
	env.Reply = func(_ context.Context, to wire.MessageID, text string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(text, "fail") {
			return failing
		}
		replies = append(replies, reply{to, text})
		return nil
	}
	s := f.find(env, newFamily())
	p, q := newPost(), newPost()
	for _, p := range []Post{p, q} {
		if _, err := s.Post(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	send := func(id, text string) {
		quoted, _ := jsontext.AppendQuote(nil, `<cross-session-message from="uds:/x/200.sock" from-name="alpha" from-mode="prompting">`+"\n"+text+"\n</cross-session-message>")
		f.send(s.(*claude).from, `{"msgV":1,"msg_id":"`+id+`","type":"user","message":{"role":"user","content":`+string(quoted)+`},"priority":"next","from":"uds:/x/200.sock"}`+"\n")
	}
	refusals := func() []claudeFrame { return f.list(string(actionStatus)) }
	awaitRefusals := func(n int) {
		t.Helper()
		await.Until(t, fmt.Sprintf("%d refusals", n), func() bool { return len(refusals()) >= n })
	}
	send("a1", "no message named")
	awaitRefusals(1)
	send("a2", "both: "+p.Message.String()+" "+q.Message.String())
	awaitRefusals(2)
	send("a3", "one nobody was woken for: "+wire.NewMessageID().String())
	awaitRefusals(3)
	send("a4", "fail "+p.Message.String())
	awaitRefusals(4)
	send("a5", "to "+strings.ToUpper(q.Message.String())+": done")
	await.Until(t, "a reply", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(replies) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if want := (reply{q.Message, "to " + strings.ToUpper(q.Message.String()) + ": done"}); len(replies) != 1 || replies[0] != want {
		t.Errorf("replies %+v, want %+v", replies, want)
	}
	for i, r := range refusals() {
		if r.Of != []string{"a1", "a2", "a3", "a4"}[i] || r.Status != statusRefused || r.From != s.(*claude).from {
			t.Errorf("refusal %+v", r)
		}
	}
}

func TestAMessageThatWasPostedTwiceIsAnswered(t *testing.T) {
	f := newFakeClaude(t)
	replies := make(chan wire.MessageID, 1)
	env := f.environment()
	env.Reply = func(_ context.Context, to wire.MessageID, _ string) error { replies <- to; return nil }
	s := f.find(env, newFamily())
	p := newPost()
	for _, refused := range []bool{true, false} {
		f.mu.Lock()
		f.answer = nil
		if refused {
			f.answer = func(frame *claudeFrame) string {
				return `{"type":"control","action":"peer_message_status","orig_msg_id":"` + frame.ID + `","status":"expired","msgV":1,"msg_id":"n2"}` + "\n"
			}
		}
		f.mu.Unlock()
		if _, err := s.Post(t.Context(), p); (err != nil) != refused {
			t.Fatal(err)
		}
	}
	s.(*claude).handleReply(&claudeFrame{Type: typeUser, ID: "r1", Message: &claudeMessage{Role: "user", Content: []byte(`"re ` + p.Message.String() + `: 42"`)}})
	select {
	case <-replies:
	default:
		t.Error("the reply was refused")
	}
}
