package web

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	daemonPatience = 5 * time.Second // for what the daemon answers by itself
	awayPause      = time.Second     // between two tries to reach a daemon that is away
	failedPause    = 2 * time.Second // after which a part that could not be read is tried again
)

// watcher reads the daemon and puts what it finds on a board.
type watcher struct {
	board    *board
	tell     func(string)
	acting   *client.Client // for what the page does
	reading  *client.Client
	watching *client.Client // its connection is the one that watches the traffic
	channels *channels.Client
	soon     pace.Signal // a poll is due now
	cursor   uint64      // of the traffic; watchTraffic alone uses it

	mu    sync.Mutex           // guards the rest
	due   map[string]time.Time // of parts; none: at once, or the part is being read
	work  work
	names map[identity.ID]string // petnames
	pid   int
	since time.Time // when the daemon of that pid began

	openTasks int // delegations that are not over, as status counts them
}

func newWatcher(o Options, b *board) *watcher {
	newClient := func() *client.Client { return &client.Client{Socket: o.Socket, Patience: daemonPatience} }
	w := &watcher{
		board: b, tell: o.Tell, acting: newClient(), reading: newClient(), watching: newClient(),
		soon: pace.NewSignal(), due: make(map[string]time.Time), names: make(map[identity.ID]string),
	}
	w.channels = &channels.Client{Daemon: w.reading, Home: o.Home, ListPatience: 2 * time.Second}
	return w
}

// run reads until ctx ends. Then no connection to the daemon is left but one of what the page does.
func (w *watcher) run(ctx context.Context) {
	w.mu.Lock()
	clear(w.due) // what the board has may be old
	w.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { w.watchTraffic(ctx) })
	running.Go(func() { w.watchEvents(ctx) })
	w.pollParts(ctx)
	running.Wait()
	w.reading.Close()
	w.watching.Close()
}

// noteAnswer keeps on the board whether the daemon answers, by the error of a call, and reports that.
func (w *watcher) noteAnswer(ctx context.Context, err error) (answers bool) {
	if ctx.Err() != nil {
		return true
	}
	why := ""
	if e, ok := asCoded(err); ok && e.Code == kinds.DaemonUnavailable {
		why = showLine(e.Message, maxShown)
	}
	switch news := w.board.setAway(why); {
	case news && why != "":
		w.tell("the daemon is away: " + why)
	case news:
		w.tell("the daemon is back")
	}
	return why == ""
}

// readSoon has parts read again as soon as those are that are due already. What is being read is read once
// more, as it may have changed since.
func (w *watcher) readSoon(parts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, p := range parts {
		if due := w.due[p]; due.IsZero() || due.After(now) {
			w.due[p] = now
		}
	}
	w.soon.Set()
}

// pollParts reads each part in its turn, one after the other, until ctx ends.
func (w *watcher) pollParts(ctx context.Context) {
	for ctx.Err() == nil {
		p, wait := w.nextPoll()
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-w.soon:
			case <-time.After(wait):
			}
			continue
		}
		w.readPart(ctx, p)
	}
}

// readPart reads a part, and notes when it is due again. It waits for awayPause if the daemon is away.
func (w *watcher) readPart(ctx context.Context, p poll) {
	began := time.Now()
	w.mu.Lock()
	delete(w.due, p.part)
	w.mu.Unlock()
	err := p.read(w, ctx)
	w.mu.Lock()
	if w.due[p.part].IsZero() { // else readSoon has set it meanwhile
		w.due[p.part] = time.Now().Add(p.pauseAfter(time.Since(began), err))
	}
	w.mu.Unlock()
	switch {
	case !w.noteAnswer(ctx, err):
		pace.Sleep(ctx, awayPause)
	case ctx.Err() != nil:
	case err != nil:
		w.board.setProblem(p.part, showLine(err.Error(), maxShown))
	default:
		w.board.setProblem(p.part, "")
	}
}

// nextPoll returns the poll that is due next, and in how long.
func (w *watcher) nextPoll() (next poll, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = polls[0]
	for _, p := range polls[1:] {
		if w.due[p.part].Before(w.due[next.part]) {
			next = p
		}
	}
	return next, time.Until(w.due[next.part])
}

// setWork changes what is known of open work, and puts who waits for whom, and for the owner's word, on
// the board.
func (w *watcher) setWork(change func(*work)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.work)
	setRows(w.board, partApprovals, w.work.listApprovals(), 0)
	setRows(w.board, partWaiting, w.work.listWaiting(), w.work.openMore)
}

// partsOfEvents says which parts change with an event. Those that are not listed change peers.
var partsOfEvents = map[client.EventType][]string{
	client.EventApproval: {partApprovals, partHeld},
	client.EventMail:     {partMail},
	client.EventBudget:   {partAgents},
	client.EventRelay:    {partDaemon},
}

// watchEvents puts events on the board until ctx ends.
func (w *watcher) watchEvents(ctx context.Context) {
	events := client.Client{Socket: w.reading.Socket, Patience: daemonPatience}
	params := client.SubscribeParams{Kinds: []string{client.NoKind}, Events: client.EventFilter{All: true}} // messages come as traffic
	for ctx.Err() == nil {
		events.Subscribe(ctx, params, nil, func(e *client.Event) {
			addLines(w.board, []*line{newEventLine(e)})
			parts := partsOfEvents[e.Type]
			if parts == nil {
				parts = []string{partPeers}
			}
			w.readSoon(parts...)
		})
		pace.Sleep(ctx, awayPause) // the polls tell why
	}
}
