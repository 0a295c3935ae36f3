package daemon

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// hostile is a peer of a daemon that says what it likes about files.
type hostile struct {
	*peer.Node
	t    *testing.T
	to   identity.ID
	stop func() // ends it, and waits until no stream is served any more
}

// newHostile makes a peer that a daemon trusts under a name. serve, which may be nil, serves its streams of files.
func newHostile(t *testing.T, d *running, name string, serve func(context.Context, *peer.Stream)) *hostile {
	t.Helper()
	trust := identity.NewMemoryTrustStore()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	n, err := peer.Listen(peer.Config{Key: key, Trust: trust, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if serve != nil {
		n.Handle(wire.StreamFile, "file", func(ctx context.Context, _ identity.ID, s *peer.Stream) { serve(ctx, s) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Serve(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	if _, err := trust.Trust(identity.Peer{ID: d.ID(), Name: "victim", Addrs: []string{d.node.Addr().String()}}); err != nil {
		t.Fatal(err)
	}
	d.dial().must("trust", client.TrustParams{Peer: key.ID().String(), Name: name, Addrs: []string{n.Addr().String()}}, nil)
	n.Connect(d.ID())
	await.Until(t, "connected", func() bool {
		_, there := d.node.Peer(key.ID())
		_, here := n.Peer(d.ID())
		return there && here
	})
	return &hostile{n, t, d.ID(), stop}
}

// open opens a stream with a request, for the time of the test.
func (h *hostile) open(f *wire.FileRequest) *peer.Stream {
	h.t.Helper()
	s := h.openBriefly(f)
	h.t.Cleanup(s.Cancel)
	return s
}

// openBriefly opens one that the caller ends.
func (h *hostile) openBriefly(f *wire.FileRequest) *peer.Stream {
	h.t.Helper()
	f.V = wire.FileVersion
	b, err := wire.AppendFileRequest(nil, f)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := h.OpenStream(h.t.Context(), h.to, wire.StreamFile)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := s.Write(b); err != nil {
		h.t.Fatal(err)
	}
	s.SetReadDeadline(time.Now().Add(await.Patience))
	return s
}

// offerOf returns the offer of a content.
func offerOf(content []byte) *wire.FileRequest {
	return &wire.FileRequest{Op: wire.FileOffer, ID: wire.NewMessageID(), Name: "x", Size: uint64(len(content)), Hash: sha256.Sum256(content)}
}

// next reads an answer to an offer.
func (h *hostile) next(in *bufio.Reader) *wire.FileReply {
	h.t.Helper()
	reply, err := wire.ReadFileReply(in)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply
}

// sendRange answers a want.
func (h *hostile) sendRange(id wire.MessageID, w *wire.FileReply, content []byte) *peer.Stream {
	h.t.Helper()
	s := h.open(&wire.FileRequest{Op: wire.FileRange, ID: id, Offset: w.Offset, Length: w.Length})
	s.Write(content)
	s.CloseWrite()
	return s
}

// isReset fails the test unless the receiver resets a range that it does not want.
func (h *hostile) isReset(s *peer.Stream, what string) {
	h.t.Helper()
	if n, err := s.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		h.t.Errorf("%s: %d bytes, %v", what, n, err)
	}
}

// alwaysFromPeer makes a daemon take files of a peer without a question.
func (d *running) alwaysFromPeer(peer identity.ID) {
	d.t.Helper()
	if err := d.store.Write(d.t.Context(), true, func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO daemon_file_always (peer) VALUES (?)", peer[:])
		return err
	}); err != nil {
		d.t.Fatal(err)
	}
}

// A receiver takes exactly the ranges that it has asked for, each once and from whom it has asked; what is not so is
// reset, and harms nothing.
// holds: security.md#files
func TestRangesThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h, other := newHostile(t, laptop, "desk", nil), newHostile(t, laptop, "other", nil)
	laptop.alwaysFromPeer(h.ID())
	content := randomBytes(3<<20 + 5)
	offer := offerOf(content)
	early := &wire.FileReply{Offset: 0, Length: 1 << 20}
	h.isReset(h.sendRange(offer.ID, early, content[:1<<20]), "before the offer")
	s := h.open(offer)
	in := bufio.NewReader(s)
	if r := h.next(in); r.Op != wire.FileTake {
		t.Fatalf("%+v", r)
	}
	wants := make([]*wire.FileReply, 4)
	for i := range wants {
		if wants[i] = h.next(in); wants[i].Op != wire.FileWant || wants[i].Offset != uint64(i)<<20 {
			t.Fatalf("%+v", wants[i])
		}
	}
	last := wants[3]
	h.isReset(h.sendRange(wire.NewMessageID(), early, content[:1<<20]), "another file")
	h.isReset(other.sendRange(offer.ID, early, content[:1<<20]), "another peer")
	h.isReset(h.sendRange(offer.ID, &wire.FileReply{Offset: 4 << 20, Length: 1}, content[:1]), "beyond the end")
	h.isReset(h.sendRange(offer.ID, &wire.FileReply{Offset: 1 << 62, Length: 1}, content[:1]), "far beyond the end")
	h.isReset(h.sendRange(offer.ID, &wire.FileReply{Offset: last.Offset, Length: 4}, content[:4]), "shorter than wanted")
	h.isReset(h.sendRange(offer.ID, &wire.FileReply{Offset: last.Offset, Length: 6}, content[:6]), "longer than wanted")
	for i, w := range wants[:3] {
		h.sendRange(offer.ID, w, content[i<<20:(i+1)<<20])
	}
	h.isReset(h.sendRange(offer.ID, last, content[:4]), "too few bytes")
	if w := h.next(in); w.Op != wire.FileWant || w.Offset != last.Offset {
		t.Fatalf("after too few bytes: %+v", w)
	}
	h.isReset(h.sendRange(offer.ID, last, content[:6]), "too many bytes")
	if w := h.next(in); w.Op != wire.FileWant || w.Offset != last.Offset || w.Have != 3<<20 {
		t.Fatalf("after too many bytes: %+v", w)
	}
	h.isReset(h.sendRange(offer.ID, early, content[:1<<20]), "once more")
	h.sendRange(offer.ID, last, content[3<<20:])
	if r := h.next(in); r.Op != wire.FileDone || r.State != "held" {
		t.Errorf("%+v", r)
	}
	_, got, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: offer.ID})
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A range that fails three times ends the transfer. What has come of it stays for a day, and nothing else is held.
// holds: security.md#files
func TestARangeThatFailsThreeTimes(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h := newHostile(t, laptop, "desk", nil)
	laptop.alwaysFromPeer(h.ID())
	content := randomBytes(2 << 20)
	offer := offerOf(content)
	in := bufio.NewReader(h.open(offer))
	h.next(in)
	first, second := h.next(in), h.next(in)
	h.sendRange(offer.ID, first, content[:1<<20])
	for range 3 {
		h.isReset(h.sendRange(offer.ID, second, content[:7]), "too few bytes")
		second = h.next(in)
	}
	if second.Op != wire.FileRefuse || second.Code != string(kinds.Timeout) {
		t.Errorf("%+v", second)
	}
	await.Until(t, "it has stopped", func() bool {
		f := laptop.listFiles()
		return len(f) == 1 && f[0].State == client.FilePaused && f[0].Bytes == 1<<20
	})
}

// A sender that lies about the hash loses what it has sent.
// holds: security.md#files
func TestASenderThatLiesAboutTheHash(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h := newHostile(t, laptop, "desk", nil)
	laptop.alwaysFromPeer(h.ID())
	content := randomBytes(100)
	offer := offerOf(content)
	offer.Hash[0]++
	in := bufio.NewReader(h.open(offer))
	h.next(in)
	h.sendRange(offer.ID, h.next(in), content)
	if r := h.next(in); r.Op != wire.FileRefuse || r.Code != string(kinds.Invalid) || !strings.Contains(r.Message, "changed") {
		t.Errorf("%+v", r)
	}
	await.Until(t, "nothing is left", func() bool { return len(laptop.listFiles()) == 0 })
	laptop.holdsNothingOfFiles(h.ID())
}

// A peer that offers without end gets its two places and sixteen unfinished files, the owner is asked about two, and
// other peers send as ever.
// holds: security.md#files
func TestTenThousandOffers(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h, desk := newHostile(t, laptop, "hostile", nil), start(t, stateDir(t), "desk")
	befriend(t, desk, laptop)
	laptop.alwaysFrom(desk)
	refused := make(map[string]int)
	var mu sync.Mutex
	offerMany := func(n int) {
		var offering sync.WaitGroup
		for range 8 {
			offering.Go(func() {
				for range n / 8 {
					s := h.openBriefly(offerOf(randomBytes(10)))
					reply, err := wire.ReadFileReply(bufio.NewReader(s))
					mu.Lock()
					if err != nil {
						t.Error(err)
					} else {
						refused[reply.Op+reply.Code]++
					}
					mu.Unlock()
					if reply == nil || reply.Op == wire.FileRefuse {
						s.Close()
					} else {
						t.Cleanup(s.Cancel)
					}
				}
			})
		}
		offering.Wait()
	}
	many := 10_000
	if testing.Short() { // as under the race detector
		many = 1_000
	}
	offerMany(many)
	if refused["asked"] != 2 || refused["refuse"+string(kinds.Overloaded)] != many-2 {
		t.Errorf("%v", refused)
	}
	if n := len(laptop.fileService.ListApprovals()); n != 2 {
		t.Errorf("the owner is asked about %d", n)
	}
	content := randomBytes(1 << 20)
	if _, err := desk.ownerSends(paramsFor("laptop", "x", content), content); err != nil {
		t.Error(err)
	}
	for _, a := range laptop.fileService.ListApprovals() {
		laptop.decide(a.ID, "no")
	}
	// Offers that it abandons when a range has come.
	laptop.alwaysFromPeer(h.ID())
	taken := 0
	await.Until(t, "no more unfinished files", func() bool {
		content := randomBytes(1<<20 + 1)
		offer := offerOf(content)
		s := h.open(offer)
		in := bufio.NewReader(s)
		reply := h.next(in)
		if reply.Op == wire.FileTake {
			taken++
			io.ReadAll(h.sendRange(offer.ID, h.next(in), content[:1<<20])) // until the range is there
		}
		s.Cancel()
		return strings.Contains(reply.Message, "have not come whole")
	})
	if taken != 16 {
		t.Errorf("%d unfinished files were taken", taken)
	}
}

// Two peers that draw one id: the first has it, and the other hears that it needs another.
func TestTwoPeersOneID(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	a, b := newHostile(t, laptop, "a", nil), newHostile(t, laptop, "b", nil)
	content := randomBytes(10)
	offer := offerOf(content)
	in := bufio.NewReader(a.open(offer))
	if r := a.next(in); r.Op != wire.FileAsked {
		t.Fatalf("%+v", r)
	}
	if r := b.next(bufio.NewReader(b.open(offer))); r.Op != wire.FileRefuse || r.Code != string(kinds.Invalid) {
		t.Errorf("%+v", r)
	}
	laptop.answerNext("yes")
	a.next(in)
	a.sendRange(offer.ID, a.next(in), content)
	if r := a.next(in); r.Op != wire.FileDone {
		t.Errorf("%+v", r)
	}
	if r := b.next(bufio.NewReader(b.open(offer))); r.Op != wire.FileRefuse || r.Code != string(kinds.Invalid) {
		t.Errorf("%+v", r)
	}
	laptop.dial().must(client.MethodAck, client.AckParams{UpTo: get[client.Inbox](laptop.dial(), client.MethodInbox, client.InboxParams{}).Messages[0].Seq}, nil)
	in = bufio.NewReader(b.open(offer))
	b.next(in)
	laptop.answerNext("yes")
	b.next(in)
	b.sendRange(offer.ID, b.next(in), content)
	if r := b.next(in); r.Op != wire.FileDone {
		t.Errorf("%+v", r)
	}
	_, _, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: offer.ID})
	refusedWith(t, err, kinds.Invalid, "several peers")
	if f, _, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: offer.ID, Peer: "b"}); err != nil || f.Peer != b.ID() {
		t.Errorf("%+v, %v", f, err)
	}
}

// An offer whose place on the disk a smaller disk does not have any more is refused in the middle.
func TestTheDiskFillsWhileAFileComes(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	h := newHostile(t, desk, "laptop", nil)
	desk.alwaysFromPeer(h.ID())
	content := randomBytes(2 << 20)
	offer := offerOf(content)
	in := bufio.NewReader(h.open(offer))
	h.next(in)
	first := h.next(in)
	h.next(in)
	free.Store(1<<30 - 1)
	await.Until(t, "the floor is noticed", func() bool { return desk.space.IsLow() })
	h.sendRange(offer.ID, first, content[:1<<20])
	if r := h.next(in); r.Op != wire.FileRefuse || r.Code != string(kinds.Overloaded) || !strings.Contains(r.Message, "disk") {
		t.Errorf("%+v", r)
	}
}

// A receiver gets what it may ask for, and no more: a sender ends a transfer whose receiver wants ranges without end,
// ranges that the file does not have, or any before it takes the file.
// holds: security.md#files
func TestAReceiverThatAsksForTooMuch(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	content := randomBytes(2<<20 + 9)
	want := func(i, length uint64) *wire.FileReply {
		return &wire.FileReply{Op: wire.FileWant, Offset: i << 20, Length: length}
	}
	take := &wire.FileReply{Op: wire.FileTake}
	endless := []*wire.FileReply{take}
	for range 10 {
		endless = append(endless, want(0, 1<<20))
	}
	for what, replies := range map[string][]*wire.FileReply{
		"endless": endless, "before take": {want(0, 1<<20)}, "beyond the end": {take, want(3, 1)}, "far beyond": {take, want(1<<42, 1)}, "longer": {take, want(2, 10)}, "shorter": {take, want(0, 1<<10)},
		"take twice": {take, take}, "asked after take": {take, {Op: wire.FileAsked}}, "asked twice": {{Op: wire.FileAsked}, {Op: wire.FileAsked}},
	} {
		t.Run(what, func(t *testing.T) {
			sent := make(chan int64, 64)
			h := newHostile(t, desk, "laptop", func(ctx context.Context, s *peer.Stream) {
				in := bufio.NewReader(s)
				request, err := wire.ReadFileRequest(in)
				if err != nil || request.Op == wire.FileRange {
					n, _ := io.Copy(io.Discard, in)
					sent <- n
					return
				}
				for _, r := range replies {
					b, err := wire.AppendFileReply(nil, r)
					if err != nil {
						t.Error(err)
					}
					s.Write(b)
				}
				<-ctx.Done()
			})
			defer func() { desk.dial().must("untrust", client.UntrustParams{Peer: "laptop"}, nil) }()
			_, err := sendFile(t, desk.home.ownerSocketPath(), paramsFor(h.ID().String(), "x", content), bytes.NewReader(content), nil)
			refusedWith(t, err, kinds.Internal, "may not have")
			h.stop()
			if len(sent) > 9 {
				t.Errorf("%d ranges were sent", len(sent))
			}
		})
	}
}

// A client that sends what it was not asked for, or that goes away, ends its transfer.
func TestAClientThatSendsWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	content := randomBytes(10)
	_, err := sendFile(t, desk.home.ownerSocketPath(), paramsFor("laptop", "x", content), bytes.NewReader(content), func(c net.Conn, line client.FileSendLine) {
		if line.State == client.FileAsked {
			c.Write([]byte("x"))
		}
	})
	refusedWith(t, err, kinds.Cancelled, "not asked for")
	await.Until(t, "nothing waits", func() bool { return len(laptop.fileService.ListApprovals()) == 0 })
}

// A client that answers nothing does not keep its transfer from ending, and hears of no more bytes than its file has.
// holds: security.md#files
func TestAClientThatStandsStill(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	h := newHostile(t, desk, "laptop", func(_ context.Context, s *peer.Stream) {
		in := bufio.NewReader(s)
		request, err := wire.ReadFileRequest(in)
		if err != nil || request.Op == wire.FileRange {
			io.Copy(io.Discard, in)
			return
		}
		replies := []*wire.FileReply{{Op: wire.FileTake}}
		for i := range uint64(18) {
			replies = append(replies, &wire.FileReply{Op: wire.FileWant, Offset: i / 3 << 20, Length: 1 << 20, Have: 1 << 62})
		}
		for _, r := range append(replies, &wire.FileReply{Op: wire.FileRefuse, Code: string(kinds.Timeout), Message: "too slow"}) {
			b, err := wire.AppendFileReply(nil, r)
			if err != nil {
				t.Error(err)
			}
			s.Write(b)
		}
	})
	p := paramsFor(h.ID().String(), "x", randomBytes(6<<20))
	_, in, err := callAlone(t, desk.home.ownerSocketPath(), client.MethodFileSend, p, nil)
	for err == nil {
		var text []byte
		var line client.FileSendLine
		if text, err = in.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(text, &line)
		}
		if line.Error != nil {
			refusedWith(t, line.Error, kinds.Timeout, "too slow")
			return
		}
		if line.Moved > p.Size {
			t.Errorf("%d bytes of %d have moved", line.Moved, p.Size)
		}
	}
	t.Error(err)
}
