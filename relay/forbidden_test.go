package relay

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	subOwn     = "SUB " + subjectPrefix + "aa01000000000000000000000000000000000000000000000000000000000000"
	subReplies = subOwn + ".*"
	subName    = "SUB " + nameSubject + "desk"
	pubPeer    = "PUB " + subjectPrefix + "bb01000000000000000000000000000000000000000000000000000000000000"
)

// strictServer permits what a test says.
type strictServer struct {
	late time.Duration // which passes before it reads on behind something that is tried again

	mu        sync.Mutex
	forbidden []string // "SUB " or "PUB " and a subject
	most      int      // subscriptions; 0: any number
	conn      *fakeConn
	sids      map[string]string // of the subscriptions that stand
	tried     map[string]int    // how often each was subscribed or published to
}

func newStrictServer(forbidden ...string) *strictServer {
	return &strictServer{forbidden: forbidden, sids: make(map[string]string), tried: make(map[string]int)}
}

func (s *strictServer) serve(c *fakeConn) {
	c.unsubscribed = s.leave
	c.accept(plainInfo)
	c.follow(func(p publication) { s.take(c, "PUB", p.subject, "") }, func(subject, sid string) {
		if s.take(c, "SUB", subject, sid) == 2 && subject == subOwn[4:] {
			time.Sleep(s.late)
		}
	})
}

func (s *strictServer) leave(sid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sids, func(_, known string) bool { return known == sid })
}

// take returns how often this was tried.
func (s *strictServer) take(c *fakeConn, verb, subject, sid string) (tried int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := verb + " " + subject
	s.conn = c
	s.tried[what]++
	switch {
	case slices.Contains(s.forbidden, what):
		c.say("-ERR 'Permissions Violation for %s to \"%s\"'\r\n", map[string]string{"SUB": "Subscription", "PUB": "Publish"}[verb], subject)
	case verb == "SUB" && s.most > 0 && len(s.sids) >= s.most:
		c.say("-ERR 'maximum subscriptions exceeded'\r\n")
	case verb == "SUB":
		if s.sids[subject] != "" {
			subject += " again"
		}
		s.sids[subject] = sid
	}
	return s.tried[what]
}

// permit changes what is forbidden.
func (s *strictServer) permit(forbidden ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden, s.most = forbidden, 0
}

func (s *strictServer) countTries(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried[what]
}

func (s *strictServer) listSIDs() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sids)
}

func (s *strictServer) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.say(format, args...)
}

// deliver hands the client a packet on its own subject.
func (s *strictServer) deliver(packet string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.message(subOwn[4:], s.sids[subOwn[4:]], string(trusted1[:])+packet)
}

// withStrictLink runs a link that has a name and has sent a packet, a second after it has begun.
func withStrictLink(t *testing.T, c Config, server *strictServer, test func(*testing.T, *Link, *fakeNetwork, *testObserver)) {
	withLink(t, c, server.serve, func(t *testing.T, l *Link, n *fakeNetwork, o *testObserver) {
		l.SetName("desk")
		time.Sleep(time.Second)
		l.WriteTo([]byte("x"), l.Addr(trusted1))
		time.Sleep(time.Second)
		test(t, l, n, o)
	})
}

// What the server has forbidden is tried again while the connection stays, and nothing else is. When its operator permits
// it, the link works, and the state says so.
func TestForbiddenThatEnds(t *testing.T) {
	for what, standing := range map[string]Standing{subOwn: Deaf, subReplies: Deaf, pubPeer: Connected, subName: Connected} {
		t.Run(what, func(t *testing.T) {
			server := newStrictServer(what)
			withStrictLink(t, testConfig(), server, func(t *testing.T, l *Link, n *fakeNetwork, o *testObserver) {
				began, sids := l.State(), server.listSIDs()
				if began.Standing != standing || began.LastError == nil && began.Limit == nil {
					t.Fatalf("%s, %v: nothing is forbidden", began.Standing, began.LastError)
				}
				l.SetName("desk") // as a reload does: it changes nothing
				time.Sleep(3 * time.Hour)
				if s := l.State(); s.Standing != standing || s.Since != began.Since || s.Refused != began.Refused || (s.LastError == nil) != (what == subName) {
					t.Errorf("three hours later: %s since %s, refused since %s, %v; at first since %s and %s", s.Standing, s.Since, s.Refused, s.LastError, began.Since, began.Refused)
				}
				limit := l.State().Limit
				if isLimit := limit != nil && strings.Contains(limit.Error(), "have the server permit subscribe to acp1.name.desk"); isLimit != (what == subName) {
					t.Errorf("the limit is %v", limit)
				}
				if tried := server.countTries(what); tried < 30 || tried > 50 {
					t.Errorf("tried %d times in three hours", tried)
				}
				if now := server.listSIDs(); !maps.Equal(now, sids) {
					t.Errorf("subscriptions %v, at first %v", now, sids)
				}

				server.permit()
				time.Sleep(maxRetryPause + measureEvery)
				s := l.State()
				if s.Standing != Connected || !s.Refused.IsZero() || s.LastError != nil || s.Limit != nil || (what != subName) != s.Since.After(began.Since) {
					t.Errorf("permitted: %s since %s, refused since %s, %v", s.Standing, s.Since, s.Refused, s.LastError)
				}
				if got := slices.Sorted(maps.Keys(server.listSIDs())); !slices.Equal(got, []string{subOwn[4:], subReplies[4:], subName[4:]}) {
					t.Errorf("subscriptions %q", got)
				}
				server.deliver("hello")
				if got := readAll(t, l); !slices.Equal(got, []string{"bb01 hello"}) {
					t.Errorf("packets %q", got)
				}
				tried := server.countTries(what)
				time.Sleep(time.Hour)
				if again := server.countTries(what) - tried; again != 0 || n.countDials() != 1 {
					t.Errorf("tried %d times more, with %d connections, all being permitted", again, n.countDials())
				}
				if _, told := o.told(); len(told) > 0 {
					t.Errorf("interruptions are told: %v", told)
				}
			})
		})
	}
}

// What the operator has just permitted counts within half a minute, and at once for who asks.
func TestForbiddenAtFirst(t *testing.T) {
	for name, wait := range map[string]func(*Link){
		"by itself": func(*Link) { time.Sleep(measureEvery + settleTime + time.Second) },
		"asked": func(l *Link) {
			l.TryAgain()
			time.Sleep(settleTime + time.Second)
		},
		"asked each second": func(l *Link) {
			for range 4 {
				l.TryAgain()
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStrictServer(subOwn, subReplies)
			withStrictLink(t, testConfig(), server, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
				time.Sleep(time.Minute + time.Second)
				server.permit()
				wait(l)
				if s := l.State(); s.Standing != Connected {
					t.Errorf("%s, %v", s.Standing, s.LastError)
				}
			})
		})
	}
}

// Whether something is permitted is told by that alone, whatever else is forbidden or goes wrong.
func TestForbiddenBesideOthers(t *testing.T) {
	both := []string{subOwn, subReplies}
	for name, c := range map[string]struct {
		before, after []string
		late          time.Duration
		isRefused     bool
	}{
		"the name stays forbidden": {append(both, subName), []string{subName}, 0, false},
		"a peer stays forbidden":   {append(both, pubPeer), []string{pubPeer}, 0, true},
		"a late answer":            {both, nil, connectTime + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStrictServer(c.before...)
			server.late = c.late
			withStrictLink(t, testConfig(), server, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
				server.permit(c.after...)
				time.Sleep(3 * measureEvery)
				if s := l.State(); s.Standing != Connected || s.Refused.IsZero() == c.isRefused || n.countDials() != 1 || (s.Limit != nil) != slices.Contains(c.after, subName) {
					t.Errorf("%s, refused since %s, %d connections, %v", s.Standing, s.Refused, n.countDials(), s.LastError)
				}
			})
		})
	}
}

// A server that takes fewer subscriptions than are needed is refusing until it takes them.
func TestTooManySubscriptions(t *testing.T) {
	server := newStrictServer()
	server.most = 2
	c := testConfig()
	var flaps atomic.Int32
	var link atomic.Pointer[Link]
	c.Changed = func() {
		if l := link.Load(); l != nil && l.State().Standing != Deaf {
			flaps.Add(1)
		}
	}
	withStrictLink(t, c, server, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		link.Store(l)
		time.Sleep(time.Hour)
		link.Store(nil)
		if s := l.State(); s.Standing != Deaf || s.Refused.IsZero() || flaps.Load() > 0 {
			t.Errorf("%s, refused since %s, changed %d times: %v", s.Standing, s.Refused, flaps.Load(), s.LastError)
		}
		server.permit()
		time.Sleep(maxRetryPause + measureEvery)
		if s := l.State(); s.Standing != Connected || len(server.listSIDs()) != 3 {
			t.Errorf("%s, %v: subscriptions %v", s.Standing, s.LastError, server.listSIDs())
		}
	})
}

// A server chooses no subject to which this daemon publishes.
func TestForbiddenSubjects(t *testing.T) {
	server := newStrictServer()
	withStrictLink(t, testConfig(), server, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		for _, subject := range []string{"other", "acp1.name.desk", "acp1.>", "acp1.*", "acp1.AA", "acp1.bb x", "$SYS.acp1.bb"} {
			server.say("-ERR 'Permissions Violation for Publish to \"%s\"'\r\n", subject)
			time.Sleep(measureEvery)
			l.TryAgain()
			time.Sleep(measureEvery)
		}
		server.mu.Lock()
		defer server.mu.Unlock()
		if len(server.tried) != 5 || server.tried[pubPeer] != 1 { // the subscriptions, the challenge and the packet
			t.Errorf("subscribed and published: %v", server.tried)
		}
	})
}

// However many texts a server makes up, the log has a bounded number of lines.
func TestErrorsInTheLog(t *testing.T) {
	var log bytes.Buffer
	c := testConfig()
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	withLink(t, c, func(c *fakeConn) {
		c.accept(plainInfo)
		go c.follow(nil, nil)
		for i := range 3000 {
			time.Sleep(time.Second / 32)
			if i%2 == 0 {
				c.say("-ERR 'Permissions Violation for Publish to \"acp1.name.n%d\"'\r\n", i)
			} else {
				c.say("-ERR 'Permissions Violation for Publish to \"acp1.%08x\"'\r\n", i)
			}
		}
	}, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
		time.Sleep(90 * time.Second)
		if n.countDials() != 1 {
			t.Errorf("%d connections", n.countDials())
		}
	})
	if lines := strings.Count(log.String(), "\n"); lines == 0 || lines > 3*maxErrors {
		t.Errorf("%d lines in 90 s", lines)
	}
}
