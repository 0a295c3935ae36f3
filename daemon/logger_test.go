package daemon

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The log at level debug tells of every message by its id, and holds no payload, answer, key of an
// agent, or invitation, whatever goes well or wrong.
// holds: security.md#at-rest
func TestDebugLogHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	logs := [2]await.Output{}
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: &logs[0], Level: new(slog.LevelDebug)})
	laptop := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: &logs[1], Level: new(slog.LevelDebug)})
	invitation := get[client.Invitation](desk.dial(), "invite", client.InviteParams{})
	laptop.dial().must("join", client.JoinParams{URI: invitation.URI}, nil)
	await.Until(t, "connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })

	const secret = "words-that-no-log-has"
	var attached client.Attached
	failing := desk.dialWith(say(`{"summary":"` + secret + `","accepted":true}`))
	failing.must("attach", client.AttachParams{Name: "reviewer"}, &attached)
	l := laptop.dial()
	l.must("query", client.QueryParams{To: "desk", Payload: query(secret)}, nil)
	task := get[client.DelegateAnswer](l, "delegate", client.DelegateParams{To: "desk", Payload: kinds.EncodePayload(&kinds.Delegate{Task: secret})})
	desk.dial().must("result", client.ResultParams{Ref: task.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: secret})}, nil)
	note := client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"t","data":"` + secret + `"}`)}
	l.must("notify", note, nil)
	desk.agent(client.AttachParams{Name: "quoter", Kinds: []string{"notify"}}, func(_ context.Context, r *jsonrpc.Request) {
		r.RespondError(kinds.Errorf(kinds.Invalid, "no agent takes %s", r.Params))
	})
	l.must("notify", note, nil)
	l.call("query", client.QueryParams{To: "desk/" + secret, Payload: query(secret)}, nil)
	l.call("join", client.JoinParams{URI: "acp://" + secret}, nil)
	desk.agent(client.AttachParams{Name: "liar", Kinds: []string{"query"}, Domains: []string{"lies"}}, say(`{"summary":7,"`+secret+`":"`+secret+`"}`))
	if err := l.call("query", client.QueryParams{To: "desk/liar", Payload: query(secret)}, nil); err == nil {
		t.Error("an answer that is none was taken")
	}
	raw := desk.raw()
	raw.line(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"` + secret + `","` + secret + `":1}}`)
	raw.Write([]byte(`{"` + secret + `"` + "\n"))
	desk.stop()
	laptop.stop()
	for i := range logs {
		text := logs[i].String()
		if !strings.Contains(text, "level=DEBUG") || i == 0 && !(strings.Contains(text, "kind=query id=") && strings.Contains(text, "not confirmed")) {
			t.Errorf("nothing is logged at level debug:\n%s", text)
		}
		token := invitation.URI[strings.LastIndexAny(invitation.URI, "/?=&")+1:]
		for _, s := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), attached.Key, invitation.URI, token} {
			if len(s) < 16 {
				t.Fatalf("%q is no secret", s)
			}
			if strings.Contains(text, s) {
				t.Errorf("the log of daemon %d holds %q:\n%s", i, s, text)
			}
		}
	}
}

// countBudgetEvents counts the events about bounds up to now.
func (d *running) countBudgetEvents(events <-chan *client.Event) (n int) {
	d.t.Helper()
	d.dial().must("trust", client.TrustParams{Peer: strings.Repeat("7", 64), Name: "mark"}, nil)
	for {
		e := await.Receive(d.t, "an event", events)
		if e.Type == client.EventTrust {
			d.dial().must("untrust", client.UntrustParams{Peer: "mark"}, nil)
			return n
		}
		n++
	}
}

// A session says why it was not woken as often as it likes, each time in other words, also of
// messages that it never got, of peers that do not exist: the owner hears of what is true, once a
// minute, in the log too.
// holds: security.md#agents-on-this-machine
func TestALyingSessionIsHeardOnceAMinute(t *testing.T) {
	t.Parallel()
	log := new(await.Output)
	desk := start(t, stateDir(t), "desk")
	laptop := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: log})
	befriend(t, desk, laptop)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget, client.EventTrust}}})
	refuse := func(ids ...wire.MessageID) {
		for i := range 50 {
			for _, id := range ids {
				s.must("unposted", client.UnpostedParams{Peer: desk.ID(), ID: id, Refused: fmt.Sprint("for reason ", i)}, nil)
			}
			s.must("unposted", client.UnpostedParams{Peer: laptop.ID(), ID: wire.NewMessageID(), Refused: fmt.Sprint("for reason ", i)}, nil)
		}
	}
	refuse(wire.NewMessageID())
	if n := laptop.countBudgetEvents(events); n > 0 {
		t.Errorf("%d events about messages that the session never got", n)
	}
	s.says(func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Refused: "for reason " + in.ID.String()}
	})
	asker := desk.dial()
	for range 5 {
		notice := s.notice("laptop")
		notice.ID = wire.NewMessageID()
		asker.notify(notice)
		for await.Receive(t, "a wake", s.told).Wake == nil { // first it is told only, within 250 ms of the last one
		}
		refuse(notice.ID)
	}
	if n := laptop.countBudgetEvents(events); n != 1 {
		t.Errorf("%d events about one session in a minute", n)
	}
	if n := strings.Count(log.String(), "for reason"); n > 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// The owner gets ten events a minute about what keeps a peer's messages back, also if a program attaches under
// many names, one after the other.
// holds: security.md#agents-on-this-machine
func TestManyNamesTellTheOwnerNoMore(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget, client.EventTrust}}})
	looped := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindNotify, wire.Payload(`{"topic":"t"}`))
	looped.Hops = wire.MaxHops
	if _, err := desk.send(looped); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		s := laptop.session(fmt.Sprint("claude-", i))
		s.refused(kinds.LoopDetected, "notify", client.NotifyParams{Head: client.Head{Parent: looped.ID}, To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)})
		s.Close()
	}
	if n := laptop.countBudgetEvents(events); n != 10 {
		t.Errorf("%d events", n)
	}
}

// An agent attaches again and again, with all that it may declare: the log does not grow with it.
// holds: security.md#agents-on-this-machine
func TestAttachingFillsNoLog(t *testing.T) {
	t.Parallel()
	log := new(await.Output)
	d := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: log})
	p := client.AttachParams{Name: "claude"}
	for i := range 64 {
		p.Domains = append(p.Domains, fmt.Sprint(strings.Repeat("d", 200), i))
	}
	s := d.guest(nil)
	for range 1000 {
		s.must("attach", p, nil)
	}
	if text := log.String(); len(text) > 64<<10 || strings.Count(text, "agent attached") != 1 {
		t.Errorf("%d bytes of log", len(text))
	}
}
