package daemon

import (
	"bufio"
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
	notify := func(id wire.MessageID) error {
		return s.call("notify", client.NotifyParams{Head: client.Head{ID: id, Parent: woke.ID}, To: client.To("planner"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	}
	ofMessage := paramsFor("planner", "m.txt", content) // under the id of a message, which does not pay for it
	for i := range 49 {                                 // of 100 messages an hour, half
		id := ofMessage.ID
		if i > 0 {
			id = wire.NewMessageID()
		}
		if err := notify(id); err != nil {
			t.Fatal(err)
		}
	}
	refusedWith(t, send(ofMessage, woke.ID), kinds.Overloaded, "desk has woken this session")
	refusedWith(t, notify(first.ID), kinds.Overloaded, "desk has woken this session")
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

// The list fits a line whatever peers write: what waits for the owner counts, and has the beginning of its text.
// The newest come first, and one can be named.
func TestTheListOfFilesFitsALine(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), startConfigured(t, "laptop", "max_message: 65536\n")
	befriend(t, desk, laptop)
	laptop.alwaysFromPeer(desk.ID())
	long := strings.Repeat("\x01", client.MaxFileText) // six times as long in JSON
	var want []wire.MessageID
	for i := range 8 {
		content := randomBytes(i)
		p := paramsFor("laptop", "x", content)
		p.Text = long
		if _, err := desk.ownerSends(p, content); err != nil {
			t.Fatal(err)
		}
		want = append([]wire.MessageID{p.ID}, want...)
	}
	stranger := newHostile(t, laptop, "table", nil)
	for range 2 {
		offer := offerOf(randomBytes(9))
		offer.Text = long
		if reply := stranger.next(bufio.NewReader(stranger.open(offer))); reply.Op != wire.FileAsked {
			t.Fatalf("%+v", reply)
		}
		want = append([]wire.MessageID{offer.ID}, want...)
	}
	l := laptop.dial()
	pages, got := 0, []client.File(nil)
	for p := (client.FilesParams{}); ; pages++ {
		page := get[client.Files](l, client.MethodFiles, p)
		got = append(got, page.Files...)
		if p.After = page.Next; p.After == 0 {
			break
		}
	}
	for i, f := range got {
		if i >= len(want) || f.ID != want[i] || (f.State == client.FileAsked) != (i < 2) || len(f.Text) > client.MaxBeginning == (i < 2) {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if len(got) != len(want) || pages < 2 {
		t.Errorf("%d files on %d pages", len(got), pages)
	}
	if page := get[client.Files](l, client.MethodFiles, client.FilesParams{Limit: 1}); len(page.Files) != 3 || page.Files[2].ID != want[2] || page.Next == 0 {
		t.Errorf("with a limit: %d, then %d", len(page.Files), page.Next)
	}
	for i, id := range want {
		if page := get[client.Files](l, client.MethodFiles, client.FilesParams{ID: id}); len(page.Files) != 1 || page.Files[0].ID != id || page.Next != 0 {
			t.Errorf("file %d by its id: %+v", i, page)
		}
	}
	l.refused(kinds.Invalid, client.MethodFiles, client.FilesParams{Limit: -1})
}

// The connection of an agent, or of a subscriber, carries no file: nobody could be reached by it any more.
func TestFilesNeedAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	desk, _ := pair(t)
	agent, _ := desk.guestAgent(client.AttachParams{Name: "planner"}, say(`{}`))
	subscriber := desk.dial()
	subscriber.must("subscribe", client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventTrust}}}, nil)
	for _, l := range []*program{agent, subscriber} {
		l.refused(kinds.Invalid, client.MethodFileSend, paramsFor("laptop", "x", nil))
		l.refused(kinds.Invalid, client.MethodFileTake, client.FileTakeParams{ID: wire.NewMessageID()})
		l.must(client.MethodWhoami, nil, nil) // it goes on
	}
}
