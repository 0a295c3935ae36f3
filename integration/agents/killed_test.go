//go:build agents

package agents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// stage is how far a session is with a message.
type stage string

// The stages.
const (
	arrived stage = "arrived" // at the session's daemon
	pointed stage = "pointed" // the model is given the line that says that it waits
	read    stage = "read"    // the model is given its text
	done    stage = "done"    // it is acknowledged or answered, and the model hears that
)

// results are how many tools have answered the model at a stage.
var results = map[stage]int{arrived: 0, pointed: 0, read: 1, done: 2}

// instant is when a session is killed: some time after a stage. If it is held, the model does not
// answer at that stage, so that the session is at no later one.
type instant struct {
	stage stage
	after time.Duration
	held  bool
}

// instants are spread over all of what happens to a message, from before the model hears of it to
// after its answer. Most of the time before is that in which the session says that it is idle.
var instants = []instant{
	{arrived, 0, true}, {arrived, 100 * time.Millisecond, false}, {arrived, 400 * time.Millisecond, false},
	{pointed, 0, true}, {pointed, 600 * time.Millisecond, true}, {pointed, 20 * time.Millisecond, false},
	{read, 0, true}, {read, 10 * time.Millisecond, false}, {read, 40 * time.Millisecond, false},
	{done, 0, true},
}

// certain is how far a session comes with its message that is killed at one of these instants,
// on the fastest and on the slowest machine.
var certain = map[instant]stage{
	{arrived, 0, true}: arrived, {pointed, 0, true}: arrived, {pointed, 600 * time.Millisecond, true}: arrived,
	{read, 0, true}: read, {done, 0, true}: done,
}

// A session that is killed at any of 20 instants takes nothing with it: a notice that its sender
// heard was handed has been read, and any other lies in the inbox. Who asked it hears at once that
// nobody is there.
func TestSessionIsKilled(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*testing.T, *killed) stage{"notice": killWithNotice, "query": killWithQuery} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := newMachines(t)
			allowWake(laptop, desk, false)
			var seen []stage
			for _, at := range instants {
				t.Run(fmt.Sprintf("%s+%s", at.stage, at.after), func(t *testing.T) {
					k := &killed{instant: at, desk: desk, laptop: laptop}
					got := kill(t, k)
					until(t, "the session is gone", func() bool { return findAgent(laptop, "claude") == nil })
					if want, known := certain[at]; known && got != want {
						t.Errorf("the session came to %q, want %q", got, want)
					}
					t.Logf("the session came to %q", got)
					seen = append(seen, got)
				})
			}
			for _, s := range []stage{arrived, read, done} {
				if !slices.Contains(seen, s) {
					t.Errorf("no session came to %q and no further: %q", s, seen)
				}
			}
		})
	}
}

// killed is a session that is killed at an instant.
type killed struct {
	instant
	desk, laptop *live.Machine
	model        *model
	session      *claudeCode
	at           <-chan time.Time // when it was killed
}

// start starts the session. Its model reads what wakes it, and then does the last step.
func (k *killed) start(t *testing.T, last step) {
	t.Helper()
	steps := []step{call("acp_inbox", map[string]any{}), last, say("done")}
	if k.held {
		never := make(chan struct{})
		t.Cleanup(func() { close(never) })
		steps[results[k.stage]].pause = never
	}
	p := newPerson(t, rule{"Call acp_inbox.", steps})
	k.model = p.model
	k.session = p.startClaude(serverCommand(k.laptop))
	awaitSession(k.laptop, "claude")
}

// killLater kills the session at its instant. hasArrived reports whether its daemon has the message.
func (k *killed) killLater(hasArrived func() bool) {
	at := make(chan time.Time, 1)
	k.at = at
	go func() {
		for end := time.Now().Add(patience); !k.isReached(hasArrived) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(k.after)
		at <- time.Now()
		k.session.Cmd.Process.Kill()
	}()
}

// isReached reports whether the session is at the instant's stage.
func (k *killed) isReached(hasArrived func() bool) bool {
	if k.stage == arrived {
		return hasArrived()
	}
	return k.hasHeard(results[k.stage])
}

// hasHeard reports whether the model was given the line that says that a message waits, and then answers of so many
// tools.
func (k *killed) hasHeard(tools int) bool {
	return slices.ContainsFunc(k.model.list(), func(r *request) bool {
		return r.has("user", "1 message from desk waits") && r.count("result", "") >= tools
	})
}

// killWithNotice kills a session for which a notice comes. It returns how far the session came.
func killWithNotice(t *testing.T, k *killed) stage {
	k.start(t, reading().steps[1])
	s := notify(k.desk, "laptop/claude")
	k.killLater(func() bool { return s.isInInbox(k.laptop) })
	receipt := receive(t, "a receipt", s.receipt)
	receive(t, "the end of the session", k.at)
	until(t, "the session is gone", func() bool { return findAgent(k.laptop, "claude") == nil })
	isRead, lies := k.model.find("result", s.text) != nil, s.isInInbox(k.laptop)
	if _, err := k.laptop.Client.Inbox(await.NewContext(t), client.InboxParams{Limit: 100}); err != nil { // it would wake the next session
		t.Fatal(err)
	}
	switch {
	case receipt.State == client.Handed && isRead && !lies:
		return done
	case receipt.State == client.Held && k.hasHeard(results[done]) && !lies: // acknowledged later than the sender waits
		return done
	case receipt.State == client.Held && isRead:
		return read
	case receipt.State == client.Held && lies:
		return arrived
	}
	t.Errorf("the notice: %+v, read %t, in the inbox %t", receipt, isRead, lies)
	return ""
}

// killWithQuery kills a session for which a query comes. It returns how far the session came.
func killWithQuery(t *testing.T, k *killed) stage {
	k.start(t, reply("it is forty-two"))
	s := query(k.desk, "laptop/claude")
	k.killLater(func() bool { a := findAgent(k.laptop, "claude"); return a != nil && a.Active == 1 })
	end := receive(t, "an answer", s.answer)
	at := receive(t, "the end of the session", k.at)
	isRead := k.model.find("result", s.text) != nil
	t.Logf("who asked hears %s after the end: %v", end.at.Sub(at).Round(time.Millisecond), end.err)
	e, _ := errors.AsType[*kinds.Error](end.err)
	switch {
	case end.err == nil && strings.Contains(end.text, "forty-two") && isRead:
		return done
	case e == nil || e.Code != kinds.NoAgent:
		t.Errorf("the question: %+v", end)
	case end.at.Sub(at) > questionTime/2:
		t.Errorf("who asked hears after %s that nobody is there", end.at.Sub(at))
	case isRead:
		return read
	}
	return arrived
}
