package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What a session sends in a turn that a peer has woken is a message of that peer's share, also a file: its entry goes
// on in the chain, and a chain that is too long ends with a file too. The log has a line for each file.
// holds: security.md#agents-on-this-machine
func TestAFileOfAWokenTurnIsAMessageOfIt(t *testing.T) {
	t.Parallel()
	var log await.Output
	desk, planner := start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner")
	laptop := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: &log})
	befriend(t, desk, laptop)
	befriend(t, laptop, planner)
	planner.alwaysFromPeer(laptop.ID())
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true, Proven: true} })
	desk.dial().notify(s.notice("laptop"))
	woke := s.next(true)
	content := randomBytes(100)
	send := func(p client.FileSendParams, parent wire.MessageID) error {
		p.Parent = parent
		_, err := sendFileOn(t, laptop.spokenFor(s.name, s.key), p, bytes.NewReader(content), nil)
		return err
	}
	first := paramsFor("planner", "a.txt", content)
	if err := send(first, woke.ID); err != nil {
		t.Fatal(err)
	}
	if held := get[client.Inbox](planner.dial(), client.MethodInbox, client.InboxParams{}).Messages; len(held) != 1 || held[0].Envelope.Hops != 1 {
		t.Errorf("the entry is %+v", held)
	}
	for range 49 { // of 100 messages an hour, half
		s.must("notify", client.NotifyParams{Head: client.Head{Parent: woke.ID}, To: client.To("planner"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	}
	second := paramsFor("planner", "b.txt", content)
	refusedWith(t, send(second, woke.ID), kinds.Overloaded, "desk has woken this session")
	if err := send(first, woke.ID); err != nil {
		t.Errorf("a repeat: %v", err)
	}
	if err := send(second, wire.MessageID{}); err != nil {
		t.Errorf("the user's own: %v", err)
	}
	refusedWith(t, send(second, wire.NewMessageID()), kinds.NotFound, "parent")

	last := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindNotify, wire.Payload(`{"topic":"t"}`))
	last.Agent, last.Hops = "claude", wire.MaxHops
	if _, err := desk.send(last); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, send(second, last.ID), kinds.LoopDetected, "the limit is 16")

	third := paramsFor("planner", "c.txt", content)
	third.Size--
	if send(third, wire.MessageID{}) == nil {
		t.Error("a false hash was taken")
	}
	laptop.stop()
	for _, id := range []wire.MessageID{first.ID, second.ID, third.ID} {
		want := `msg="file sent" peer=` + planner.ID().Label() + " agent=claude id=" + id.String() + " size=100 state=held"
		if id == third.ID {
			want = `msg="file not sent" peer=` + planner.ID().Label() + " agent=claude id=" + id.String() + " size=99 err="
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, &log)
		}
	}
}
