package integration

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// awkward holds values that a payload may have and a careless program changes.
const awkward = `"n": 9223372036854775807, "m": 1234567890123456789012345678901234567890, "f": 1.10, "e": 1E300, "z": -0.0,` +
	` "emoji": "😀 👩‍👩‍👧", "escaped": "\ud83d\ude00 \u0000 \/", "unknown": {"deep": [[], {}, null, true, "\""]}, "": ""`

// TestPayloadsArriveUnchanged both ways, byte for byte; acpctl and the inbox leave
// out spaces between tokens at most.
func TestPayloadsArriveUnchanged(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	got := make(chan string, 1)
	const answer = `{ "summary": "é", ` + awkward + `}`
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{
		Query: func(_ context.Context, in *client.Inbound) (any, error) {
			got <- string(in.Payload)
			return wire.Payload(answer), nil
		},
		Notify: func(_ context.Context, in *client.Inbound) error {
			got <- string(in.Payload)
			return nil
		},
	})
	const asked = `{ "question": "è", ` + awkward + `}`
	a, err := laptop.Client.Query(await.NewContext(t), client.QueryParams{To: "desk", Payload: wire.Payload(asked)})
	if err != nil {
		t.Fatal(err)
	}
	if there := await.Receive(t, "question", got); there != asked {
		t.Errorf("the agent has\n%s\nwant\n%s", there, asked)
	}
	if string(a.Payload) != answer {
		t.Errorf("the answer is\n%s\nwant\n%s", a.Payload, answer)
	}

	// The same through acpctl, and the inbox.
	said := laptop.MustOutput("query", "desk", "--payload", asked, "--json")
	if there := await.Receive(t, "question", got); !same(there, asked) {
		t.Errorf("from acpctl the agent has\n%s\nwant\n%s", there, asked)
	}
	if _, payload, ok := strings.Cut(said, `"payload":`); !ok || !same(strings.TrimSuffix(strings.TrimSpace(payload), "}"), answer) {
		t.Errorf("acpctl prints\n%s\nwant\n%s", said, answer)
	}
	const told = `{"topic":"x", ` + awkward + `}`
	laptop.MustOutput("notify", "desk", "--payload", told)
	if there := await.Receive(t, "message", got); !same(there, told) {
		t.Errorf("the agent has\n%s\nwant\n%s", there, told)
	}
	desk.MustOutput("notify", "laptop", "--payload", told)
	laptop.KillDaemon()
	laptop.StartDaemon()
	if said := laptop.MustOutput("inbox", "--json"); !strings.Contains(said, strings.ReplaceAll(`"escaped": "\ud83d\ude00 \u0000 \/"`, ": ", ":")) {
		t.Errorf("acpctl prints\n%s", said)
	}
	inbox, err := laptop.Client.Inbox(await.NewContext(t), client.InboxParams{})
	if err != nil || len(inbox.Messages) != 1 || !same(string(inbox.Messages[0].Envelope.Payload), told) {
		t.Errorf("the inbox has %v, %v", inbox, err)
	}
}

// same reports whether two JSON texts differ in space between tokens at most: every
// digit and every escape counts.
func same(a, b string) bool {
	compact := func(s string) string {
		v := jsontext.Value(s)
		if err := v.Compact(); err != nil {
			return "invalid: " + s
		}
		return string(v)
	}
	return compact(a) == compact(b)
}

// TestLargestMessage: an envelope of exactly max_message passes, both ways; one
// byte more is too_large, and not one byte of it leaves.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	const limit = wire.DefaultMaxMessage
	desk, laptop := friends(t)
	answers := make(chan int, 1)
	sizes := make(chan int, 1)
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{
		Query: func(_ context.Context, in *client.Inbound) (any, error) {
			sizes <- encoded(t, &in.Envelope)
			if n := <-answers; n > 0 {
				return wire.Payload(filled("summary", n)), nil
			}
			return &kinds.Response{Summary: "short"}, nil
		},
	})
	ctx, c := await.NewContext(t), laptop.Client

	// How much an envelope needs beside its payload is learned from a first one.
	size := limit - 4096
	ask := func(size int) (*client.Answer, error) {
		return c.Query(ctx, client.QueryParams{To: "desk", Payload: wire.Payload(filled("question", size))})
	}
	answers <- 0
	if a, err := ask(size); summary(t, a, err) != "short" {
		t.Fatal("another answer")
	}
	size += limit - await.Receive(t, "size", sizes)
	answers <- 0
	if a, err := ask(size); summary(t, a, err) != "short" {
		t.Fatal("another answer")
	}
	if got := await.Receive(t, "size", sizes); got != limit {
		t.Errorf("the largest envelope has %d bytes, want %d", got, limit)
	}
	before := desk.status().Messages.In["query"]
	_, err := ask(size + 1)
	if e := is(t, kinds.TooLarge, err); e.From != "" {
		t.Errorf("it was the other side that refused it: %v", e)
	}
	if after := desk.status().Messages.In["query"]; after != before {
		t.Errorf("%d queries came, want %d", after, before)
	}

	// The way back: a reply has a ref and the agent that answers, and a query the trace of its chain.
	const ref = 21 + 20 // the keys, 16 bytes and "reviewer"
	const trace = 63    // the key, the length and 55 bytes
	kindsDiffer := len(kinds.KindResponse) - len(kinds.KindQuery) - trace
	answers <- size - ref - kindsDiffer
	a, err := ask(100)
	if err != nil {
		t.Fatalf("the largest answer: %v", err)
	}
	await.Receive(t, "size", sizes)
	if len(a.Payload) != size-ref-kindsDiffer {
		t.Errorf("the answer has %d bytes, want %d", len(a.Payload), size-ref-kindsDiffer)
	}
	answers <- size - ref - kindsDiffer + 1
	_, err = ask(100)
	if e := is(t, kinds.TooLarge, err); e.From != desk.ID.String() {
		t.Errorf("who refused it? %v", e)
	}
	await.Receive(t, "size", sizes)
	answers <- 0
	if a, err := ask(100); summary(t, a, err) != "short" {
		t.Error("another answer after all that")
	}
}

// filled is an object of exactly size bytes.
func filled(field string, size int) string {
	text := fmt.Sprintf(`{%q:""}`, field)
	return text[:len(text)-2] + strings.Repeat("x", size-len(text)) + `"}`
}

func encoded(t *testing.T, e *wire.Envelope) int {
	var b bytes.Buffer
	if err := e.Append(&b); err != nil {
		t.Error(err)
	}
	return b.Len()
}
