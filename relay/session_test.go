package relay

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server that takes connections and says nothing is left after the time to connect, and
// tried again; the state says so meanwhile.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestSilentServer(t *testing.T) {
	const silent = "the server takes connections and says nothing in time: check host and port; if it is the port of a WebSocket, write "
	for name, c := range map[string]struct {
		scheme string
		serve  func(*fakeConn)
		want   string
	}{
		"from the begin":           {"nats", func(c *fakeConn) { io.Copy(io.Discard, c.r) }, silent},
		"from the begin, with TLS": {"tls", func(c *fakeConn) { io.Copy(io.Discard, c.r) }, silent},
		"after INFO":               {"nats", func(c *fakeConn) { c.say(plainInfo); io.Copy(io.Discard, c.r) }, silent},
		"after PONG":               {"nats", func(c *fakeConn) { c.accept(plainInfo); io.Copy(io.Discard, c.r) }, "nothing answers in time"},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig()
			config.URL = strings.Replace(config.URL, "nats", c.scheme, 1)
			withLink(t, config, c.serve, func(t *testing.T, l *Link, n *fakeNetwork, o *testObserver) {
				time.Sleep(connectTime + 10*time.Millisecond)
				s := l.State()
				if s.Standing != Connecting || s.LastError == nil || !strings.Contains(s.LastError.Error(), c.want) {
					t.Errorf("after %s: %s, %v", connectTime, s.Standing, s.LastError)
				}
				time.Sleep(time.Minute)
				if got := n.countDials(); got < 4 || got > 7 {
					t.Errorf("%d connections in 70 s", got)
				}
				if _, interrupted := o.told(); len(interrupted) > 0 {
					t.Errorf("an interruption is told, but nothing was connected")
				}
			})
		})
	}
}

// A server that falls silent later is left after its pings.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestServerThatFallsSilent(t *testing.T) {
	withLink(t, testConfig(), func(c *fakeConn) {
		if c.network.countDials() == 1 {
			c.accept(plainInfo)
			c.readLine() // SUB
			c.readLine() // SUB
			c.readLine() // PING
			c.say("PONG\r\n")
			io.Copy(io.Discard, c.r)
			return
		}
		c.accept(plainInfo)
		c.follow(nil, nil)
	}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		time.Sleep(25 * time.Second)
		if s := l.State(); s.Standing != Connected {
			t.Fatalf("standing %s, %v", s.Standing, s.LastError)
		}
		time.Sleep(10 * time.Second)
		s := l.State()
		if s.Standing != Connected || s.Reconnects != 1 || s.LastError == nil || !strings.Contains(s.LastError.Error(), "pings") {
			t.Errorf("standing %s after %d reconnects, %v", s.Standing, s.Reconnects, s.LastError)
		}
	})
}

// What the server says against this daemon is told with a remedy, and the link stays at it.
func TestRefusals(t *testing.T) {
	atConnect := func(line string) func(*fakeConn) {
		return func(c *fakeConn) {
			c.say(plainInfo)
			c.readLine()
			c.readLine()
			c.say("%s\r\n", line)
			c.readLine()
		}
	}
	later := func(line string) func(*fakeConn) {
		return func(c *fakeConn) {
			c.accept(plainInfo)
			subscriptions := 0
			c.follow(nil, func(string, string) {
				if subscriptions++; subscriptions == 2 {
					c.say("%s\r\n", line)
				}
			})
		}
	}
	own := subjectPrefix + self.String()
	for name, c := range map[string]struct {
		serve    func(*fakeConn)
		want     string
		refused  bool
		standing Standing
	}{
		"credentials":     {atConnect("-ERR 'Authorization Violation'"), "refuses nkey U", true, Connecting},
		"expired":         {atConnect("-ERR 'User Authentication Expired'"), "have expired", true, Connecting},
		"unknown at once": {atConnect("-ERR 'x y'"), "log.level debug", false, Connecting},
		"full":            {atConnect("-ERR 'maximum connections exceeded'"), "maximum connections exceeded", false, Connecting},
		"no subscription": {later(`-ERR 'Permissions Violation for Subscription to "` + own + `"'`), "permit subscribe to " + own, true, Deaf},
		"no publishing":   {later(`-ERR 'Permissions Violation for Publish to "acp1.00"'`), "permit publish to acp1.>", true, Connected},
		"revoked":         {later("-ERR 'User Authentication Revoked'"), "revoked", true, Connected},
		"unknown error":   {later("-ERR 'Something New'"), "log.level debug", false, Connecting},
	} {
		t.Run(name, func(t *testing.T) {
			withLink(t, testConfig(), c.serve, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
				time.Sleep(200 * time.Millisecond)
				s := l.State()
				if s.LastError == nil || !strings.Contains(s.LastError.Error(), c.want) || !strings.HasPrefix(s.LastError.Error(), "relay vps: ") {
					t.Fatalf("last error %v, want one with %q", s.LastError, c.want)
				}
				if errors.Is(s.LastError, ErrRefused) != c.refused {
					t.Errorf("%v: refused is %t", s.LastError, !c.refused)
				}
				if s.Standing != c.standing {
					t.Errorf("standing %s, want %s", s.Standing, c.standing)
				}
				time.Sleep(2 * time.Minute)
				if got := n.countDials(); c.standing == Connecting && (got < 10 || got > 150) {
					t.Errorf("%d connections in two minutes", got)
				}
			})
		})
	}
}

// The pauses between attempts are short at first and grow, also if the server takes each
// connection and ends it.
func TestPauses(t *testing.T) {
	for name, serve := range map[string]func(*fakeConn){
		"ends at once":       func(c *fakeConn) {},
		"ends when accepted": func(c *fakeConn) { c.accept(plainInfo); time.Sleep(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			withLink(t, testConfig(), serve, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
				time.Sleep(time.Minute)
				first := n.countDials()
				if first < 20 || first > 100 {
					t.Errorf("%d attempts in the first minute", first)
				}
				time.Sleep(30 * time.Minute)
				before := n.countDials()
				time.Sleep(10 * time.Minute)
				if late := n.countDials() - before; late < 20 || late > 100 {
					t.Errorf("%d attempts in ten minutes, half an hour later", late)
				}
				before = n.countDials()
				for range 10 {
					l.TryAgain()
					time.Sleep(2 * time.Second) // some connections last a second, and end then
				}
				if asked := n.countDials() - before; asked < 9 {
					t.Errorf("%d attempts of 10 that somebody wanted", asked)
				}
			})
		})
	}
}

// An interruption is told after 3 s and when it is over; a shorter one is not told.
func TestInterruptions(t *testing.T) {
	var down atomic.Bool
	withLink(t, testConfig(), func(c *fakeConn) {
		if !down.Load() && c.accept(plainInfo) == nil {
			c.follow(nil, nil)
		}
	}, func(t *testing.T, l *Link, n *fakeNetwork, o *testObserver) {
		synctest.Wait()
		n.hangUp()
		time.Sleep(2500 * time.Millisecond)
		if _, told := o.told(); l.State().Standing != Connected || len(told) > 0 {
			t.Fatalf("%s; told %d times of a connection that was back in 2 s", l.State().Standing, len(told))
		}
		time.Sleep(time.Minute)
		down.Store(true)
		n.hangUp()
		lost := time.Now()
		time.Sleep(20 * time.Second)
		if _, told := o.told(); len(told) != 1 || told[0].Sub(lost) != 3*time.Second {
			t.Fatalf("told at %v, lost at %v", told, lost)
		}
		down.Store(false)
		time.Sleep(4 * time.Second)
		if _, told := o.told(); len(told) != 2 || l.State().Standing != Connected {
			t.Errorf("told %d times, %s", len(told), l.State().Standing)
		}
	})
}

// A server that sees this host at another address than before is told of, however short the connection
// was away.
func TestNewClientIP(t *testing.T) {
	var ip atomic.Pointer[string]
	see := func(addr string) { ip.Store(&addr) }
	see("198.51.100.7")
	withLink(t, testConfig(), func(c *fakeConn) {
		if c.accept(`INFO {"headers":true,"max_payload":1048576,"nonce":"abc","client_ip":"`+*ip.Load()+`"}`+"\r\n") == nil {
			c.follow(nil, nil)
		}
	}, func(t *testing.T, l *Link, n *fakeNetwork, o *testObserver) {
		for i, c := range []struct {
			addr string
			told int
		}{{"198.51.100.7", 1}, {"198.51.100.7", 1}, {"198.51.100.8", 2}, {"10.0.0.1", 2}, {"198.51.100.8", 3}, {"2001:db8::7", 4}} {
			if see(c.addr); i > 0 {
				n.hangUp()
				time.Sleep(2500 * time.Millisecond) // below toldAfter
			}
			synctest.Wait()
			if _, told := o.told(); len(told) != c.told || l.State().Reconnects != uint64(i) {
				t.Errorf("connection %d, seen at %s: told %d times, expected %d; %d reconnects", i, c.addr, len(told), c.told, l.State().Reconnects)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Neither the state nor the log ever has a secret, and the log is not filled by one error.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestSecretsAndLog(t *testing.T) {
	var log bytes.Buffer
	c := testConfig()
	c.Credentials = Credentials{User: "hunter2", Password: "hunter3"}
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	connects := make(chan string, 1000)
	withLink(t, c, func(c *fakeConn) {
		c.say(plainInfo)
		line, _ := c.readLine()
		connects <- line
		c.readLine()
		c.say("-ERR 'Authorization Violation'\r\n")
	}, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
		time.Sleep(10 * time.Minute)
		s := l.State()
		if text := s.URL + s.Account + s.LastError.Error(); strings.Contains(text, "hunter3") || !strings.Contains(text, "user hunter2") {
			t.Errorf("the state says %q", text)
		}
	})
	if sent := <-connects; !strings.Contains(sent, `"user":"hunter2","pass":"hunter3"`) {
		t.Errorf("the server got %s", sent)
	}
	if text := log.String(); strings.Contains(text, "hunter3") || strings.Count(text, "WARN") > 11 {
		t.Errorf("the log of ten minutes is\n%s", text)
	}
}
