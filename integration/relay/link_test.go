package relay

import (
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
)

func TestPacketsAndNobody(t *testing.T) {
	url := urlOf(startServer(t, "listen: 127.0.0.1:-1\nauthorization { token: secret }"))
	a, b := newDaemon(t, url), newDaemon(t, url)
	a.Credentials.Token, b.Credentials.Token = "secret", "secret"
	la, lb := start(t, a.Config), start(t, b.Config)
	la.awaitConnected(t)
	lb.awaitConnected(t)
	exchange(t, la, lb)

	absent := identity.ID{1}
	began := time.Now()
	la.send(t, "anybody?", absent)
	select {
	case addr := <-la.nobody:
		t.Logf("503 after %s", time.Since(began))
		if addr.String() != la.Addr(absent).String() {
			t.Errorf("nobody is at %s, which was %s", addr, la.Addr(absent))
		}
	case <-time.After(patience):
		t.Fatalf("no 503; the state is %+v", la.State())
	}
}
