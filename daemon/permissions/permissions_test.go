package permissions

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// What policy and rate refuse is counted and told on the refusing side, in as many
// lines as a peer may cause.
// holds: security.md#the-budget
func TestRefusalsLeaveATrace(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	book := &budget.Book{}
	lines := book.OpenLog(slog.New(slog.NewTextHandler(&text, nil)))
	trust := identity.NewMemoryTrustStore()
	g := New(trust, &config.Config{
		Policy: config.Policy{"desk": {Kinds: []string{kinds.KindPing}}},
		Limits: config.Limits{Rate: []config.Rate{{Peer: "*", Kind: "*", PerSecond: 0.001, Burst: 1}}},
	}, book, lines)
	desk := identity.Peer{ID: identity.ID{1}, Name: "desk"}
	if err := g.CheckAllowed(desk, kinds.KindPing, ""); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if err := g.CheckAllowed(desk, kinds.KindPing, ""); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			t.Fatal(err)
		}
	}
	const many = 20
	for range many {
		if err := g.CheckAllowed(desk, kinds.KindDelegate, ""); !errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized}) {
			t.Fatal(err)
		}
	}
	lines.Close()
	refused := make(map[string]uint64)
	for _, u := range book.ListUsage() {
		refused[u.Row.Name] = u.Refused
	}
	if refused["rate"] != 7 || refused["policy"] != many {
		t.Errorf("counted %v", refused)
	}
	said := text.String()
	for _, want := range []string{
		`name=desk kind=ping row=rate reason="over the receiver's rate limit`,
		`name=desk kind=delegate row=policy reason="policy.desk: kinds [ping] do not include`,
		fmt.Sprintf("lines=%d", 7+many-budget.LogLines.Peer),
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the log does not say %s:\n%s", want, said)
		}
	}
	if n := strings.Count(said, "message refused"); n != int(budget.LogLines.Peer) {
		t.Errorf("%d lines", n)
	}
}

func TestBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &budget.Book{}
		g := New(identity.NewMemoryTrustStore(), &config.Config{Limits: config.Limits{Rate: []config.Rate{{Peer: "*", Kind: "*", PerSecond: 1, Burst: 1}}}}, book, book.OpenLog(slog.New(slog.DiscardHandler)))
		allow := func(n int) error {
			return g.takeToken(identity.Peer{ID: identity.ID{byte(n), byte(n >> 8), byte(n >> 16)}}, kinds.KindQuery)
		}
		for n := range maxBuckets + 1 {
			if err := allow(n); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.buckets) > maxBuckets {
			t.Errorf("%d buckets", len(g.buckets))
		}
		if err := allow(maxBuckets); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			t.Error(err)
		}
		time.Sleep(time.Second) // of the virtual clock
		if err := allow(maxBuckets); err != nil {
			t.Error(err)
		}
	})
}
