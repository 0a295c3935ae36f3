package daemon

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	maxGuests  = 10_000           // agents that are known at hosts, all hosts together
	recordTime = 10 * time.Second // for a host to take a record
	recordTick = 30 * time.Second // an agent that falls silent changes its record by itself
)

// records tells hosts who the agents are that come to them: with an agent's first
// request, and whenever its record changes. What a host was told is on disk, so that
// it hears of the end of an agent, too, however long it was away.
type records struct {
	db     *store.DB
	log    *slog.Logger
	record func(agent string) (record string, ended bool) // as hosts are to know it; "" for none
	tell   tell
	rouse  chan struct{} // holds one where records may differ from what was told

	mu    sync.Mutex // guards the rest
	hosts map[identity.ID]*guests
	count int
}

// tell tells a host the record of an agent. Where the host did not take it, for now
// or for good, that is no error: it will say why to whatever the agent wants of it.
type tell func(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error)

// guests are the agents that a host knows, with the records that it was told.
type guests struct {
	turn chan struct{} // holds one while somebody tells, so that nobody tells what is outdated
	told map[string]string
}

func openRecords(ctx context.Context, db *store.DB, log *slog.Logger, record func(string) (string, bool), tell tell) (*records, error) {
	q := &records{db: db, log: log, record: record, tell: tell, rouse: make(chan struct{}, 1), hosts: make(map[identity.ID]*guests)}
	err := db.Read(ctx, func(tx *store.Tx) error {
		return sqlGuests(tx, func(host identity.ID, agent, record string) {
			q.guests(host).told[agent] = record
			q.count++
		})
	})
	q.look()
	return q, err
}

// look makes run compare the records with what was told.
func (q *records) look() {
	select {
	case q.rouse <- struct{}{}:
	default:
	}
}

// guests returns the agents that a host knows. The lock is held, or nobody else is there.
func (q *records) guests(host identity.ID) *guests {
	g := q.hosts[host]
	if g == nil {
		g = &guests{turn: make(chan struct{}, 1), told: make(map[string]string)}
		q.hosts[host] = g
	}
	return g
}

// introduce makes sure that the host knows the agent as it is now.
func (q *records) introduce(ctx context.Context, host identity.ID, agent string) error {
	record, _ := q.record(agent)
	q.mu.Lock()
	g := q.guests(host)
	told, known := g.told[agent]
	q.mu.Unlock()
	if known && told == record {
		return nil
	}
	return q.update(ctx, host, g, agent)
}

// update tells a host the record of one agent, after whoever tells it something.
func (q *records) update(ctx context.Context, host identity.ID, g *guests, agent string) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	record, ended := q.record(agent)
	q.mu.Lock()
	told, known := g.told[agent]
	room := q.count < maxGuests // beyond, hosts do not hear of changes
	q.mu.Unlock()
	if !known && room { // before it hears of the agent, so that it hears of its end
		if err := q.keep(ctx, host, g, agent, ""); err != nil {
			return err
		}
	}
	if told == record {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	taken, err := q.tell(ctx, host, agent, record)
	switch {
	case err != nil || !taken:
		return err
	case ended:
		return q.forget(ctx, host, g, agent)
	case known || room:
		return q.keep(ctx, host, g, agent, record)
	}
	return nil
}

func (q *records) keep(ctx context.Context, host identity.ID, g *guests, agent, record string) error {
	err := q.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlSaveGuest(tx, host, agent, record) })
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := g.told[agent]; !known {
		q.count++
	}
	g.told[agent] = record
	return nil
}

func (q *records) forget(ctx context.Context, host identity.ID, g *guests, agent string) error {
	err := q.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlDropGuest(tx, host, agent) })
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := g.told[agent]; known {
		q.count--
		delete(g.told, agent)
	}
	return nil
}

// run tells the hosts in reach what has changed, until ctx ends.
func (q *records) run(ctx context.Context, reach func() []identity.ID) error {
	tick := time.NewTicker(recordTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.rouse:
		case <-tick.C:
		}
		var telling errgroup.Group
		for _, host := range reach() {
			telling.Go(func() error { return q.catchUp(ctx, host) })
		}
		if err := telling.Wait(); err != nil && ctx.Err() == nil {
			q.log.Debug("hosts do not know all agents as they are", "err", err)
		}
	}
}

// catchUp tells a host all records that have changed.
func (q *records) catchUp(ctx context.Context, host identity.ID) error {
	q.mu.Lock()
	g := q.hosts[host]
	var agents map[string]string
	if g != nil {
		agents = maps.Clone(g.told)
	}
	q.mu.Unlock()
	for agent, told := range agents {
		if record, _ := q.record(agent); record != told {
			if err := q.update(ctx, host, g, agent); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop forgets a host that is trusted no more.
func (q *records) drop(ctx context.Context, host identity.ID) error {
	q.mu.Lock()
	if g := q.hosts[host]; g != nil {
		q.count -= len(g.told)
		delete(q.hosts, host)
	}
	q.mu.Unlock()
	return q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDropGuests(tx, host) })
}

// tellRecord is the [tell] of a daemon.
func (d *Daemon) tellRecord(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error) {
	if record == "" {
		return true, nil
	}
	to, ok := d.trust.Get(host)
	if !ok {
		return false, errUntrusted
	}
	path := "/api/v1/agents/" + url.PathEscape(agent) + "/record"
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://acpd"+path, strings.NewReader(record))
	if err != nil {
		return false, err
	}
	r.Header.Set(headerAgent, openintent.Daemon)
	answer, err := hostTransport{d, to}.RoundTrip(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 512))
		d.log.Debug("a host took no record", "host", to.Name, "agent", agent, "status", answer.Status, "answer", string(text))
	}
	return answer.StatusCode < 300, nil
}
