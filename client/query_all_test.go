package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Only a peer that is connected and trusted by name is chosen; another one is skipped if it has a name, and no stranger is
// mentioned.
func TestChooseAsked(t *testing.T) {
	names, skipped := ChooseAsked([]Peer{
		{Name: "shelf", State: PeerConnected}, {Name: "laptop", State: PeerTrusted}, {Name: "desk", State: PeerConnected},
		{Name: "build-1.corp", State: PeerTrusted, Certificate: &Certificate{}}, {Name: "build-7.corp", State: PeerConnected, Certificate: &Certificate{}},
		{Name: "gone", State: PeerBlocked}, {Claim: "stranger", State: PeerPending}, {Claim: "stranger", State: PeerDiscovered},
	})
	if want := []string{"desk", "shelf"}; !slices.Equal(names, want) {
		t.Errorf("%q are asked, want %q", names, want)
	}
	want := "skipped (known only by a certificate): build-1.corp, build-7.corp\nskipped (not connected): laptop"
	if got := strings.Join(FormatSkipped(skipped, 9), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := FormatSkipped(skipped, 1)[0]; got != "skipped (known only by a certificate): build-1.corp and 1 more" {
		t.Errorf("got %q", got)
	}
}

// All are asked at the same time, 16 at most. A peer that may not be called leaves its place to another.
func TestAskEachIsBounded(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("host-%02d", i))
	}
	begun, release := make(chan string, 20), make(chan struct{})
	outcomes := make(map[string]Asked)
	ended := make(chan error)
	go func() {
		ended <- AskEach(names, "", func(to string, id wire.MessageID) (*Answer, error) {
			if to == "host-02" || to == "host-05" {
				return nil, kinds.Errorf(kinds.NotAuthorized, "to: the agent may not call it")
			}
			begun <- to
			<-release
			return &Answer{ID: id}, nil
		}, func(a Asked) { outcomes[a.To] = a })
	}()
	for range MaxAsked {
		await.Receive(t, "a question", begun)
	}
	close(release)
	if err := await.Receive(t, "the end", ended); err != nil || len(begun) > 0 {
		t.Errorf("%v, and %d more are asked", err, len(begun))
	}
	for i, name := range names {
		a := outcomes[name]
		want := map[int]string{2: "your owner does not let this agent call it", 5: "your owner does not let this agent call it", 18: "more than 16", 19: "more than 16"}[i]
		if a.Skipped != want || (a.Answer != nil) != (want == "") || a.Error != nil || a.Answer != nil && a.Answer.ID != a.ID {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// A peer's word that nobody there answers is no failure, unless an agent had the question. The error is the first failure,
// and no_agent without any.
func TestAskEachTellsFailuresFromAbsence(t *testing.T) {
	of := func(code kinds.Code, from string) *kinds.Error {
		e := kinds.Errorf(code, "no")
		e.From = from
		return e
	}
	for _, c := range []struct {
		err     *kinds.Error
		domain  string
		skipped string
		want    kinds.Code
	}{
		{of(kinds.NoAgent, "a peer"), "", "has no agent that answers", kinds.NoAgent},
		{of(kinds.NoAgent, "a peer"), "code.review", "offers no code.review", kinds.NoAgent},
		{of(kinds.UnknownDomain, "a peer"), "code.review", "offers no code.review", kinds.NoAgent},
		{of(kinds.NotAuthorized, ""), "", "your owner does not let this agent call it", kinds.NoAgent},
		{of(kinds.NotAuthorized, "a peer"), "", "", kinds.NotAuthorized},
		{of(kinds.UnknownPeer, ""), "", "", kinds.UnknownPeer},
		{of(kinds.NoAgent, "a peer").WithDelivered(kinds.DeliveredUnknown), "", "", kinds.NoAgent},
		{of(kinds.Timeout, ""), "", "", kinds.Timeout},
	} {
		var got Asked
		err := AskEach([]string{"desk"}, c.domain, func(string, wire.MessageID) (*Answer, error) { return nil, c.err }, func(a Asked) { got = a })
		if got.Skipped != c.skipped || (got.Error != nil) != (c.skipped == "") || kinds.AsError(err).Code != c.want {
			t.Errorf("%v: %+v, %v", c.err, got, err)
		}
	}
	err := AskEach([]string{"desk", "laptop"}, "", func(to string, _ wire.MessageID) (*Answer, error) {
		if to == "desk" {
			return nil, of(kinds.Timeout, "")
		}
		return &Answer{}, nil
	}, func(Asked) {})
	if err != nil {
		t.Errorf("one has answered: %v", err)
	}
	if err := AskEach(nil, "", nil, nil); kinds.AsError(err).Code != kinds.NoAgent || !strings.Contains(err.Error(), "acpctl up") {
		t.Errorf("nobody is asked: %v", err)
	}
}
