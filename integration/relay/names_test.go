package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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

// A program with credentials of its own makes a daemon write where it wants nowhere, and five times a second.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestNoReflector(t *testing.T) {
	d := newDaemon(t, "")
	s := startServer(t, "listen: 127.0.0.1:-1\nauthorization { token: s3cret }")
	d.URL, d.Credentials.Token = urlOf(s), "s3cret"
	d.Answer = func(identity.ID, []byte) []byte { return []byte("answer") }
	l := start(t, d.Config)
	l.SetName("build")
	l.awaitConnected(t) // the subscription goes out before that
	program, err := nats.Connect(d.URL, nats.Token("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	all, err := program.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	asker := identity.ID{1}
	began := time.Now()
	for range 1000 {
		program.PublishRequest("acp1.name.build", "orders.cancel", append(asker[:], "12345678this"...))
	}
	answers := 0
	for {
		wait := patience
		if answers >= 5 { // the first five come for certain
			wait = time.Second
		}
		m, err := all.NextMsg(wait)
		if err != nil {
			break
		}
		if string(m.Data) != "answer" {
			continue
		}
		if answers++; m.Subject != "acp1."+asker.String()+".3132333435363738" {
			t.Errorf("an answer goes to %s", m.Subject)
		}
	}
	if most := 5 * (1 + int(time.Since(began)/time.Second)); answers < 5 || answers > most {
		t.Errorf("%d answers, at most %d are right", answers, most)
	}
}
