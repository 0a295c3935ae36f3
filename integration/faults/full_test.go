//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// full is a machine whose disk can be filled, with something of all that it keeps.
type full struct {
	*subject
	both       [2]*machine // desk and laptop
	t          *testing.T
	fill, free func()
	mill       *live.Machine // a stranger, who invites

	channels []string         // with a message each
	taken    []wire.MessageID // delegations from the peer
	given    []wire.MessageID // and to it
	mails    int              // from the peer
}

func newFull(t *testing.T) *full {
	looked := [2]*machine{newMachine(t, "desk"), newMachine(t, "laptop")}
	desk, laptop, mill := looked[0].Machine, looked[1].Machine, live.NewMachine(t, "mill")
	f := &full{both: looked, subject: &subject{Machine: desk, laptop: laptop, seen: make(map[string]string)}, t: t, mill: mill}
	f.fill, f.free = small(t, desk)
	desk.StartDaemon()
	laptop.StartDaemon()
	mill.StartDaemon()
	live.Befriend(desk, laptop)
	for _, m := range []*live.Machine{desk, laptop} {
		m.MustOutput("oacp", "init", "demo", "--agents", map[*live.Machine]string{desk: "planner", laptop: "reviewer"}[m])
		accept := func(context.Context, *client.Inbound) (*kinds.Ack, error) { return &kinds.Ack{Accepted: true}, nil }
		m.Attach(client.AttachParams{Name: "worker", MaxConcurrent: 16}, client.Handler{Delegate: accept, Cancel: accept})
	}
	f.need(f.bind("reviewer"))
	f.need(f.bind("tester"))
	_, err := laptop.Client.OACPBind(await.NewContext(t), client.OACPBindParams{Project: "demo", Agent: "planner", Peer: desk.ID.String()})
	f.need(err)
	f.need(f.trust("1", "smith"))
	_, err = desk.Client.AllowWake(await.NewContext(t), client.WakeAllowParams{Peer: "laptop", Kinds: []string{kinds.KindQuery}})
	f.need(err)
	f.intent = between(f.must("planner", "POST", "intents", `{"title":"Ship it"}`), `"id":"`, `"`)
	for _, name := range []string{"build", "test"} {
		id := between(f.must("planner", "POST", "intents/"+f.intent+"/channels", `{"name":"`+name+`"}`), `"id":"`, `"`)
		f.must("planner", "POST", "channels/"+id+"/messages", `{"message_type":"notify","payload":{}}`)
		f.channels = append(f.channels, id)
	}
	for _, topic := range []string{"build", "test"} {
		f.need(f.notify(topic))
		id, err := f.delegate(laptop, desk)
		f.need(err)
		f.taken = append(f.taken, id)
		id, err = f.delegate(desk, laptop)
		f.need(err)
		f.given = append(f.given, id)
	}
	return f
}

func (f *full) need(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *full) bind(agent string) error {
	_, err := f.Client.OACPBind(await.NewContext(f.t), client.OACPBindParams{Project: "demo", Agent: agent, Peer: f.laptop.ID.String()})
	return err
}

func (f *full) trust(digit, name string) error {
	_, err := f.Client.Trust(await.NewContext(f.t), client.TrustParams{Peer: strings.Repeat(digit, 64), Name: name})
	return err
}

func (f *full) notify(topic string) error {
	r, err := f.laptop.Client.Notify(await.NewContext(f.t), client.NotifyParams{
		Head: client.Head{ID: wire.NewMessageID()}, To: client.To("desk"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: topic}),
	})
	if err == nil && r.State != "held" {
		err = errors.New(string(r.State))
	}
	return err
}

func (f *full) delegate(from, to *live.Machine) (wire.MessageID, error) {
	id := wire.NewMessageID()
	_, err := from.Client.Delegate(await.NewContext(f.t), client.DelegateParams{
		Head: client.Head{ID: id}, To: to.Name, Payload: kinds.EncodePayload(&kinds.Delegate{Task: "mend it"}),
	})
	return id, err
}

// mail has the peer send a mail, unless one still waits, and returns why it waits.
func (f *full) mail() error {
	waits := func() (why string, any bool) {
		queue, err := f.laptop.Client.OACPQueue(await.NewContext(f.t), "demo")
		f.need(err)
		for _, m := range queue {
			if m.State != client.MailDelivered {
				return m.Reason, true
			}
		}
		return "", false
	}
	if _, any := waits(); !any {
		f.laptop.MustOutput("oacp", "send", "demo", "--from", "reviewer", "--to", "planner", "--type", "notification", "--subject", fmt.Sprint("mail ", f.mails), "--body", "b")
		f.mails++
	}
	why, any := "", true
	await.Until(f.t, "a mail is taken or refused", func() bool { why, any = waits(); return why != "" || !any })
	if any {
		return errors.New(why)
	}
	return nil
}

// exhaust leaves no room on the disk, nor in what state.db has of it already.
func (f *full) exhaust() {
	f.t.Helper()
	f.fill()
	for _, size := range []int{200 << 10, 10 << 10, 1} {
		body := `{"message_type":"notify","payload":{"text":"` + strings.Repeat("x", size) + `"}}`
		for {
			if _, err := f.web("planner", "POST", "channels/"+f.channels[1]+"/messages", body); err != nil {
				if !strings.Contains(err.Error(), "disk_full") {
					f.t.Fatal(err)
				}
				break
			}
		}
	}
	f.fill()
}

// write is something for which desk writes; code is what it is refused with on a full
// disk, "" where it works there.
type write struct {
	what, code string
	do         func() error
}

// writes are all kinds of writes, in an order in which none takes another's object away.
func (f *full) writes() []write {
	ctx := func() context.Context { return await.NewContext(f.t) }
	web := func(method, path, body string) func() error {
		return func() error { _, err := f.web("planner", method, path, body); return err }
	}
	return []write{
		{"notify", "overloaded", func() error { return f.notify("more") }},
		{"delegate to desk", "overloaded", func() error { _, err := f.delegate(f.laptop, f.Machine); return err }},
		{"delegate to laptop", "overloaded", func() error { _, err := f.delegate(f.Machine, f.laptop); return err }},
		{"trust", "overloaded", func() error { return f.trust("2", "forge") }},
		{"bind", "overloaded", func() error { return f.bind("welder") }},
		{"join", "overloaded", func() error {
			i, err := f.mill.Client.Invite(ctx(), client.InviteParams{})
			if err == nil {
				_, err = f.Client.Join(ctx(), i.URI)
			}
			return err
		}},
		{"intent", "507", web("POST", "intents", `{"title":"more"}`)},
		{"channel", "507", web("POST", "intents/"+f.intent+"/channels", `{"name":"more"}`)},
		{"message", "507", web("POST", "channels/"+f.channels[1]+"/messages", `{"message_type":"notify","payload":{}}`)},
		{"state", "507", web("POST", "intents/"+f.intent+"/state", `{"patches":[{"op":"set","path":"/step","value":1}]}`)},
		{"mail of this machine", "exit", func() error {
			p := f.StartAcpctl("oacp", "send", "demo", "--from", "planner", "--to", "planner", "--type", "question", "--subject", "s", "--body", "b")
			if p.AwaitEnd(); p.Cmd.ProcessState.ExitCode() != 0 {
				return errors.New("exit")
			}
			return nil
		}},
		{"mail of the peer", "space", f.mail},
		{"join by the invited", "overloaded", func() error {
			i, err := f.Client.Invite(ctx(), client.InviteParams{})
			if err == nil {
				_, err = f.mill.Client.Join(ctx(), i.URI)
			}
			return err
		}},
		{"revoke", "", func() error {
			_, err := f.Client.Invite(ctx(), client.InviteParams{})
			if err == nil {
				_, err = f.Client.Revoke(ctx(), client.RevokeParams{All: true})
			}
			return err
		}},
		{"result", "", func() error {
			_, err := f.Client.SendResult(ctx(), client.ResultParams{Ref: f.taken[0], Head: client.Head{ID: wire.NewMessageID()}, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "done"})})
			return err
		}},
		{"invite", "", func() error { _, err := f.Client.Invite(ctx(), client.InviteParams{}); return err }},
		{"attach", "", func() error {
			c := &client.Client{Socket: f.SocketPath()}
			defer c.Close()
			within, cancel := context.WithCancel(ctx())
			defer cancel()
			err := c.Attach(within, client.AttachParams{Name: "guest"}, client.Handler{
				Query: func(context.Context, *client.Inbound) (any, error) { return nil, nil }, OnAttached: cancel,
			})
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return err
		}},
		{"ping", "", func() error { _, err := f.Client.Ping(ctx(), client.PingParams{To: "laptop"}); return err }},
		{"ack", "", func() error {
			page, err := f.Client.Inbox(ctx(), client.InboxParams{})
			if err == nil {
				_, err = f.Client.Ack(ctx(), client.AckParams{IDs: []wire.MessageID{page.Messages[0].Envelope.ID}})
			}
			return err
		}},
		{"cancel", "", func() error { _, err := f.Client.Cancel(ctx(), client.CancelParams{Ref: f.given[0]}); return err }},
		{"cancel by the peer", "", func() error {
			_, err := f.laptop.Client.Cancel(ctx(), client.CancelParams{Ref: f.taken[1]})
			return err
		}},
		{"unbind", "", func() error {
			_, err := f.Client.OACPUnbind(ctx(), client.OACPUnbindParams{Project: "demo", Agent: "tester"})
			return err
		}},
		{"DELETE", "", web("DELETE", "channels/"+f.channels[0], "")},
		{"wake.allow", "overloaded", func() error {
			_, err := f.Client.AllowWake(ctx(), client.WakeAllowParams{Peer: "laptop"})
			return err
		}},
		{"wake.revoke", "", func() error {
			_, err := f.Client.RevokeWake(ctx(), client.WakeRevokeParams{Peer: "laptop", Kinds: []string{"query"}})
			return err
		}},
		{"untrust", "", func() error {
			u, err := f.Client.Untrust(ctx(), "smith")
			if err == nil && len(u.Unwritten) > 0 {
				err = errors.New(u.Reason)
			}
			return err
		}},
	}
}

// TestFullDiskForAllThatIsWritten: on a full disk each kind of write that frees nothing
// is refused with the code for it and changes nothing, what frees something or cuts
// somebody off works, and all that was refused works when there is space. Then all is
// closed again.
// holds: security.md#on-this-machine
func TestFullDiskForAllThatIsWritten(t *testing.T) {
	t.Parallel()
	f := newFull(t)
	calm(f.both[:]...)
	before := f.facts()
	var refused []write
	for _, w := range f.writes() {
		f.exhaust()
		err := w.do()
		for range 3 { // what state.db has of the disk already may be free again
			if w.code == "" || err != nil {
				break
			}
			f.exhaust()
			err = w.do()
		}
		switch e := kinds.AsError(err); {
		case w.code == "" && err != nil:
			t.Errorf("%s: %v", w.what, err)
		case w.code != "" && err == nil:
			t.Errorf("%s works, and should be refused with %s", w.what, w.code)
		case w.code == "overloaded" && e.Code != kinds.Overloaded, w.code != "" && !strings.Contains(err.Error(), w.code):
			t.Errorf("%s: %v", w.what, err)
		case e != nil && e.From != "" && strings.Contains(e.Message, f.Home):
			t.Errorf("%s tells the peer %q", w.what, e.Message)
		}
		if w.code != "" {
			refused = append(refused, w)
		}
		f.agrees(before)
	}
	f.KillDaemon()
	f.StartDaemon()
	f.agrees(before)
	f.free()
	f.StopDaemon()
	f.StartDaemon() // what the peer holds back comes at once
	live.AwaitConnection(f.Machine, f.laptop)
	for _, w := range refused {
		await.Until(t, w.what+" works with space again", func() bool {
			return w.do() == nil
		})
	}
	await.Until(t, "no mail waits", func() bool { return f.mail() == nil })
	inbox := subjects(t, filepath.Join(f.Home, "oacp", "projects", "demo", "agents", "planner", "inbox"))
	for i := range f.mails {
		if n := inbox[fmt.Sprint("mail ", i)]; n != 1 {
			t.Errorf("mail %d of the peer is %d times in the inbox", i, n)
		}
	}
	if _, err := os.Stat(filepath.Join(f.Home, "reserve")); err != nil {
		t.Error(err)
	}
	f.agrees(before)
	f.MustOutput("untrust", "mill")
	f.mill.StopDaemon()
	for _, m := range f.both {
		m.closes()
	}
}

// agrees says whether all is as before, but for what was taken away meanwhile.
func (f *full) agrees(before map[string]string) {
	f.t.Helper()
	now := f.facts()
	for fact, value := range before {
		gone := slices.Contains([]string{"binding tester", "channel build", "message first", "inbox build"}, fact)
		if fact == "peer "+strings.Repeat("1", 64) && now[fact] == "blocked" || gone && now[fact] == "" {
			continue
		}
		if now[fact] != value {
			f.t.Errorf("%s was %q, and is %q", fact, value, now[fact])
		}
	}
}
