package web

import (
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// poll reads a part of the board from the daemon again and again.
type poll struct {
	part  string
	pause time.Duration // at least, between two reads
	read  func(*watcher, context.Context) error
}

// pauseAfter returns how long after a read the next one is due. Slow reads are repeated less often, so that
// reading never takes more than a twentieth of the time. A failed read is repeated soon, and takes half
// of the time at most if it fails slowly.
func (p poll) pauseAfter(took time.Duration, err error) time.Duration {
	if err != nil {
		return max(min(p.pause, failedPause), took)
	}
	return max(p.pause, 20*took)
}

// polls are read in this order at first.
var polls = []poll{
	{partDaemon, time.Second, (*watcher).readStatus},
	{partPeers, time.Second, (*watcher).readPeers},
	{partApprovals, time.Second, (*watcher).readApprovals},
	{partTasks, time.Second, (*watcher).readTasks},
	{partFiles, time.Second, (*watcher).readFiles},
	{partAgents, 2 * time.Second, (*watcher).readAgents},
	{partHeld, 3 * time.Second, (*watcher).readInbox},
	{partBudget, 5 * time.Second, (*watcher).readBudget},
	{partMail, 5 * time.Second, (*watcher).readMail},
	{partSpent, 10 * time.Second, (*watcher).readSpent},
	{partChannels, 15 * time.Second, (*watcher).readChannels},
}

// mapRows returns the row of each item.
func mapRows[T any, R keyed](items []T, row func(*T) R) []R {
	rows := make([]R, 0, len(items))
	for i := range items {
		rows = append(rows, row(&items[i]))
	}
	return rows
}

func (w *watcher) readStatus(ctx context.Context) error {
	s, err := w.reading.Status(ctx)
	if err != nil {
		return err
	}
	// The uptime is in whole seconds: taken anew each time, the beginning would change all the time.
	w.mu.Lock()
	since := time.Now().Add(-time.Duration(s.UptimeSecs) * time.Second)
	if w.pid != s.Process.PID || since.Sub(w.since).Abs() > 3*time.Second {
		w.pid, w.since = s.Process.PID, since
	}
	since, w.openTasks = w.since, s.TasksGiven+s.TasksTaken
	w.mu.Unlock()
	setRows(w.board, partDaemon, []daemonRow{newDaemonRow(s, since)}, 0)
	setRows(w.board, partWarnings, listWarnings(s), 0)
	setRows(w.board, partRelays, mapRows(s.Relays, newRelayRow), 0)
	return nil
}

func (w *watcher) readPeers(ctx context.Context) error {
	all, err := w.reading.Peers(ctx)
	if err != nil {
		return err
	}
	names := make(map[identity.ID]string)
	var blocked []string
	for _, p := range all {
		if names[p.ID] = p.Name; p.State == client.PeerBlocked {
			blocked = append(blocked, p.ID.String())
		}
	}
	w.board.forgetPeers(blocked)
	w.mu.Lock()
	w.names = names
	w.mu.Unlock()
	w.setWork(func(k *work) { k.peers = mapPeers(all) })
	all = slices.DeleteFunc(all, func(p client.Peer) bool { return p.State == client.PeerBlocked })
	slices.SortFunc(all, comparePeers)
	setRows(w.board, partPeers, mapRows(all, newPeerRow), 0)
	return nil
}

func (w *watcher) readAgents(ctx context.Context) error {
	all, err := w.reading.Agents(ctx)
	if err != nil {
		return err
	}
	setRows(w.board, partAgents, mapRows(all, newAgentRow), 0)
	return nil
}

func (w *watcher) readSpent(ctx context.Context) error {
	s, err := w.reading.Spent(ctx, client.SpentParams{})
	if err != nil {
		return err
	}
	setRows(w.board, partSpent, listSpent(s), 0)
	return nil
}

func (w *watcher) readApprovals(ctx context.Context) error {
	all, err := w.reading.Approvals(ctx)
	if err != nil {
		return err
	}
	w.setWork(func(k *work) { k.approvals = all })
	return nil
}

// readTasks reads the newest delegations, and further back as long as some may be open there.
func (w *watcher) readTasks(ctx context.Context) error {
	const newest, mostPages = 100, 10
	w.mu.Lock()
	open := w.openTasks
	w.mu.Unlock()
	var all []client.Task
	p := client.TasksParams{Limit: newest}
	for range mostPages {
		page, err := w.reading.TasksPage(ctx, p)
		if err != nil {
			return err
		}
		for i := range page.Tasks {
			if !isOver(&page.Tasks[i]) {
				open--
			}
		}
		all = append(all, page.Tasks...)
		if p.After = page.Next; p.After == 0 || open <= 0 {
			break
		}
	}
	w.setWork(func(k *work) { k.tasks = all })
	rows := make([]taskRow, 0, newest)
	for i := range all[:min(len(all), newest)] {
		rows = append(rows, newTaskRow(&all[i], i))
	}
	setRows(w.board, partTasks, rows, len(all)-len(rows))
	return nil
}

// readInbox reads what is held. Agents can still get it.
func (w *watcher) readInbox(ctx context.Context) error {
	const most = 50
	held, err := w.reading.Inbox(ctx, client.InboxParams{Limit: most, Peek: true})
	if err != nil {
		return err
	}
	w.mu.Lock()
	names := w.names
	w.mu.Unlock()
	more := 0
	if held.Next != 0 {
		more = 1
	}
	setRows(w.board, partHeld, mapRows(held.Messages, func(m *client.HeldMessage) heldRow { return newHeldRow(m, names) }), more)
	return nil
}

func (w *watcher) readBudget(ctx context.Context) error {
	b, err := w.reading.Budget(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	peers := w.work.peers
	w.mu.Unlock()
	rows, more := listBudget(b, peers)
	setRows(w.board, partBudget, rows, more)
	return nil
}

func (w *watcher) readMail(ctx context.Context) error {
	bindings, err := w.reading.OACPBindings(ctx, "")
	if err != nil {
		return err
	}
	queue, err := w.reading.OACPQueuePage(ctx, client.OACPQueueParams{})
	if err != nil {
		return err
	}
	more := 0
	if queue.Next != "" {
		more = 1
	}
	setRows(w.board, partBindings, mapRows(bindings, newBindingRow), 0)
	setRows(w.board, partMail, mapRows(queue.Entries, newMailRow), more)
	return nil
}
