package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/relay"
)

// named returns a configuration of a server on which each daemon has the name of its place, and may listen to
// no other.
func named(t *testing.T, daemons ...daemon) string {
	conf := ownSubjects(t, daemons...)
	for i, d := range daemons {
		conf = strings.Replace(conf, fmt.Sprintf(`"acp1.%s.*"]`, d.Self), fmt.Sprintf(`"acp1.%s.*", "acp1.name.name-%d"]`, d.Self, i), 1)
	}
	return "listen: 127.0.0.1:-1\n" + conf
}

// askOnce returns the first answer.
func askOnce(t *testing.T, l *running, name string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = l.Ask(ctx, name, []byte("this"), func(b []byte) bool {
		answer = string(b)
		return false
	})
	return answer, err
}

// Daemons of a server that lets each listen to its own name alone find each other, and hear at once that nobody
// has a name.
func TestNames(t *testing.T) {
	a, b := newDaemon(t, ""), newDaemon(t, "")
	s := startServer(t, named(t, a, b))
	a.URL, b.URL = urlOf(s), urlOf(s)
	largest := bytes.Repeat([]byte{'x'}, relay.MaxAnswer)
	b.Answer = func(asker identity.ID, want []byte) []byte {
		if asker != a.Self || string(want) != "this" {
			t.Errorf("%s wants %q", asker.Label(), want)
		}
		return largest
	}
	la, lb := start(t, a.Config), start(t, b.Config)
	la.awaitConnected(t)
	lb.awaitConnected(t)
	if _, err := askOnce(t, la, "name-1"); !errors.Is(err, relay.ErrNobody) {
		t.Fatal(err)
	}
	lb.SetName("name-1")
	for answer, err := askOnce(t, la, "name-1"); answer != string(largest); answer, err = askOnce(t, la, "name-1") {
		if !errors.Is(err, relay.ErrNobody) { // the server has not taken the subscription yet
			t.Fatalf("%d bytes, %v", len(answer), err)
		}
	}
	began := time.Now()
	if _, err := askOnce(t, la, "name-9"); !errors.Is(err, relay.ErrNobody) {
		t.Fatal(err)
	}
	t.Logf("nobody after %s", time.Since(began))

	// A name that the server does not permit it is had by nobody, and all else goes on.
	lb.SetName("name-0")
	state := lb.await(t, "told", func(s relay.State) bool { return s.Limit != nil })
	if !strings.Contains(state.Limit.Error(), "permit subscribe to acp1.name.name-0") || state.LastError != nil || state.Standing != relay.Connected {
		t.Errorf("%s: %v, %v", state.Standing, state.Limit, state.LastError)
	}
	if _, err := askOnce(t, la, "name-0"); !errors.Is(err, relay.ErrNobody) {
		t.Error(err)
	}
	exchange(t, la, lb)
}
