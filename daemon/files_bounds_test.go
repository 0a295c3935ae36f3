package daemon

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// A file under the id of a message of its sender, which the inbox has or an agent was handed, is refused before its
// bytes come.
func TestAFileUnderTheIDOfAMessage(t *testing.T) {
	t.Parallel()
	for _, state := range []wire.ReceiptState{wire.Held, wire.Handed} {
		t.Run(state.String(), func(t *testing.T) { t.Parallel(); sendFileUnderTheIDOfAMessage(t, state == wire.Handed) })
	}
}

func sendFileUnderTheIDOfAMessage(t *testing.T, handed bool) {
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	if handed {
		laptop.agent(client.AttachParams{Name: "fixer", Kinds: []string{"notify"}}, say(`{}`))
	}
	content := randomBytes(10)
	p := paramsFor("laptop", "x", content)
	desk.dial().must("notify", client.NotifyParams{To: client.To("laptop"), Head: client.Head{ID: p.ID}, Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})}, nil)
	_, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.State != "" {
			t.Errorf("it is %s", line.State)
		}
	})
	refusedWith(t, err, kinds.Invalid, "was used for another")
	if files := laptop.listFiles(); len(files) != 1 {
		t.Errorf("%+v", files)
	}
}

// Files that wait for room in the inbox cost one attempt and one line of a peer, and their sender hears that they are
// there.
func TestFilesThatCannotBeReported(t *testing.T) {
	t.Parallel()
	desk, mill, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "mill"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	befriend(t, mill, laptop)
	laptop.alwaysFromPeer(desk.ID())
	laptop.alwaysFromPeer(mill.ID())
	var sent []client.FileSendParams
	content := randomBytes(10)
	for _, from := range []*running{desk, desk, desk, mill} {
		p := paramsFor("laptop", "x", content)
		if _, err := from.ownerSends(p, content); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, p)
	}
	statedb.Exec(t, laptop.store, "DELETE FROM daemon_inbox")
	peer := mill.ID()
	statedb.Exec(t, laptop.store, "UPDATE daemon_file SET reported = 0, until = until + (peer = ?)", peer[:])
	laptop.stop()
	log := new(await.Output)
	laptop = startWith(t, Options{Home: laptop.dir, Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: log, measure: func(string) (disk.Space, error) {
		return disk.Space{Free: 1 << 20, Total: 1 << 41}, nil
	}})
	countLines := func(of *running) int {
		return len(slices.DeleteFunc(strings.Split(log.String(), "\n"), func(line string) bool {
			return !strings.Contains(line, "not reported") || !strings.Contains(line, of.ID().Label())
		}))
	}
	await.Until(t, "the last one is tried", func() bool { return countLines(mill) > 0 })
	if n := countLines(desk); n != 1 {
		t.Errorf("%d lines\n%s", n, log)
	}
	befriend(t, desk, laptop)
	_, err := desk.ownerSends(sent[0], content)
	refusedWith(t, err, kinds.Overloaded, "the file is there")
}

// Agents have half of the places for files that are being sent and taken, and the owner has one then.
// holds: security.md#files
func TestAgentsLeavePlacesForFilesOfTheOwner(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	h := newHostile(t, desk, "laptop", func(ctx context.Context, s *peer.Stream) { <-ctx.Done() }) // it answers nothing
	desk.alwaysFromPeer(h.ID())
	content := randomBytes(1 << 20) // more than a socket holds
	offer := offerOf(content)
	in := bufio.NewReader(h.open(offer))
	h.next(in)
	h.sendRange(offer.ID, h.next(in), content)
	h.next(in)
	_, planner := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	byAgent := func(method string, params any) error {
		_, err := callOn(t, desk.spokenFor("planner", planner), method, params, nil)
		return err
	}
	byOwner := func(method string, params any) error {
		_, _, err := callAlone(t, desk.home.ownerSocketPath(), method, params, nil)
		return err
	}
	send, take := paramsFor(h.ID().String(), "x", content), client.FileTakeParams{ID: offer.ID}
	if err := byAgent(client.MethodFileTake, take); err != nil { // it reads nothing
		t.Fatal(err)
	}
	for range 15 {
		if err := byAgent(client.MethodFileSend, send); err != nil {
			t.Fatal(err)
		}
	}
	refusedWith(t, byAgent(client.MethodFileSend, send), kinds.Overloaded, "16")
	refusedWith(t, byAgent(client.MethodFileTake, take), kinds.Overloaded, "16")
	for range 16 {
		if err := byOwner(client.MethodFileSend, send); err != nil {
			t.Fatal(err)
		}
	}
	refusedWith(t, byOwner(client.MethodFileSend, send), kinds.Overloaded, "32")
	refusedWith(t, byOwner(client.MethodFileTake, take), kinds.Overloaded, "32")
}

// stopCalendar makes a daemon count the files of this day though midnight passes. Nobody may send one yet.
func (d *running) stopCalendar() {
	today := d.fileService.Today()
	d.fileService.Today = func() time.Time { return today }
}

// startAsking starts a daemon that asks about what exceeds a number of bytes a day, and a peer of which it has a file.
func startAsking(t *testing.T, bound string) (*running, *hostile) {
	t.Helper()
	laptop := start(t, stateDir(t), "laptop")
	laptop.stopCalendar()
	laptop.configure("files: {ask: " + bound + "}\n")
	h := newHostile(t, laptop, "desk", nil)
	offer := offerOf(nil)
	in := bufio.NewReader(h.open(offer))
	h.next(in)
	laptop.answerNext("yes")
	h.next(in)
	if r := h.next(in); r.Op != wire.FileDone {
		t.Fatalf("%+v", r)
	}
	return laptop, h
}

// Two files that are offered at once, and exceed together what comes without a question, cost one.
func TestTwoOffersAtOnceAreCountedTogether(t *testing.T) {
	t.Parallel()
	laptop, h := startAsking(t, "1000")
	free, began, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- laptop.store.Write(t.Context(), false, func(*store.Tx) error { close(began); <-free; return nil })
	}()
	<-began
	var replies []*bufio.Reader
	for range 2 {
		replies = append(replies, bufio.NewReader(h.open(offerOf(randomBytes(600)))))
	}
	await.Until(t, "both are about to be recorded", func() bool {
		return slices.ContainsFunc(laptop.budget.ListUsage(), func(u budget.Usage) bool {
			return u.Peer == h.ID() && u.Row.Name == budget.FileBytes.Name && u.Held == 1200
		})
	})
	close(free)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	ops := []string{h.next(replies[0]).Op, h.next(replies[1]).Op}
	if slices.Sort(ops); !slices.Equal(ops, []string{wire.FileAsked, wire.FileTake}) {
		t.Errorf("%v", ops)
	}
}

// Bytes that end in nothing are counted for the question, be it that they had another hash or were cut, for a new file
// and for one that continues. The owner's yes lets as many come again.
// holds: security.md#files
func TestLostBytesAreCounted(t *testing.T) {
	t.Parallel()
	laptop, h := startAsking(t, "2500000")
	content := randomBytes(2 << 20)
	liar := offerOf(content)
	liar.Hash[0]++
	expect := func(in *bufio.Reader, op string) *wire.FileReply {
		t.Helper()
		r := h.next(in)
		if r.Op != op {
			t.Fatalf("%+v, want %s", r, op)
		}
		return r
	}
	in := bufio.NewReader(h.open(liar))
	expect(in, wire.FileTake)
	for i := range 2 {
		h.sendRange(liar.ID, expect(in, wire.FileWant), content[i<<20:(i+1)<<20])
	}
	expect(in, wire.FileRefuse)
	honest := offerOf(content)
	in = bufio.NewReader(h.open(honest))
	expect(in, wire.FileAsked)
	laptop.answerNext("yes")
	expect(in, wire.FileTake)
	expect(in, wire.FileWant)
	second := expect(in, wire.FileWant)
	for range 3 {
		h.isReset(h.sendRange(honest.ID, second, content[1<<20:2<<20-1]), "cut")
		if second = h.next(in); second.Op == wire.FileRefuse {
			break
		}
	}
	in = bufio.NewReader(h.open(honest))
	expect(in, wire.FileAsked)
	if listed := slices.DeleteFunc(laptop.listFiles(), func(f client.File) bool { return f.ID != honest.ID }); len(listed) != 1 || listed[0].State != client.FileAsked {
		t.Errorf("the list has %+v", listed)
	}
	laptop.answerNext("yes")
	expect(in, wire.FileTake)
	first := expect(in, wire.FileWant)
	second = expect(in, wire.FileWant)
	h.sendRange(honest.ID, first, content[:1<<20])
	h.sendRange(honest.ID, second, content[1<<20:])
	expect(in, wire.FileDone)
}

// A file that came today counts for the day, though it was removed meanwhile.
// holds: security.md#files
func TestRemovedFilesCountForTheDay(t *testing.T) {
	t.Parallel()
	laptop, h := startAsking(t, "1500")
	content := randomBytes(1000)
	first := offerOf(content)
	in := bufio.NewReader(h.open(first))
	h.next(in)
	h.sendRange(first.ID, h.next(in), content)
	if r := h.next(in); r.Op != wire.FileDone {
		t.Fatalf("%+v", r)
	}
	laptop.dial().must(client.MethodFileRemove, client.FileRemoveParams{ID: first.ID}, nil)
	if r := h.next(bufio.NewReader(h.open(offerOf(content)))); r.Op != wire.FileAsked {
		t.Errorf("%+v", r)
	}
}

// A peer that offers and gives up causes as many events as one whose messages wait to wake sessions: ten a minute.
func TestAbandonedOffersAreFewEvents(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h, other := newHostile(t, laptop, "desk", nil), newHostile(t, laptop, "other", nil)
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventApproval}}})
	began := time.Now()
	for range 12 {
		await.Until(t, "the owner is asked", func() bool {
			s := h.open(offerOf(randomBytes(10)))
			defer s.Cancel()
			return h.next(bufio.NewReader(s)).Op == wire.FileAsked
		})
	}
	laptop.holdsNothingOfFiles(h.ID())
	other.open(offerOf(randomBytes(10)))
	n := 0
	for await.Receive(t, "an event", events).Peer == h.ID() {
		n++
	}
	if most := 10 * (1 + int(time.Since(began)/time.Minute)); n < 10 || n > most {
		t.Errorf("%d events, want 10 to %d", n, most)
	}
}

// The owner's programs hear that a file waits.
func TestAFileThatWaitsIsAnEvent(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asked := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventApproval}}})
	content := randomBytes(10)
	sent := make(chan error, 1)
	go func() { _, err := desk.ownerSends(paramsFor("laptop", "x", content), content); sent <- err }()
	e := await.Receive(t, "the event", asked)
	var details struct{ ID, Kind string }
	if err := json.Unmarshal(e.Details, &details, json.MatchCaseInsensitiveNames(true)); err != nil || details.Kind != "file" || e.Peer != desk.ID() {
		t.Errorf("%+v: %+v, %v", e, details, err)
	}
	laptop.decide(details.ID, "yes")
	if err := await.Receive(t, "the end", sent); err != nil {
		t.Error(err)
	}
}
