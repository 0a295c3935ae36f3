package relay

import (
	"crypto/x509"
	"errors"
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
	const replace = "acpctl relay remove vps, if it is there, then acpctl relay add with it"
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
	l := mustOpen(t, testConfig())
	got := l.describeError(nats.ErrNkeysNotSupported)
	if !strings.Contains(got.Error(), "the server knows no nkeys: get the token, user or credentials that it takes, and "+replace) || strings.Contains(got.Error(), public) {
		t.Errorf("%v", got)
	}
}

func TestNoWayToTheServer(t *testing.T) {
	l := mustOpen(t, testConfig())
	for _, errno := range []error{syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		got := l.describeError(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)})
		if !strings.HasSuffix(got.Error(), "this machine has no way to it: check its network and the address") {
			t.Errorf("%v", got)
		}
	}
}

// A certificate of an authority that is not known is told once, with where its own is named.
func TestOwnAuthority(t *testing.T) {
	certificate, _ := newAuthority(t)
	c := testConfig()
	c.URL, c.Roots = "tls://"+listen(t, serveNATSWithTLS(certificate)), x509.NewCertPool()
	s := runLink(t, mustOpen(t, c), new(testObserver)).await(t, failedWith("SSL_CERT_FILE"))
	text := s.LastError.Error()
	if strings.Count(text, "tls: ") != 1 || !strings.Contains(text, "set SSL_CERT_FILE to its certificate where acpd starts, on each machine") {
		t.Error(text)
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
