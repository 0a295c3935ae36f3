package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// What the model sends by Claude Code's own tool is the answer to the one message that it names and that the
// session was woken for, however often. Anything else is refused.
func TestClaudeAnswersByItself(t *testing.T) {
	f := newFakeClaude(t)
	type reply struct {
		to   wire.MessageID
		text string
	}
	replies := make(chan reply, 9)
	env := f.environment()
	env.Reply = func(_ context.Context, to wire.MessageID, text string) error {
		if strings.Contains(text, "fail") {
			return errors.New("no such message")
		}
		replies <- reply{to, text}
		return nil
	}
	s := f.find(env, newFamily()).(*claude)
	p, q := newPost(), newPost()
	for _, p := range []Post{p, q, q} {
		if _, err := s.Post(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	send := func(id, text string) {
		quoted, _ := jsontext.AppendQuote(nil, `<cross-session-message from="uds:/x/200.sock" from-name="alpha" from-mode="prompting">`+"\n"+text+"\n</cross-session-message>")
		f.send(s.from, `{"msgV":1,"msg_id":"`+id+`","type":"user","message":{"role":"user","content":`+string(quoted)+`},"priority":"next","from":"uds:/x/200.sock"}`+"\n")
	}
	for i, text := range []string{
		"no message named",
		"both: " + p.Message.String() + " " + q.Message.String(),
		"one that the session was not woken for: " + wire.NewMessageID().String(),
		"fail " + p.Message.String(),
	} {
		id := fmt.Sprint("a", i)
		send(id, text)
		await.Until(t, "a refusal", func() bool { return len(f.list(string(actionStatus))) > i })
		if got := f.list(string(actionStatus))[i]; got.Of != id || got.Status != statusRefused || got.From != s.from || got.Reason != "answers go through acp_reply" {
			t.Errorf("%s: refusal %+v", text, got)
		}
	}
	text := "to " + strings.ToUpper(q.Message.String()) + ": done"
	send("a4", text)
	if got, want := await.Receive(t, "a reply", replies), (reply{q.Message, text}); got != want || len(replies) > 0 {
		t.Errorf("reply %+v, want %+v", got, want)
	}
}

func TestClaudeAnswerIsRead(t *testing.T) {
	for mark, want := range map[string]string{
		`<cross-session-message from="uds:/x/2.sock" from-name="a" from-mode="prompting" hop-chain="uds:/x/1.sock>uds:/x/2.sock">`: "done > soon",
		`<cross-session-message from="uds:/x/2.sock"` + "\n" + `  hop-chain="a" new_one="<b>" >`:                                   "done > soon",
		`<cross-session-message>`:           "done > soon",
		`<cross-session-messages from="a">`: `<cross-session-messages from="a">` + "\ndone > soon\n</cross-session-message>",
	} {
		quoted, _ := jsontext.AppendQuote(nil, mark+"\ndone > soon\n</cross-session-message>")
		if frame, _ := readClaudeFrame([]byte(`{"type":"user","message":{"role":"user","content":` + string(quoted) + `}}`)); frame.Answer != want {
			t.Errorf("%s: %q, want %q", mark, frame.Answer, want)
		}
	}
	// Half of a surrogate pair makes nothing else unread.
	if frame, ok := readClaudeFrame([]byte(`{"type":"user","message":{"role":"user","content":"cut \ud83d"}}`)); !ok || frame.Answer != "cut \ufffd" {
		t.Errorf("%v, %+v", ok, frame)
	}
}

// A session remembers the last messages that it was woken for, each once.
func TestClaudeRemembersTheLastMessages(t *testing.T) {
	c := &claude{}
	first, last := wire.NewMessageID(), wire.NewMessageID()
	c.noteWoken(first)
	for range maxWoken {
		c.noteWoken(wire.NewMessageID())
	}
	c.noteWoken(last)
	c.noteWoken(last)
	_, knowsFirst := c.findNamed(first.String())
	if _, knowsLast := c.findNamed(last.String()); knowsFirst || !knowsLast || len(c.woken) != maxWoken {
		t.Errorf("%d are remembered; the first: %v, the last: %v", len(c.woken), knowsFirst, knowsLast)
	}
}
