package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
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
// it hears of the end of an agent, too, however long it was away. A host that has come into
// reach is asked what it knows, and told again what it has forgotten: it may have trusted
// this daemon no more for a while.
type records struct {
	db     *store.DB
	log    *slog.Logger
	record func(agent string) (record string, ended bool) // as hosts are to know it; "" for none
	tell   tell
	list   list // nil: hosts forget nothing
	wake   wake // records may differ from what was told

	mu    sync.Mutex // guards the rest
	hosts map[identity.ID]*guests
	count int
}

// tell tells a host the record of an agent. Where the host did not take it, for now
// or for good, that is no error: it will say why to whatever the agent wants of it.
type tell func(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error)

// list returns the agents of this daemon of which a host has records, false where it is of an
// earlier version, which does not say. Its error is errMute where the host could, and does not.
type list func(ctx context.Context, host identity.ID) (agents []string, said bool, err error)

// guests are the agents that a host knows, with the records that it was told.
type guests struct {
	links int           // how often it came into reach, or went; this and the next are guarded by the mu of records
	sure  int           // links when it last said what it knows: it may have forgotten some where there are more
	turn  chan struct{} // holds one while somebody tells, so that nobody tells what is outdated
	told  map[string]string
}

// errMute is the error of a host that does not say whom it knows: it refuses to, and will say
// why to whatever an agent wants of it, or what it says is no list.
var errMute = errors.New("it does not say which agents it knows")

func openRecords(ctx context.Context, db *store.DB, log *slog.Logger, record func(string) (string, bool), tell tell, list list) (*records, error) {
	q := &records{db: db, log: log, record: record, tell: tell, list: list, wake: newWake(), hosts: make(map[identity.ID]*guests)}
	err := db.Read(ctx, func(tx *store.Tx) error {
		return sqlGuests(tx, func(host identity.ID, agent, record string) {
			g := q.guests(host)
			g.told[agent], g.links = record, 1
			q.count++
		})
	})
	q.wake.up()
	return q, err
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

// enter waits for the turn to tell a host; leave gives it back.
func (q *records) enter(ctx context.Context, host identity.ID) (*guests, error) {
	for {
		q.mu.Lock()
		g := q.guests(host)
		q.mu.Unlock()
		select {
		case g.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		q.mu.Lock()
		dropped := q.hosts[host] != g
		q.mu.Unlock()
		if !dropped {
			return g, nil
		}
		g.leave() // it was forgotten meanwhile: what is told now counts anew
	}
}

func (g *guests) leave() { <-g.turn }

// introduce makes sure that the host knows the agent as it is now, also where it has been out
// of reach and may have forgotten it. It waits for whoever tells the host something else.
func (q *records) introduce(ctx context.Context, host identity.ID, agent string) error {
	if err := q.check(ctx, host); err != nil && err != errMute {
		return err
	}
	return q.update(ctx, host, agent)
}

// update is introduce to a host that has forgotten nothing.
func (q *records) update(ctx context.Context, host identity.ID, agent string) error {
	record, _ := q.record(agent)
	q.mu.Lock()
	told, known := q.guests(host).told[agent]
	q.mu.Unlock()
	if known && told == record {
		return nil
	}
	g, err := q.enter(ctx, host)
	if err != nil {
		return err
	}
	defer g.leave()
	record, ended := q.record(agent)
	q.mu.Lock()
	told, known = g.told[agent]
	room := q.count < maxGuests // beyond, hosts do not hear of changes
	q.mu.Unlock()
	if !known && room { // before it hears of the agent, so that it hears of its end
		if err := q.note(ctx, host, g, agent, "", false); err != nil {
			return err
		}
	}
	if told == record {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	taken, err := q.tell(ctx, host, agent, record)
	if err != nil || !taken || !known && !room {
		return err
	}
	return q.note(ctx, host, g, agent, record, ended)
}

// note remembers what a host was told of an agent, and nothing of one that has ended.
func (q *records) note(ctx context.Context, host identity.ID, g *guests, agent, record string, ended bool) error {
	err := q.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
		if ended {
			return sqlDropGuest(tx, host, agent)
		}
		return sqlSaveGuest(tx, host, agent, record)
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count -= len(g.told)
	if g.told[agent] = record; ended {
		delete(g.told, agent)
	}
	q.count += len(g.told)
	return nil
}

// run tells the hosts in reach what has changed, until ctx ends. No host waits for
// another.
func (q *records) run(ctx context.Context, reach func() []identity.ID) {
	tick := time.NewTicker(recordTick)
	defer tick.Stop()
	couriers := newCouriers(func(host identity.ID) {
		if err := q.catchUp(ctx, host); err != nil && ctx.Err() == nil {
			q.log.Debug("a host does not know all agents as they are", "host", host.Label(), "err", err)
		}
	})
	defer couriers.wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-tick.C:
		}
		for _, host := range reach() {
			couriers.send(host)
		}
	}
}

// doubt says that a host has come into reach, or has gone: it may forget what it was told.
func (q *records) doubt(host identity.ID) {
	q.mu.Lock()
	if g := q.hosts[host]; g != nil {
		g.links++
	}
	q.mu.Unlock()
	q.wake.up()
}

// doubts reports whether a host may have forgotten what it was told, and how often it came
// and went until now.
func (q *records) doubts(host identity.ID) (links int, doubt bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.guests(host)
	return g.links, q.list != nil && g.sure != g.links
}

// check finds out what a host has forgotten of what it was told. It waits for whoever tells
// it something. After an error it is asked again.
func (q *records) check(ctx context.Context, host identity.ID) error {
	if _, doubt := q.doubts(host); !doubt {
		return nil
	}
	g, err := q.enter(ctx, host)
	if err != nil {
		return err
	}
	defer g.leave()
	links, doubt := q.doubts(host)
	if !doubt { // somebody else has asked
		return nil
	}
	q.mu.Lock()
	told := maps.Clone(g.told)
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	known, said, err := q.list(ctx, host)
	if err != nil {
		return err
	}
	if !said {
		clear(told)
	}
	for _, agent := range known {
		delete(told, agent)
	}
	for agent, record := range told {
		if record != "" {
			if err := q.note(ctx, host, g, agent, "", false); err != nil {
				return err
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g.sure = links // where it has come and gone meanwhile it is asked again
	return nil
}

// catchUp tells a host all records that have changed, and those that it has forgotten.
func (q *records) catchUp(ctx context.Context, host identity.ID) error {
	mute := q.check(ctx, host)
	if mute != nil && mute != errMute {
		return mute
	}
	q.mu.Lock()
	agents := slices.Collect(maps.Keys(q.guests(host).told))
	q.mu.Unlock()
	for _, agent := range agents {
		if err := q.update(ctx, host, agent); err != nil {
			return err
		}
	}
	return mute
}

// drop forgets a host that is trusted no more. It waits for whoever tells it something.
func (q *records) drop(ctx context.Context, host identity.ID) error {
	g, err := q.enter(ctx, host)
	if err != nil {
		return err
	}
	defer g.leave()
	if err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDropGuests(tx, host) }); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count -= len(g.told)
	delete(q.hosts, host)
	return nil
}

// known returns the hosts that know agents of here.
func (q *records) known() []identity.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.hosts))
}

// tell is the [tell] of a carrier.
func (c *Carrier) tell(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error) {
	if record == "" {
		return true, nil
	}
	status, answer, err := c.ask(ctx, 512, host, openintent.Daemon, http.MethodPut, api+"agents/"+url.PathEscape(agent)+"/record", []byte(record))
	if err == nil && status >= 300 {
		c.log.Debug("a host took no record", "host", host.Label(), "agent", agent, "status", status, "answer", string(answer))
	}
	return err == nil && status < 300, err
}

// listRecords is the [list] of a carrier.
func (c *Carrier) listRecords(ctx context.Context, host identity.ID) (agents []string, said bool, err error) {
	status, answer, err := c.ask(ctx, maxStrangers, host, openintent.Daemon, http.MethodGet, api+"records", nil)
	switch {
	case err != nil:
		return nil, false, err
	case status == http.StatusNotFound:
		return nil, false, nil
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return nil, false, kinds.Errorf(kinds.Overloaded, "it answered with status %d when it was asked which agents it knows: try again", status).WithDelivered(kinds.DeliveredNo)
	case status >= 500:
		return nil, false, fmt.Errorf("it answered with status %d when it was asked which agents it knows", status)
	case status != http.StatusOK:
		return nil, false, errMute
	}
	var known struct {
		Agents []string `json:"agents"`
	}
	if json.Unmarshal(answer, &known) != nil {
		return nil, false, errMute
	}
	return known.Agents, true, nil
}
