package relay

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// permittingServer refuses one subject until it is told to permit it.
type permittingServer struct {
	refused string // "SUB " or "PUB " and the subject

	mu      sync.Mutex
	permits bool
	tried   int
	conn    *fakeConn
	sids    map[string]string // of the subscriptions that stand
}

func (s *permittingServer) serve(c *fakeConn) {
	c.accept(plainInfo)
	c.follow(func(p publication) { s.take(c, "PUB "+p.subject, "") }, func(subject, sid string) { s.take(c, "SUB "+subject, sid) })
}

func (s *permittingServer) take(c *fakeConn, what, sid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, subject := what[:3], what[4:]
	if what == s.refused {
		if s.tried++; !s.permits {
			c.say("-ERR 'Permissions Violation for %s to \"%s\"'\r\n", map[string]string{"SUB": "Subscription", "PUB": "Publish"}[kind], subject)
			return
		}
	}
	if kind == "SUB" {
		s.conn, s.sids[subject] = c, sid
	}
}

func (s *permittingServer) permit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permits = true
}

// deliver hands the client a packet on its own subject.
func (s *permittingServer) deliver(packet string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.message(subjectPrefix+self.String(), s.sids[subjectPrefix+self.String()], string(trusted1[:])+packet)
}

// What the server refused is tried again while the connection stays: once its operator permits it, the link
// works, and the state says since when.
func TestRefusalThatEnds(t *testing.T) {
	own := subjectPrefix + self.String()
	for name, c := range map[string]struct {
		refused  string
		standing Standing
	}{
		"own subject":    {"SUB " + own, Deaf},
		"reply subjects": {"SUB " + own + ".*", Deaf},
		"packets":        {"PUB " + subjectPrefix + trusted1.String(), Connected},
		"own name":       {"SUB " + nameSubject + "desk", Connected},
	} {
		t.Run(name, func(t *testing.T) {
			server := &permittingServer{refused: c.refused, sids: make(map[string]string)}
			withLink(t, testConfig(), server.serve, func(t *testing.T, l *Link, n *fakeNetwork, o *testObserver) {
				l.SetName("desk")
				time.Sleep(time.Second)
				l.WriteTo([]byte("x"), l.Addr(trusted1))
				time.Sleep(time.Second)
				refused := l.State()
				if refused.Standing != c.standing || refused.LastError == nil {
					t.Fatalf("%s, %v: nothing is refused", refused.Standing, refused.LastError)
				}
				time.Sleep(2 * measureEvery)
				if s := l.State(); s.Standing != c.standing || s.Since != refused.Since || s.Refused != refused.Refused {
					t.Errorf("still refused: %s since %s, refused since %s; before: %s, %s", s.Standing, s.Since, s.Refused, refused.Since, refused.Refused)
				}
				server.permit()
				time.Sleep(measureEvery)
				s := l.State()
				if s.Standing != Connected || !s.Refused.IsZero() || (name != "own name") != s.Since.After(s.LastErrorAt) {
					t.Errorf("%s since %s, refused since %s, last error at %s", s.Standing, s.Since, s.Refused, s.LastErrorAt)
				}
				server.deliver("hello")
				if got := readAll(t, l); !slices.Equal(got, []string{"bb01 hello"}) {
					t.Errorf("packets %q", got)
				}
				tried := server.tried
				time.Sleep(10 * measureEvery)
				if server.tried != tried || n.countDials() != 1 {
					t.Errorf("tried %d times more, with %d connections, all being permitted", server.tried-tried, n.countDials())
				}
				if _, told := o.told(); len(told) > 0 {
					t.Errorf("interruptions are told: %v", told)
				}
			})
		})
	}
}
