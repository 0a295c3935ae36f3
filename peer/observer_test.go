package peer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// witness is an observer that notes what it is told.
type witness struct {
	mu   sync.Mutex // guards what follows
	open []*Passing
	told []string
}

func (w *witness) Began(p *Passing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, p)
}

func (w *witness) Ended(p *Passing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.open, p)
	w.open = slices.Delete(w.open, at, at+1)
	reply, outcome := "none", string(p.Outcome)
	if p.Reply != nil {
		reply = p.Reply.Kind
	}
	if p.Err != nil {
		outcome = string(kinds.AsError(p.Err).Code)
	}
	w.told = append(w.told, fmt.Sprintf("%s inbound=%t %s %s agent=%s parent=%t", p.Kind, p.Inbound, reply, outcome, p.ChosenAgent(), !p.Parent.IsZero()))
}

// take returns what it was told since the last call. Nothing may be open.
func (w *witness) take(t *testing.T) []string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) > 0 {
		t.Errorf("%d have not ended", len(w.open))
	}
	told := w.told
	w.told = nil
	return told
}

// TestTheObserverIsToldOfEachMessage: both sides are told of each message once, with its outcome, before
// anybody else has that: whether it was answered, refused, never sent, or its handler panicked.
func TestTheObserverIsToldOfEachMessage(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		near, far := new(witness), new(witness)
		a := w.side(func(c *Config) { c.Observer = near })
		reviewer := "reviewer"
		b := w.side(func(c *Config) {
			c.Observer = far
			c.Exchange = func(ctx context.Context, request *Passing) (*wire.Envelope, error) {
				q, err := kinds.ParsePayload[kinds.Query](request.Payload)
				if err != nil {
					return nil, err
				}
				if request.Sender.Name != "desk" || request.Peer() != request.From {
					t.Errorf("from %q, %s", request.Sender.Name, request.Peer().Label())
				}
				request.SetAgent(&reviewer)
				switch q.Question {
				case "refused":
					return nil, kinds.Errorf(kinds.NoAgent, "nobody is here")
				case "panics":
					panic("a bug")
				case "not valid":
					return wire.NewReply(request.Envelope, kinds.KindResponse, wire.Payload(`{"summary":7}`)), nil
				}
				return echo(ctx, request)
			}
			c.Message = func(_ context.Context, note *Passing) (wire.ReceiptState, error) {
				n, err := kinds.ParsePayload[kinds.Notify](note.Payload)
				if err != nil || n.Topic == "refused" {
					return 0, kinds.Errorf(kinds.NotAuthorized, "not here")
				}
				return map[string]wire.ReceiptState{"held": wire.Held, "handed": wire.Handed, "neither": wire.Refused}[n.Topic], nil
			}
		})
		a.trusts(b, "laptop")
		b.trusts(a, "desk")
		w.serve(a, b)

		parent := wire.NewMessageID()
		ask := func(question string) {
			checked, err := kinds.CheckEnvelope(wire.NewEnvelope(a.ID(), b.ID(), kinds.KindQuery, kinds.EncodePayload(&kinds.Query{Question: question})))
			if err != nil {
				t.Fatal(err)
			}
			checked.Parent = parent
			a.Node.Exchange(t.Context(), checked)
		}
		note := func(topic string, wait bool) {
			a.Send(t.Context(), b.ID(), notify(topic), wait)
		}
		for _, c := range []struct {
			do        func()
			here, far string
		}{
			{func() { ask("why?") }, "query inbound=false response  agent= parent=true", "query inbound=true response  agent=reviewer parent=false"},
			{func() { ask("refused") }, "query inbound=false none no_agent agent= parent=true", "query inbound=true error no_agent agent=reviewer parent=false"},
			{func() { ask("not valid") }, "query inbound=false none internal agent= parent=true", "query inbound=true error internal agent=reviewer parent=false"},
			{func() { ask("panics") }, "query inbound=false none internal agent= parent=true", "query inbound=true none internal agent=reviewer parent=false"},
			{func() { note("held", true) }, "notify inbound=false none held agent= parent=false", "notify inbound=true none held agent= parent=false"},
			{func() { note("handed", true) }, "notify inbound=false none handed agent= parent=false", "notify inbound=true none handed agent= parent=false"},
			{func() { note("handed", false); time.Sleep(time.Second) }, "notify inbound=false none sent agent= parent=false", "notify inbound=true none handed agent= parent=false"},
			{func() { note("refused", true) }, "notify inbound=false none not_authorized agent= parent=false", "notify inbound=true none not_authorized agent= parent=false"},
			{func() { note("neither", true) }, "notify inbound=false none internal agent= parent=false", "notify inbound=true none internal agent= parent=false"},
		} {
			c.do()
			if here := near.take(t); !slices.Equal(here, []string{c.here}) {
				t.Errorf("here: %q\nwant  %q", here, c.here)
			}
			if there := far.take(t); !slices.Equal(there, []string{c.far}) {
				t.Errorf("there: %q\nwant   %q", there, c.far)
			}
		}

		// What does not leave has begun and ended too, and the other side is told of nothing that is not its.
		a.Exchange(t.Context(), identity.ID{7}, query("who are you?"))
		a.Exchange(t.Context(), b.ID(), query(strings.Repeat("x", wire.DefaultMaxMessage)))
		if got := near.take(t); !slices.Equal(got, []string{"query inbound=false none unknown_peer agent= parent=false", "query inbound=false none too_large agent= parent=false"}) {
			t.Errorf("what did not leave: %q", got)
		}
		if err := b.trust.Untrust(a.ID()); err != nil { // while messages come
			t.Fatal(err)
		}
		if err := a.tryAsk(b, "still there?"); code(err) != kinds.NotAuthorized {
			t.Errorf("an exchange with one that is not trusted any more: %v", err)
		}
		if _, err := a.Send(t.Context(), b.ID(), notify("held"), true); code(err) != kinds.NotAuthorized {
			t.Errorf("a message of one that is not trusted any more: %v", err)
		}
		if got := far.take(t); len(got) != 0 {
			t.Errorf("there: %q", got)
		}
	})
}
