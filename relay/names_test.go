package relay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// asked returns what the client has asked about names.
func (s *serverOf) asked() (all []publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.published {
		if strings.HasPrefix(p.subject, nameSubject) {
			all = append(all, p)
		}
	}
	return all
}

// replySID returns the number of the client's subscription to its reply subjects.
func (s *serverOf) replySID() string { return s.sids[subjectPrefix+self.String()+".*"] }

// asking is an ask that is under way.
type asking struct {
	answers []string
	took    time.Duration
	err     error
	wg      sync.WaitGroup
}

// startAsk asks for a name until an answer is enough, for 3 s at most.
func startAsk(t *testing.T, l *Link, enough string) *asking {
	a := new(asking)
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		a.err = l.Ask(ctx, "build-7", []byte("this"), func(answer []byte) bool {
			a.answers = append(a.answers, string(answer))
			return string(answer) != enough
		})
		a.took = time.Since(began)
	})
	synctest.Wait()
	return a
}

func TestAskGoesOutAndAnswersCome(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, o *testObserver) {
		synctest.Wait()
		a := startAsk(t, l, "right")
		asked := s.asked()
		if len(asked) != 1 || asked[0].subject != "acp1.name.build-7" {
			t.Fatalf("asked %q", asked)
		}
		token := strings.TrimPrefix(asked[0].reply, subjectPrefix+self.String()+".")
		binary, err := hex.DecodeString(token)
		if err != nil || len(token) != tokenLen || asked[0].payload != string(self[:])+string(binary)+"this" {
			t.Errorf("asked %q", asked[0])
		}
		s.conn.message(asked[0].reply, s.replySID(), "wrong")
		s.conn.nobody(asked[0].reply, s.replySID()) // of another server of a cluster: there is an answer
		time.Sleep(2 * askAgain)
		s.conn.message(asked[0].reply, s.replySID(), "right")
		a.wg.Wait()
		if a.err != nil || strings.Join(a.answers, " ") != "wrong right" || len(s.asked()) != 1 {
			t.Errorf("%v, answers %q, asked %d times", a.err, a.answers, len(s.asked()))
		}

		// What comes later is for nobody, and no word about a peer.
		dropped := l.State().DroppedIn
		s.conn.message(asked[0].reply, s.replySID(), "late")
		s.conn.nobody(asked[0].reply, s.replySID())
		synctest.Wait()
		if nobody, _ := o.told(); len(nobody) != 0 || l.State().DroppedIn != dropped+2 {
			t.Errorf("nobody at %v; %d dropped", nobody, l.State().DroppedIn-dropped)
		}
	})
}

func TestAskThatFails(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, network *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		a := startAsk(t, l, "")
		s.conn.nobody(s.asked()[0].reply, s.replySID())
		if a.wg.Wait(); !errors.Is(a.err, ErrNobody) || a.took != 0 {
			t.Errorf("after %s: %v", a.took, a.err)
		}

		// Without a word it asks again each second, until its time is over.
		before := len(s.asked())
		a = startAsk(t, l, "")
		if a.wg.Wait(); !errors.Is(a.err, context.DeadlineExceeded) || len(s.asked())-before < 3 || len(s.asked())-before > 4 {
			t.Errorf("%v after %d requests", a.err, len(s.asked())-before)
		}

		// The server forbids it: that counts for names, and for nothing else.
		a = startAsk(t, l, "")
		s.conn.say("-ERR 'Permissions Violation for Publish to \"acp1.name.build-7\"'\r\n")
		if a.wg.Wait(); !errors.Is(a.err, ErrRefused) || a.took != 0 {
			t.Errorf("after %s: %v", a.took, a.err)
		}
		s.conn.say("-ERR 'Permissions Violation for Subscription to \"acp1.name.desk\"'\r\n")
		synctest.Wait()
		state := l.State()
		if state.Standing != Connected || state.LastError != nil {
			t.Errorf("%s: %v", state.Standing, state.LastError)
		}

		for _, name := range []string{"", "*", "a.b", ">", "build 7", "Build", strings.Repeat("a", 33)} {
			if err := l.Ask(t.Context(), name, nil, nil); kinds.AsError(err).Code != kinds.Invalid {
				t.Errorf("ask for %q: %v", name, err)
			}
			if err := l.SetName(name); name != "" && err == nil {
				t.Errorf("the name %q is taken", name)
			}
		}
		if err := l.Ask(t.Context(), "build-7", make([]byte, maxWant+1), nil); kinds.AsError(err).Code != kinds.Invalid {
			t.Error(err)
		}

		network.hangUp()
		synctest.Wait()
		a = startAsk(t, l, "")
		if a.wg.Wait(); !errors.Is(a.err, errDown) {
			t.Error(a.err)
		}
	})
}

func TestAsksAreBounded(t *testing.T) {
	var s serverOf
	withLink(t, testConfig(), s.serve, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		synctest.Wait()
		var all []*asking
		for range maxAsks {
			all = append(all, startAsk(t, l, ""))
		}
		if err := l.Ask(t.Context(), "build-7", nil, nil); kinds.AsError(err).Code != kinds.Overloaded {
			t.Error(err)
		}
		for _, a := range all {
			a.wg.Wait()
		}
		if len(l.asks.byToken) != 0 {
			t.Errorf("%d asks are kept", len(l.asks.byToken))
		}

		// 10,000 answers, and some that are none.
		a := startAsk(t, l, "")
		asked := s.asked()
		reply := asked[len(asked)-1].reply
		s.conn.message(reply, s.replySID(), strings.Repeat("x", MaxAnswer+1))
		s.conn.message(reply, s.replySID(), "")
		for range 10_000 {
			s.conn.message(reply, s.replySID(), "garbage")
		}
		synctest.Wait()
		s.packet(trusted1, "still here")
		synctest.Wait()
		if got := readAll(t, l); len(got) != 1 {
			t.Errorf("packets %q", got)
		}
		if a.wg.Wait(); len(a.answers) > maxAnswersIn {
			t.Errorf("%d answers were looked at", len(a.answers))
		}
		for _, answer := range a.answers {
			if answer != "garbage" {
				t.Errorf("answer %.20q", answer)
			}
		}
	})
}

// makeRequest is the payload of one, as others make it.
func makeRequest(from identity.ID, text string) string { return string(from[:]) + "token 78" + text }

// holds: security.md#against-a-relay-and-those-who-share-it
func TestAnswersGoToTheAskerAlone(t *testing.T) {
	c := testConfig()
	var s serverOf
	c.Answer = func(asker identity.ID, want []byte) []byte {
		if asker == stranger {
			return nil
		}
		return []byte(asker.Label() + string(want))
	}
	withLink(t, c, s.serve, func(t *testing.T, l *Link, network *fakeNetwork, _ *testObserver) {
		if err := l.SetName("desk"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		answered := func() (all []publication) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range s.published {
				if p.payload != "" {
					all = append(all, p)
				}
			}
			s.published = nil
			return all
		}
		ask := func(payload, reply string) {
			s.conn.say("MSG acp1.name.desk %s %s%d\r\n%s\r\n", s.sids["acp1.name.desk"], reply, len(payload), payload)
		}

		// Whatever the reply subject is, the answer goes to one of acp1.
		const token = "746f6b656e203738"
		for _, reply := range []string{"", "orders.cancel ", "acp1." + trusted2.String() + " ", "_GR_.x.y.acp1.z "} {
			ask(makeRequest(trusted1, "?"), reply)
			time.Sleep(time.Second)
			got := answered()
			if len(got) != 1 || got[0].subject != subjectPrefix+trusted1.String()+"."+token || got[0].reply != "" || got[0].payload != trusted1.Label()+"?" {
				t.Errorf("with the reply subject %q: %q", reply, got)
			}
		}
		for _, payload := range []string{
			"", makeRequest(identity.ID{}, "?"), makeRequest(self, "?"), makeRequest(stranger, "?"),
			makeRequest(trusted1, strings.Repeat("x", maxWant+1)), makeRequest(trusted1, "")[:askHeaderLen-1],
		} {
			ask(payload, "orders.cancel ")
			time.Sleep(time.Second)
			if got := answered(); len(got) != 0 {
				t.Errorf("%.80q is answered: %q", payload, got)
			}
		}

		// Those who get no answer take none from others.
		for range 10 * answersPerSecond {
			ask(makeRequest(stranger, "?"), "")
		}
		ask(makeRequest(trusted1, "?"), "")
		synctest.Wait()
		if got := answered(); len(got) != 1 || got[0].subject != subjectPrefix+trusted1.String()+"."+token {
			t.Errorf("after others who get none: %q", got)
		}
		time.Sleep(time.Second)

		// Five a second.
		most := 0
		for range 300 {
			for range 3 {
				ask(makeRequest(trusted1, "?"), "")
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			most += len(answered())
		}
		if most != 3*answersPerSecond {
			t.Errorf("%d answers in 3 s", most)
		}

		// Another name, then none; a new connection knows.
		l.SetName("laptop")
		synctest.Wait()
		if s.sids["acp1.name.laptop"] == "" {
			t.Errorf("subscribed to %v", s.sids)
		}
		network.hangUp()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s.sids["acp1.name.laptop"] == "" || s.sids["acp1.name.desk"] != "" {
			t.Errorf("subscribed to %v", s.sids)
		}
		l.SetName("")
		synctest.Wait()
		network.hangUp()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(s.sids) != 2 {
			t.Errorf("subscribed to %v", s.sids)
		}
	})
}

// What an ask writes is read as its parts; what is read is written so.
func FuzzRequest(f *testing.F) {
	var all asks
	f.Add(all.begin(trusted1, "build-7", []byte("this")).payload)
	f.Add([]byte{})
	f.Add(make([]byte, askHeaderLen))
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := ParseRequest(payload)
		if err != nil {
			return
		}
		if string(AppendRequest(nil, &r)) != string(payload) || r.Asker.IsZero() || len(r.Want) > maxWant {
			t.Errorf("%q: %+v", payload, r)
		}
		if s := r.replySubject(); len(s) != len(subjectPrefix)+64+1+tokenLen || !strings.HasPrefix(s, subjectPrefix+r.Asker.String()+".") {
			t.Errorf("%q is answered at %s", payload, s)
		}
	})
}

func TestFindNameOf(t *testing.T) {
	for text, want := range map[string]string{
		`Permissions Violation for Subscription to "acp1.name.desk"`: "desk",
		`Permissions Violation for Publish to "acp1.name.build-7"`:   "build-7",
		`Permissions Violation for Publish to "acp1.name."`:          "",
		`Permissions Violation for Publish to "acp1.00"`:             "",
		`Permissions Violation for Publish to "acp1.name.x" y "z`:    "x",
	} {
		if got := findNameOf(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text)); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	for text, want := range map[string]bool{
		`Permissions Violation for Subscription to "acp1.name.desk"`:    true,
		`Permissions Violation for Publish to "acp1.name.subscription"`: false,
	} {
		if got := isOfSubscription(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text)); got != want {
			t.Errorf("%s: of a subscription is %t", text, got)
		}
	}
	if got := findNameOf(net.ErrClosed); got != "" {
		t.Error(got)
	}
}
