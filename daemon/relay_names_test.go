package daemon

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// A daemon answers for its name with its certificate, to those whom it does not block, and where the authority is
// the one that is asked for.
func TestAnswersToNameRequests(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	key, err := identity.ParseAuthorityKey(a.line)
	if err != nil {
		t.Fatal(err)
	}
	question := key.Hash()
	asker, blocked := identity.ID{1}, identity.ID{2}
	desk := start(t, stateDir(t), "desk")
	if err := desk.trust.Untrust(blocked); err != nil {
		t.Fatal(err)
	}
	if got := desk.answerNameRequest(asker, question[:]); got != nil {
		t.Errorf("without a certificate: %x", got)
	}
	desk.joinFleet(a, "", "acp:desk", "acp:group:ci")
	if got := desk.answerNameRequest(asker, question[:]); !bytes.Equal(got, desk.ownCertificate.Load().raw) || len(got) == 0 {
		t.Errorf("%x", got)
	}
	if got := desk.answerNameRequest(asker, append(make([]byte, 32), question[:]...)); len(got) == 0 {
		t.Error("an authority that changes its key is not answered")
	}
	other := newAuthority(t)
	otherKey, err := identity.ParseAuthorityKey(other.line)
	if err != nil {
		t.Fatal(err)
	}
	foreign := otherKey.Hash()
	for what, got := range map[string][]byte{
		"a blocked key":     desk.answerNameRequest(blocked, question[:]),
		"another authority": desk.answerNameRequest(asker, foreign[:]),
		"nothing":           desk.answerNameRequest(asker, nil),
		"a part":            desk.answerNameRequest(asker, question[:31]),
	} {
		if got != nil {
			t.Errorf("%s: %x", what, got)
		}
	}
	desk.write("acpd-cert.pub", a.sign(desk.ID(), -time.Hour, "acp:desk"))
	desk.dial().must("reload", nil, nil)
	if got := desk.answerNameRequest(asker, question[:]); got != nil {
		t.Errorf("after its end: %x", got)
	}
}

// Only names that an authority here can give are asked for, and only where there is a relay.
func TestNamesThatAreAskedFor(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	desk := start(t, stateDir(t), "desk")
	desk.joinFleet(a, "", "acp:desk")
	l := desk.dial()
	if e := l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.corp"}); !strings.Contains(e.Message, "no trusted peer") {
		t.Error(e)
	}
	l.must("relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "hub", NoCheck: true}, nil)
	e := l.refused(kinds.Unreachable, "ping", client.PingParams{To: "build-7.corp"})
	if e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "relay hub: there is no connection to the relay") {
		t.Error(e)
	}
	for _, name := range []string{"build-7", "build-7.lab", "Build-7.corp", "build-7.corp.example"} {
		l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: name})
	}
	if e := l.refused(kinds.Invalid, "ping", client.PingParams{To: "desk.corp"}); !strings.Contains(e.Message, "this daemon itself") {
		t.Error(e)
	}
}
