// Package waking decides which message may wake which session, and when.
//
// A message wakes a session only if the daemon's owner allows it: by a permission for the peer
// and the kind, in the files of [Rules] or in config.yaml, or by the rule about answers to what the
// session asked. Otherwise it waits for the session's next tool call. [Waker] bounds what
// peers cause this way: woken turns in an hour and in a day, which outlive a restart, one message in a
// session at a time, and the messages that wait. Each bound is shared among peers, so that no peer has
// all of it.
//
// Package sessions notifies the session of a message, and package inbox stores the message meanwhile.
package waking

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

const (
	postPause     = 250 * time.Millisecond // between two wakes of a session
	busyFor       = 15 * time.Second       // for so long a message that was posted and not taken keeps others back
	maxWaiting    = 16                     // messages that wait to wake a session
	maxApprovals  = 64                     // messages that wait for the owner
	maxTold       = 10                     // events about approvals of one peer in tellPause, and as many about bounds and refusals
	questionPause = 10 * time.Minute       // between two questions of a peer that wake a session, unless the first was answered
	tellPause     = time.Minute            // between two events about one bound or refusal at a session, for each peer
	savePause     = 2 * time.Second        // before rules that are already in effect are written, or a turn is written again
	noticeFor     = time.Hour              // how long the status shows a bound
)

// Config is what a Waker needs. The functions must not block, nor call the Waker.
type Config struct {
	Rules  *Rules
	DB     *store.DB
	Agents func() *config.Agents            // the settings of agents
	Wakers func(agent string) []identity.ID // trusted peers that the settings let wake an agent; "": any agent
	Name   func(identity.ID) string         // petname of a peer
	Tell   func(Notice)                     // sends a notice to subscribers
	Save   func(func() error) error         // runs what writes the rules, on a reserve of the disk
	Log    *slog.Logger
}

// Waker decides when sessions are woken. It is safe for concurrent use.
type Waker struct {
	Config
	changed pace.Signal

	mu        sync.Mutex // guards what follows
	sessions  map[string]*session
	charges   []*charge // of the last day, the oldest first
	approvals []*approval
	declined  map[heldKey]bool // messages in the inbox to which the owner has said no
	lastID    uint64           // of an approval; the first is drawn, so that no answer to one of an earlier run is for one of this
	watches   map[messageKey]chan struct{}

	told []toldEvent // in the last tellPause
}

// OpenWaker reads the charges of the last day. The caller calls [Waker.Run].
func OpenWaker(ctx context.Context, c Config) (*Waker, error) {
	w := &Waker{Config: c, changed: pace.NewSignal(), sessions: make(map[string]*session), watches: make(map[messageKey]chan struct{}), declined: make(map[heldKey]bool), lastID: 100_000 + rand.Uint64N(800_000)}
	charges, err := store.ReadValue(ctx, c.DB, func(tx *store.Tx) ([]*charge, error) { return readCharges(tx, time.Now().Add(-day)) })
	if err != nil {
		return nil, ownwords.Errorf("open woken turns: %w", err)
	}
	w.charges = charges
	return w, nil
}

// Run wakes sessions for the messages that wait, until ctx ends, and waits for the posts.
func (w *Waker) Run(ctx context.Context) error {
	var posts sync.WaitGroup
	defer posts.Wait()
	posts.Go(func() { w.runRuleSaver(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		case <-timer.C:
		}
		due, notices, next := w.takeDue(time.Now())
		for _, n := range notices {
			w.tell(n)
		}
		for _, e := range due {
			posts.Go(func() {
				if w.saveTurn(ctx, e) {
					w.Finish(context.WithoutCancel(ctx), e.Message, e.post(ctx, e.grant))
				}
			})
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// runRuleSaver writes changed rules to their files, until ctx ends.
func (w *Waker) runRuleSaver(ctx context.Context) {
	failing := false
	for pace.Gather(ctx, w.Rules.unsaved, savePause) == nil {
		switch err := w.Save(w.Rules.Save); {
		case err == nil && failing:
			failing = false
			w.Log.Info("wake rules: written")
		case err != nil && !failing:
			failing = true
			w.Log.Error("wake rules: not on disk yet, and tried again until they are", "err", err)
		}
	}
}
