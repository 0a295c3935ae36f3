package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// What is to be done about a refused login is what the login in use needs.
func TestRefusedLoginsHaveTheirRemedies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nats.creds")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	public, err := PublicKey(testConfig().Key)
	if err != nil {
		t.Fatal(err)
	}
	const replace = "acpctl relay add with it"
	for want, c := range map[string]Credentials{
		"the server refuses a token: wrong, or changed there: get the new one, and " + replace:                                                                          {Token: "t0ken"},
		"the server refuses user acp: wrong, or changed there: get the new one, and " + replace:                                                                         {User: "acp", Password: "pw"},
		"the server refuses credentials " + file + ": they are wrong, or were changed there: put new ones into the file":                                                {File: file},
		"the server refuses nkey " + public + ": have " + public + " put into the users of its configuration; or, if it wants a token, user or credentials, " + replace: {},
	} {
		conf := testConfig()
		conf.Credentials = c
		l := mustOpen(t, conf)
		got := l.describeError(nats.ErrAuthorization)
		if !strings.HasSuffix(got.Error(), want) || !errors.Is(got, ErrRefused) {
			t.Errorf("%v\nwant %s", got, want)
		}
	}
	conf := testConfig()
	got := mustOpen(t, conf).describeError(nats.ErrNkeysNotSupported)
	if !strings.Contains(got.Error(), "the server knows no nkeys: get the token, user or credentials that it takes, and "+replace+"; if it takes none, anybody may log in there: have a token set in its configuration first") || strings.Contains(got.Error(), public) {
		t.Errorf("%v", got)
	}
	conf.AdviseLogin = func(get string) string { return "after (" + get + ")" }
	l := mustOpen(t, conf)
	for want, err := range map[string]error{
		"the server knows no nkeys: after (get the token, user or credentials that it takes, and ); if it takes none, anybody may log in there: have a token set in its configuration first": nats.ErrNkeysNotSupported,
		"have " + public + " put into the users of its configuration; or, if it wants a token, user or credentials, after ()":                                                                nats.ErrAuthorization,
	} {
		if got := l.describeError(err); !strings.HasSuffix(got.Error(), want) {
			t.Errorf("with advice: %v\nwant %s", got, want)
		}
	}
}

// mutedConn is a connection whose writes fail, after so many, as they do when the server has ended it.
type mutedConn struct {
	net.Conn
	left int
}

func (c *mutedConn) Write(p []byte) (int, error) {
	if c.left == 0 {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	c.left--
	return c.Conn.Write(p)
}

// A server that refuses the login ends the connection, perhaps before the client has written all.
func TestRefusalIsReadAfterFailedWrite(t *testing.T) {
	for scheme, writes := range map[string]int{"nats": 1, "ws": 3} { // all but PING
		t.Run(scheme, func(t *testing.T) {
			for said, want := range map[string]string{
				"-ERR 'Authorization Violation'\r\n": "the server refuses nkey ",
				"":                                   "the server closed the connection, and its log says why",
			} {
				c := testConfig()
				c.URL = scheme + "://" + listen(t, func(conn net.Conn) {
					f := newFakeConn(conn)
					if scheme == "ws" && f.acceptWebSocket() != nil {
						return
					}
					f.say(plainInfo)
					if _, err := f.readLine(); err == nil && said != "" {
						f.say("%s", said)
					}
				})
				l := mustOpen(t, c)
				dial := l.dialTCP
				l.dialTCP = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					return &mutedConn{conn, writes}, err
				}
				if checks := l.Test(t.Context()); len(checks) != 1 || !strings.Contains(checks[0].What, want) || checks[0].Refused != (said != "") {
					t.Errorf("%+v, want %q", checks, want)
				}
			}
		})
	}
}

// A server of another kind than the URL says, or whose TLS comes first, is told with what to change.
func TestServerOfAnotherKind(t *testing.T) {
	const mute = "the server said nothing: EOF: it closed the connection without a word: check host and port; if it is the port of a WebSocket, write wss:// instead of tls://; if its tls has handshake_first, set that to auto; its log says more"
	withTLS := strings.Replace(plainInfo, `"proto":1`, `"proto":1,"tls_required":true`, 1)
	for name, c := range map[string]struct{ scheme, said, want string }{
		"mute":                    {"nats", "", strings.Replace(mute, "wss:// instead of tls", "ws:// instead of nats", 1)},
		"mute, with TLS":          {"tls", "", mute},
		"breaks off":              {"nats", "INFO {", "the server closed the connection, and its log says why"},
		"TLS alone":               {"nats", withTLS, "the server takes only connections with TLS: write tls:// instead of nats://"},
		"NATS for a WebSocket":    {"ws", plainInfo, "the server begins with INFO, without a WebSocket: write nats:// instead of ws://"},
		"NATS, for its WebSocket": {"wss", withTLS, "the server begins with INFO, without a WebSocket: write tls:// instead of wss://"},
		"HTTP":                    {"ws", "HTTP/1.0 404 File not found\r\n\r\n<html>", `the server answers with status 404: no WebSocket of a NATS server answers there, and a redirect is not followed: check host and port; if the port has TLS, write wss:// instead of ws://`},
		"TLS alone, and more":     {"nats", withTLS + "PING\r\n", "write tls:// instead of nats://"},
		"TLS for whom it pleases": {"nats", strings.Replace(withTLS, "required", "available", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig()
			config.URL = strings.Replace(config.URL, "nats", c.scheme, 1)
			withLink(t, config, func(f *fakeConn) {
				if c.want != "" {
					f.say("%s", c.said)
				} else if f.accept(c.said) == nil {
					f.follow(nil, nil)
				}
			}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
				time.Sleep(100 * time.Millisecond)
				s := l.State()
				if c.want == "" && s.Standing != Connected || c.want != "" && (s.LastError == nil || !strings.Contains(s.LastError.Error(), c.want)) {
					t.Errorf("%s: %v, want %q", s.Standing, s.LastError, c.want)
				}
			})
		})
	}
}

// A test that its context ends early says what a link says whose time to connect has passed.
func TestSilentServerInATest(t *testing.T) {
	for scheme, want := range map[string]string{
		"nats": "the server takes connections and says nothing in time",
		"tls":  "the server takes connections and says nothing in time",
		"ws":   "nothing answers in time",
	} {
		t.Run(scheme, func(t *testing.T) {
			config := testConfig()
			config.URL = scheme + "://" + listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if checks := mustOpen(t, config).Test(ctx); len(checks) != 1 || !strings.Contains(checks[0].What, want) {
				t.Errorf("%+v", checks)
			}
		})
	}
}

// A file that is none of credentials is told as such, before what is wrong with the server.
func TestFileWithoutCredentials(t *testing.T) {
	const seed = "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEQ" // of 32 zeroes, which nats.go would take for the JWT too
	for _, text := range []string{"6b5f0d1e2a47c389", seed, "-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------"} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		config := testConfig()
		config.Credentials = Credentials{File: file}
		withLink(t, config, func(*fakeConn) {}, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
			time.Sleep(100 * time.Millisecond)
			const want = "the file has no NATS credentials: get a .creds file from whoever runs the server; a token goes into --token-file, or token in config.yaml"
			if s := l.State(); s.LastError == nil || !strings.HasSuffix(s.LastError.Error(), want) || n.countDials() > 0 {
				t.Errorf("%q: %v, %d connections", text, s.LastError, n.countDials())
			}
		})
	}
}

// A relay that was down at first, and then refuses, has refused since then.
func TestRefusedSince(t *testing.T) {
	const pause = 20 * time.Second
	var refuses atomic.Bool
	withLink(t, testConfig(), func(c *fakeConn) {
		if !refuses.Load() {
			return
		}
		c.say(plainInfo)
		c.readLine()
		c.readLine()
		c.say("-ERR 'Authorization Violation'\r\n")
		c.readLine()
	}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		began := time.Now()
		time.Sleep(pause)
		refuses.Store(true)
		if s := l.State(); s.LastError == nil || !s.Refused.IsZero() {
			t.Fatalf("down: refused since %v, %v", s.Refused, s.LastError)
		}
		time.Sleep(3 * time.Minute)
		s := l.State()
		if since := s.Refused.Sub(began); !errors.Is(s.LastError, ErrRefused) || since < pause || since > pause+time.Minute {
			t.Errorf("refused for %v of %v: %v", since, time.Since(began), s.LastError)
		}
	})
}

// An alert of TLS is told by its number: its text is the library's.
func TestAlertsHaveTheirNumber(t *testing.T) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("there is none")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	_, err = tls.Dial("tcp", l.Addr().String(), &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	if got := explainTLS(err); err == nil || got.Error() != "tls: it ended the handshake with alert 70" {
		t.Errorf("%v is told as %v", err, got)
	}
}
