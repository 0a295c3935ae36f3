package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

// serverOf hands out the connection of the client and the numbers of its subscriptions.
type serverOf struct {
	mu        sync.Mutex
	conn      *fakeConn
	sids      map[string]string
	published []publication
}

func (s *serverOf) serve(c *fakeConn) {
	if c.accept(plainInfo) != nil {
		return
	}
	s.mu.Lock()
	s.conn, s.sids = c, make(map[string]string)
	s.mu.Unlock()
	c.follow(func(p publication) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.published = append(s.published, p)
	}, func(subject, sid string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sids[subject] = sid
	})
}

// packet sends the client a packet with a claimed sender.
func (s *serverOf) packet(from identity.ID, data string) { s.payload(string(from[:]) + data) }

func (s *serverOf) payload(text string) {
	own := subjectPrefix + self.String()
	s.conn.message(own, s.sids[own], text)
}

func TestPackets(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		largest := strings.Repeat("p", MTU)
		for _, p := range []string{"x", largest} {
			l.WriteTo([]byte(p), l.Addr(trusted1))
		}
		l.WriteTo([]byte(largest+"p"), l.Addr(trusted1))
		if n, err := l.WriteTo([]byte("x"), &net.UDPAddr{}); err == nil {
			t.Errorf("a UDP address takes %d bytes", n)
		}
		if _, err := l.WriteTo([]byte("x"), newAddr("other", trusted1)); err == nil {
			t.Error("an address of another relay takes a packet")
		}
		synctest.Wait()
		if s.published = s.published[1:]; len(s.published) != 2 { // the first is the challenge to clones
			t.Fatalf("published %v", s.published)
		}
		for i, want := range []string{"x", largest} {
			if p := s.published[i]; p.subject != subjectPrefix+trusted1.String() || p.payload != string(self[:])+want {
				t.Errorf("published %.200q, want the packet %.20q", p, want)
			}
		}

		s.packet(trusted1, "hello")
		s.packet(invited1, largest)
		synctest.Wait()
		if got := readAll(t, l); !slices.Equal(got, []string{"bb01 hello", "cc01 " + largest}) {
			t.Errorf("read %.200q", got)
		}
		state := l.State()
		if state.Out != (Traffic{2, 1 + MTU}) || state.In != (Traffic{2, 5 + MTU}) || state.DroppedOut != 1 || state.DroppedIn != 0 {
			t.Errorf("counted %+v", state)
		}
	})
}

// What is no packet, of nobody, of this daemon itself or of a stranger is dropped before it is queued.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestForgedPackets(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		bad := []string{
			"x", string(trusted1[:31]), string(trusted1[:]), string(make([]byte, 40)), string(stranger[:]) + "x",
			string(trusted1[:]) + strings.Repeat("p", MTU+1), strings.Repeat("z", 100_000),
		}
		for _, p := range bad {
			s.payload(p)
		}
		own := subjectPrefix + self.String()
		// Of this daemon itself: its own tests send that while nothing is wrong.
		s.payload(string(self[:]) + "0123456789abcdef")
		s.conn.say("HMSG %s %s 12 12\r\nNATS/1.0\r\n\r\n\r\n", own, s.sids[own])
		s.packet(trusted1, "good")
		synctest.Wait()
		if got := readAll(t, l); !slices.Equal(got, []string{"bb01 good"}) {
			t.Errorf("read %.300q", got)
		}
		if got := l.State().DroppedIn; got != uint64(len(bad))+1 {
			t.Errorf("%d dropped, sent were %d", got, len(bad)+1)
		}
	})
}

// A flood of those that an invitation lets in, and of one trusted id, keeps no packet of
// another trusted id back, and is bounded.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestFlood(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		for i := range 300 {
			s.packet(identity.ID{0xcc, byte(i), byte(i >> 8)}, "flood")
			s.packet(trusted2, "flood")
		}
		for i := range 3 {
			s.packet(trusted1, fmt.Sprintf("wanted %d", i))
		}
		synctest.Wait()
		got := readAll(t, l)
		if len(got) != maxOfRest+maxOfTrusted+3 {
			t.Errorf("%d packets were kept", len(got))
		}
		for i := range 3 {
			if at := slices.Index(got, fmt.Sprintf("bb01 wanted %d", i)); at < 0 || at > 3*(i+1) {
				t.Errorf("packet %d of the other trusted id is read at place %d", i, at)
			}
		}
		s.packet(trusted2, "later")
		synctest.Wait()
		if got := readAll(t, l); !slices.Equal(got, []string{"bb02 later"}) {
			t.Errorf("after the flood %q is read", got)
		}
	})
}

// holds: security.md#against-a-relay-and-those-who-share-it
func TestQueues(t *testing.T) {
	q := newQueues()
	id := func(i int) identity.ID { return identity.ID{0xbb, byte(i), byte(i >> 8)} }
	packet := inPacket{data: []byte("x")}
	// Ids fill what all may have; then an id with none waiting still gets one in, up to the second bound.
	for i := range 2 * maxWaiting {
		most := 2
		if i < maxWaiting/maxOfTrusted {
			most = maxOfTrusted + 1
		}
		for j := range most {
			q.push(id(i), true, inPacket{data: fmt.Appendf(nil, "%d %d", i, j)})
		}
	}
	if q.waiting != 2*maxWaiting {
		t.Errorf("%d packets wait", q.waiting)
	}
	if q.push(id(2*maxWaiting+1), true, packet) {
		t.Error("a packet beyond the bound is taken")
	}
	last := make(map[string]int)
	for range 2 * maxWaiting {
		p, ok := q.pop()
		if !ok {
			t.Fatal("less can be read")
		}
		var i, j int
		fmt.Sscanf(string(p.data), "%d %d", &i, &j)
		if before, ok := last[fmt.Sprint(i)]; ok && j != before+1 || !ok && j != 0 {
			t.Fatalf("packet %d of id %d comes after %d", j, i, before)
		}
		last[fmt.Sprint(i)] = j
	}
	if len(q.trusted) != 0 || q.waiting != 0 {
		t.Errorf("%d queues, %d packets after all was read", len(q.trusted), q.waiting)
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, testConfig())
		read := func() error {
			_, _, err := l.ReadFrom(make([]byte, 10))
			return err
		}
		began := time.Now()
		l.SetDeadline(began.Add(time.Second))
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("again: %v", err)
		}
		l.SetReadDeadline(time.Time{})
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- read() }()
		}
		synctest.Wait()
		l.SetReadDeadline(time.Now()) // as quic-go does it
		for range 2 {
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a deadline that is set while reading: %v", err)
			}
		}
		l.SetReadDeadline(time.Time{})
		go func() { ended <- read() }()
		synctest.Wait()
		l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("close while reading: %v", err)
		}
	})
}

// Of two processes with one identity each learns of the other; a forged challenge or answer
// convinces nobody.
// holds: security.md#against-a-relay-and-those-who-share-it
// holds: security.md#against-those-who-break-or-copy-keys
func TestClone(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		go readFor(t, l, time.Hour)
		own := subjectPrefix + self.String()
		challenge := s.published[0]
		if challenge.subject != own || challenge.payload != "" || !strings.HasPrefix(challenge.reply, own+".") {
			t.Fatalf("the first message is %q", challenge)
		}
		ask := func(reply string) {
			s.conn.say("MSG %s %s %s 0\r\n\r\n", own, s.sids[own], reply)
			synctest.Wait()
		}
		answer := func(text []byte) {
			s.conn.message(challenge.reply, s.sids[own+".*"], string(text))
			synctest.Wait()
		}
		ask(challenge.reply) // its own, as the server hands it back
		if len(s.published) != 1 {
			t.Fatalf("it answers itself: %q", s.published[1:])
		}
		answer(nil)
		answer(makeCloneAnswer([32]byte{8}, challenge.reply[len(own)+1:]))
		s.conn.nobody(challenge.reply, s.sids[own+".*"])
		ask(own + "." + l.config.Challenges.open()) // another link's of this process, which somebody has carried here
		ask("acp1.elsewhere")
		ask(own + ".short")
		synctest.Wait()
		if !l.State().Clone.IsZero() || len(s.published) != 1 {
			t.Fatalf("clone %s, published %q", l.State().Clone, s.published)
		}
		const foreign = "00112233445566ff"
		for range 10 {
			ask(own + "." + foreign)
		}
		if len(s.published) != 3 || !bytes.Equal([]byte(s.published[1].payload), makeCloneAnswer(l.config.Key, foreign)) || s.published[2] != challenge {
			t.Fatalf("to another process's challenge it published %q", s.published[1:])
		}
		answer(makeCloneAnswer(l.config.Key, challenge.reply[len(own)+1:]))
		if l.State().Clone.IsZero() {
			t.Error("the answer of another process is not told")
		}
	})
}

// The memory of reply subjects is bounded, and a peer that was forgotten gets the same again.
func TestReplySubjects(t *testing.T) {
	r := newReplies("vps", self, [32]byte{1})
	first := r.findTarget(trusted1)
	for i := range 2 * maxTargets {
		r.findTarget(identity.ID{1, byte(i), byte(i >> 8)})
	}
	if len(r.byID) > maxTargets || len(r.byToken) != len(r.byID) {
		t.Errorf("%d ids, %d tokens", len(r.byID), len(r.byToken))
	}
	if again := r.findTarget(trusted1); again == first || *again != *first {
		t.Errorf("the subjects of a peer change from %+v to %+v", first, again)
	}
	for _, other := range []*replies{newReplies("other", self, [32]byte{1}), newReplies("vps", self, [32]byte{2})} {
		if other.findTarget(trusted1).reply == first.reply {
			t.Error("two relays or two processes have one reply subject")
		}
	}
	c := testConfig()
	a, b := mustOpen(t, c), mustOpen(t, c)
	if first := a.replies.findTarget(trusted1).reply; first == b.replies.findTarget(trusted1).reply || first == newReplies(c.Name, c.Self, [32]byte{}).findTarget(trusted1).reply {
		t.Errorf("anybody knows the reply subject %s", first)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{}, "acp1."+self.String())
	f.Add(append(trusted1[:], 'x'), "acp1."+self.String()+".0123456789abcdef")
	f.Add(make([]byte, 33), "acp1."+self.String()+".0123456789ABCDEF")
	r := newReplies("vps", self, [32]byte{1})
	own := r.findTarget(trusted1)
	f.Add([]byte("x"), own.reply)
	f.Fuzz(func(t *testing.T, payload []byte, subject string) {
		if from, packet, ok := parsePayload(payload, self); ok {
			if from.IsZero() || from == self || len(packet) == 0 || len(packet) > MTU || string(from[:])+string(packet) != string(payload) {
				t.Errorf("%q gives %s and %q", payload, from, packet)
			}
		}
		token, ok := r.parseToken(subject)
		if ok && subject != "acp1."+self.String()+"."+token {
			t.Errorf("%q gives %q", subject, token)
		}
		if peer := r.findPeer(token); ok && peer != nil && subject != own.reply {
			t.Errorf("%q is the reply subject of %s", subject, peer.id)
		}
	})
}
