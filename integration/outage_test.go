package integration

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

const (
	// slack is the time that a loaded machine may add to a promised one. Package peer holds the
	// times themselves, under a virtual clock.
	slack = 3 * time.Second
	// silence is the time for which a connection has to be silent so that it is proven
	// before it is used (protocol, section 2).
	silence = 500 * time.Millisecond
)

// TestKilledPeer: the next call fails in milliseconds since its host answers, with
// the word that nothing was delivered, and calls succeed again as soon as the
// daemon is back.
func TestKilledPeer(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "reviewer"}, says("here"))
	ctx, c := await.NewContext(t), laptop.Client
	a, err := c.Query(ctx, question("desk", "there?"))
	if summary(t, a, err) != "here" {
		t.Fatal("no answer before the outage")
	}
	desk.KillDaemon()
	silent(t)
	begun := time.Now()
	_, err = c.Query(ctx, question("desk", "there?"))
	if e := is(t, kinds.Unreachable, err); e.Delivered() != kinds.DeliveredNo {
		t.Errorf("delivered %q: %v", e.Delivered(), e)
	}
	await.CheckDuration(t, "failure", time.Since(begun), time.Second+slack)
	p := laptop.RunAcpctl(5, "query", "desk", "there?")
	await.CheckDuration(t, "failure of acpctl", p.Took, time.Second+slack)

	desk.StartDaemon()
	begun = time.Now()
	desk.attach(client.AttachParams{Name: "again"}, says("back"))
	await.Until(t, "an answer after the restart", func() bool {
		a, err = c.Query(ctx, question("desk/again", "there?"))
		return err == nil
	})
	if summary(t, a, err) != "back" {
		t.Error("another answer after the restart")
	}
	await.CheckDuration(t, "answer after the restart", time.Since(begun), time.Second+slack)
}

// TestKilledPeerAtOnce: right after an answer the connection is used without a
// proof, so that a call is in flight before anybody can know.
func TestKilledPeerAtOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	ctx, c := await.NewContext(t), laptop.Client
	if _, err := c.Ping(ctx, client.PingParams{To: "desk"}); err != nil {
		t.Fatal(err)
	}
	desk.KillDaemon()
	begun := time.Now()
	_, err := c.Ping(ctx, client.PingParams{To: "desk", TimeoutMS: 20_000})
	if e := is(t, kinds.Unreachable, err); e.Delivered() == "" {
		t.Errorf("nothing is said of the delivery: %v", e)
	}
	await.CheckDuration(t, "failure", time.Since(begun), time.Second+slack)
}

// TestRestartIsNotNoticed: between two calls the other daemon is killed and comes
// back, and the second one succeeds at the first try.
func TestRestartIsNotNoticed(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	ctx, c := await.NewContext(t), laptop.Client
	for range 3 {
		if _, err := c.Ping(ctx, client.PingParams{To: "desk"}); err != nil {
			t.Fatal(err)
		}
		desk.KillDaemon()
		silent(t)
		desk.StartDaemon()
		begun := time.Now()
		if _, err := c.Ping(ctx, client.PingParams{To: "desk"}); err != nil {
			t.Errorf("the first call after the restart: %v", err)
		}
		await.CheckDuration(t, "call after the restart", time.Since(begun), time.Second+slack)
	}
	desk.KillDaemon()
	silent(t)
	desk.StartDaemon()
	desk.attach(client.AttachParams{Name: "reviewer"}, says("back"))
	if said := laptop.MustOutput("query", "desk", "there?"); said != "back\n" {
		t.Errorf("got %q", said)
	}
	// Within half a second a call may be lost on the old connection. Then it says
	// so at once, and its repeat succeeds.
	desk.KillDaemon()
	desk.StartDaemon()
	begun := time.Now()
	if _, err := c.Ping(ctx, client.PingParams{To: "desk"}); err != nil {
		is(t, kinds.Unreachable, err)
		if _, err := c.Ping(ctx, client.PingParams{To: "desk"}); err != nil {
			t.Errorf("the second call after a quick restart: %v", err)
		}
	}
	await.CheckDuration(t, "calls after a quick restart", time.Since(begun), time.Second+slack)
}

// silent waits until every connection has been silent for long enough to be
// proven before its next use. Nothing can be observed of that: time itself is what
// the rule is about.
func silent(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(silence + 100*time.Millisecond):
	case <-t.Context().Done():
	}
}

// TestKilledInFlight: a request whose daemon is killed fails within 8 s and says
// that it may have been delivered.
func TestKilledInFlight(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	s := newStubborn()
	desk.attach(client.AttachParams{Name: "worker"}, client.Handler{Query: s.query})
	asking := laptop.StartAcpctl("query", "desk", "slow", "--deadline", "1m", "--json")
	await.Receive(t, "query", s.began)
	desk.KillDaemon()
	begun := time.Now()
	if said := asking.AwaitExit(5); !strings.Contains(said, `"code":"unreachable"`) || !strings.Contains(said, `"delivered":"unknown"`) {
		t.Errorf("got %s", said)
	}
	await.CheckDuration(t, "failure in flight", time.Since(begun), 8*time.Second+slack)
	await.Receive(t, "agent that is told", s.gaveUp)
}

// TestStoppedPeer: a daemon that hangs is as good as dead, until it goes on.
func TestStoppedPeer(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	tablet := running(t, "tablet")
	befriend(t, desk, tablet)
	s := newStubborn()
	desk.attach(client.AttachParams{Name: "worker"}, client.Handler{Query: s.query})
	asking := laptop.StartAcpctl("query", "desk", "slow", "--deadline", "1m", "--json")
	await.Receive(t, "query", s.began)
	desk.Acpd.Signal(syscall.SIGSTOP)
	begun := time.Now()
	if said := asking.AwaitExit(5); !strings.Contains(said, `"code":"unreachable"`) || !strings.Contains(said, `"delivered":"unknown"`) {
		t.Errorf("in flight: %s", said)
	}
	await.CheckDuration(t, "failure in flight", time.Since(begun), 8*time.Second+slack)
	// The tablet's connection has been silent meanwhile, the laptop's is closed.
	for _, m := range []*machine{tablet, laptop} {
		begun := time.Now()
		_, err := m.Client.Query(await.NewContext(t), question("desk", "there?"))
		if e := is(t, kinds.Unreachable, err); e.Delivered() != kinds.DeliveredNo {
			t.Errorf("%s: delivered %q: %v", m.Name, e.Delivered(), e)
		}
		await.CheckDuration(t, "failure of a new call by the "+m.Name, time.Since(begun), 3*time.Second+slack)
	}
	close(s.release)
	desk.Acpd.Signal(syscall.SIGCONT)
	for _, m := range []*machine{tablet, laptop} {
		await.Until(t, m.Name+" has an answer", func() bool {
			a, err := m.Client.Query(await.NewContext(t), question("desk", "there?"))
			if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code != kinds.Unreachable {
				t.Fatalf("%s: %v", m.Name, err)
			}
			return err == nil && summary(t, a, err) == "at last"
		})
	}
}
