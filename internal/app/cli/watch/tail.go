// Package watch is the verbs of acpctl that show messages as they pass, and who waits for whom.
package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// NewCmds returns the verbs.
func NewCmds(f *frame.Frame) []*cobra.Command {
	return []*cobra.Command{newTailCmd(f), newWaitingCmd(f)}
}

func newTailCmd(f *frame.Frame) *cobra.Command {
	t := &tail{Frame: f, talk: make(chan string)}
	cmd := &cobra.Command{
		Use:   "tail [PEER[/AGENT]]",
		Short: "Show messages and events as they pass",
		Example: `  acpctl tail
  acpctl tail desk --kind query,delegate
  acpctl tail desk/reviewer         an agent there
  acpctl tail --topic ci --payload
  acpctl tail --json | jq 'select(.entry.outcome == "timeout")'`,
		Long: `It shows a line for each message once it has its outcome: time, agent here, direction (→ to a peer, ← from one), peer and
agent there, kind, outcome and duration, and the beginning of what it says and of the answer. Events of peers (·) are shown
too, unless flags select messages. A topic includes the topics below it.

It begins with the last messages, which the daemon keeps in memory unless config.yaml says history: off. If you read more
slowly than messages pass, some are lost: "lost 12". The terminal rings its bell when something begins to wait for you
(acpctl approvals). It ends with ^C, or when the program that reads it ends, and goes on after the daemon was away. A discover
that succeeds is only shown with --all or --kind, because programs send it again and again to see who is there. acpctl waiting
lists open calls. OACP mail is shown as an event; channels have a tail of their own.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			for _, thread := range t.params.Threads {
				if len(thread) > wire.MaxLabel {
					return frame.UsageErrorf("--thread: %d bytes: no thread has more than %d", len(thread), wire.MaxLabel)
				}
			}
			var err error
			if t.there, err = selectPeer(&t.params, args); err != nil {
				return err
			}
			return t.follow(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&t.params.Kinds, "kind", nil, "only messages of these kinds")
	cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds.ListNames(kinds.Sent), cobra.ShellCompDirectiveNoFileComp))
	flags.StringSliceVar(&t.params.Topics, "topic", nil, "only notifications with these topics")
	flags.StringArrayVar(&t.params.Threads, "thread", nil, "only messages of this conversation")
	flags.StringSliceVar(&t.params.Agents, "agent", nil, "only messages of these agents, or for them")
	flags.BoolVar(&t.params.Payload, "payload", false, "with the whole payload, up to 64 KiB, below the id and the thread")
	flags.BoolVar(&t.all, "all", false, "discover too")
	return cmd
}

// tail shows what passes the daemon. Items are kept in held for holdTime, so that messages and
// events, which come by two ways, are printed in one order.
type tail struct {
	*frame.Frame
	params client.TrafficParams
	there  string // the agent of the peer whose messages are wanted; "": all
	all    bool   // discover is wanted
	held   []tailItem
	talk   chan string // lines for a person, about the tail itself

	// On a terminal.
	day     string // of the last line
	partial string // the delegation whose partial result the last line shows; may be ""
}

// holdTime is longer than any of the two ways takes, as a rule.
const holdTime = 50 * time.Millisecond

// tailItem is something to print. One of its fields is set in addition to at.
type tailItem struct {
	at    time.Time // its place in the order: when it ended, but not later than when it came
	entry *client.TrafficEntry
	event *client.Event
	lost  uint64
}

// follow prints what passes until ctx ends, which is how a tail usually ends.
func (t *tail) follow(ctx context.Context) error {
	answer, err := t.Daemon.Traffic(ctx, &t.params)
	if err != nil {
		return err
	}
	t.PrintForPerson("each message when it has its outcome; ^C ends it; open calls: acpctl waiting")
	t.holdAnswer(answer)
	ctx, cancel := context.WithCancel(ctx)
	answers, events, failed := make(chan *client.TrafficAnswer), make(chan tailItem, 1024), make(chan error, 2)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { failed <- t.readAnswers(ctx, answer.Next, answers) })
	running.Go(func() {
		if err := t.readEvents(ctx, events); err != nil {
			failed <- err
		}
	})
	unread := t.WatchReader(ctx)
	for {
		select {
		case <-unread:
			t.PrintLine("") // which ends this process as any line would
		case a := <-answers:
			t.holdAnswer(a)
		case e := <-events:
			if e.event != nil {
				t.RingIfNeeded(e.event)
			}
			t.held = append(t.held, e)
		case <-t.nextRelease():
		case line := <-t.talk:
			t.partial = ""
			t.Warn("%s", line)
		case err := <-failed:
			t.printHeld(time.Time{})
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		t.printHeld(time.Now().Add(-holdTime))
		if err := t.CheckOutput(); err != nil {
			return err
		}
	}
}

// holdAnswer holds what the daemon has answered.
func (t *tail) holdAnswer(a *client.TrafficAnswer) {
	first := time.Now()
	if len(a.Entries) > 0 {
		first = clampToNow(findEnd(&a.Entries[0]))
	}
	if a.Lost > 0 {
		t.held = append(t.held, tailItem{at: first, lost: a.Lost})
	}
	for i := range a.Entries {
		e := &a.Entries[i]
		if t.there != "" && findAgentThere(e) != t.there || t.isLooking(e) {
			continue
		}
		t.held = append(t.held, tailItem{at: clampToNow(findEnd(e)), entry: e})
	}
}

// isLooking reports whether an entry is of a program that looked who is there, and nobody asked for those.
// Verbs and agent programs do so again and again.
func (t *tail) isLooking(e *client.TrafficEntry) bool {
	return e.Kind == kinds.KindDiscover && e.Outcome == client.TrafficOK && !t.all && len(t.params.Kinds) == 0
}

// findEnd returns when a message had its outcome.
func findEnd(e *client.TrafficEntry) time.Time {
	return e.At.Add(time.Duration(e.TookUS) * time.Microsecond)
}

// clampToNow returns a time, but not one that is still to come: the clock may have been set back.
func clampToNow(at time.Time) time.Time {
	if now := time.Now(); at.After(now) {
		return now
	}
	return at
}

// nextRelease returns a channel that gets something when the oldest that is held may be printed; nil if
// nothing is held.
func (t *tail) nextRelease() <-chan time.Time {
	if len(t.held) == 0 {
		return nil
	}
	return time.After(time.Until(t.held[0].at.Add(holdTime)))
}

// printHeld prints what is held and ended before a time, in its order; zero: all of it.
func (t *tail) printHeld(before time.Time) {
	slices.SortStableFunc(t.held, func(a, b tailItem) int { return a.at.Compare(b.at) })
	n := len(t.held)
	if !before.IsZero() {
		n, _ = slices.BinarySearchFunc(t.held, before, func(i tailItem, before time.Time) int { return i.at.Compare(before) })
	}
	for i := range t.held[:n] {
		t.printItem(&t.held[i])
	}
	t.held = slices.Delete(t.held, 0, n)
}
