package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/identity"
)

// While packets are read, one trusted id and all strangers send more than nats.go keeps in all. Another
// trusted id loses nothing, and waits for a packet of each of them at most.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestFloodWhileReading(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		const rounds, flood, wanted = 30, 400, 10
		for round := range rounds {
			for i := range flood {
				s.packet(trusted2, "flood")
				s.packet(identity.ID{0xcc, byte(i), byte(i >> 8)}, "flood")
				if i%(flood/wanted) == 0 {
					s.packet(trusted1, fmt.Sprintf("wanted %d", round))
				}
			}
			synctest.Wait()
			got := readSome(t, l, 3*wanted)
			if n := countOf(got, fmt.Sprintf("bb01 wanted %d", round)); n != wanted {
				t.Fatalf("round %d: %d of %d packets of the other trusted id were read among %d", round, n, wanted, len(got))
			}
		}
		if err := l.State().LastError; err != nil {
			t.Errorf("it is said that packets were lost: %v", err)
		}
	})
}

// A link that nobody reads keeps what nats.go's bounds allow, says that packets are lost, and hears
// 503s. Whoever reads it later gets what waits and what comes then.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestUnreadLinkIsBounded(t *testing.T) {
	for name, payload := range map[string]string{
		"packets": string(trusted1[:]) + "x",
		"garbage": strings.Repeat("z", maxRead),
	} {
		t.Run(name, func(t *testing.T) {
			var s serverOf
			withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, o *testObserver) {
				synctest.Wait()
				l.WriteTo([]byte("x"), l.Addr(trusted1))
				synctest.Wait()
				for range 2 * maxPendingMessages {
					s.payload(payload)
				}
				s.conn.nobody(s.published[1].reply, s.sids[subjectPrefix+self.String()+".*"])
				synctest.Wait()
				messages, size, err := l.session.Load().packets.Pending()
				if err != nil || messages > maxPendingMessages || size > maxPendingBytes || l.queues.waiting > 0 {
					t.Errorf("%d messages of %d bytes wait, and %d packets, %v", messages, size, l.queues.waiting, err)
				}
				if told, _ := o.told(); len(told) != 1 {
					t.Errorf("told %v of a 503", told)
				}
				if err := l.State().LastError; err == nil || !strings.Contains(err.Error(), "some are lost") {
					t.Errorf("last error %v", err)
				}
				kept := 0
				if name == "packets" {
					kept = maxOfTrusted
				}
				if got := readAll(t, l); len(got) < kept || len(got) > kept+1 { // nats.go says once in the place of a message that it has lost some
					t.Errorf("%d packets are read", len(got))
				}
				s.packet(trusted1, "later")
				synctest.Wait()
				if got := readAll(t, l); !slices.Equal(got, []string{"bb01 later"}) {
					t.Errorf("then %.100q is read", got)
				}
			})
		})
	}
}

// What waits in nats.go is bounded in messages and in bytes, also for a reader that is slow.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestSubscriptionsAreBounded(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		if err := l.SetName("desk"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		on := l.session.Load()
		for what, sub := range map[string]*nats.Subscription{"packets": on.packets, "replies": on.replies, "name": on.naming} {
			messages, size, err := sub.PendingLimits()
			if err != nil || messages <= 0 || messages > 1024 || size <= 0 || size > 4<<20 {
				t.Errorf("%s: %d messages and %d bytes may wait, %v", what, messages, size, err)
			}
			if what == "name" && messages > 64 {
				t.Errorf("%d requests may wait", messages)
			}
		}
	})
}

// Whoever reads stays while connections to the server come and go, and gets the packets of each.
func TestReadThroughConnections(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
		got := make(chan []string, 1)
		go func() { got <- readFor(t, l, time.Hour) }() // before the first
		const connections = 10
		var want []string
		for i := range connections {
			synctest.Wait()
			text := fmt.Sprintf("of connection %d", i)
			s.packet(trusted1, text)
			want = append(want, "bb01 "+text)
			synctest.Wait()
			n.hangUp()
			time.Sleep(firstPause)
		}
		synctest.Wait()
		if got := l.State().Reconnects; got != connections {
			t.Fatalf("%d reconnects", got)
		}
		l.Close()
		if got := <-got; !slices.Equal(got, want) {
			t.Errorf("read %q", got)
		}
	})
}

// A question that waits unread when its connection ends is answered on no other one.
func TestQuestionOfAnEndedConnection(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		own := subjectPrefix + self.String()
		ask := func() {
			s.conn.say("MSG %s %s %s 0\r\n\r\n", own, s.sids[own], own+".00112233445566ff")
			synctest.Wait()
		}
		ask()
		n.hangUp()
		time.Sleep(firstPause)
		synctest.Wait()
		before := len(s.published)
		readAll(t, l)
		synctest.Wait()
		if len(s.published) != before {
			t.Fatalf("it published %q", s.published[before:])
		}
		ask()
		readAll(t, l)
		synctest.Wait()
		if len(s.published) != before+2 {
			t.Errorf("to a question of this connection it published %q", s.published[before:])
		}
	})
}

// A 503 on the own subject, which any member of the account can send, is dropped and counted.
func TestStatusOnTheOwnSubject(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, o *testObserver) {
		synctest.Wait()
		own := subjectPrefix + self.String()
		s.conn.nobody(own, s.sids[own])
		s.packet(trusted1, "good")
		synctest.Wait()
		if got := readAll(t, l); !slices.Equal(got, []string{"bb01 good"}) {
			t.Errorf("read %q", got)
		}
		if told, _ := o.told(); len(told) > 0 || l.State().DroppedIn != 1 {
			t.Errorf("told %q, %d dropped", told, l.State().DroppedIn)
		}
	})
}

// readSome reads so many packets, or what there is.
func readSome(t *testing.T, l *Link, n int) (packets []string) {
	t.Helper()
	p := make([]byte, MTU)
	l.SetReadDeadline(time.Now().Add(time.Millisecond))
	for range n {
		size, from, err := l.ReadFrom(p)
		if err != nil {
			break
		}
		packets = append(packets, describePacket(l, from, p[:size]))
	}
	return packets
}

func countOf(packets []string, one string) (n int) {
	for _, p := range packets {
		if p == one {
			n++
		}
	}
	return n
}
