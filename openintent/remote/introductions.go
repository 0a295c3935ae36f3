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
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	maxGuests   = 10_000           // agents that are known at hosts, all hosts together
	recordTime  = 10 * time.Second // for a host to take a record
	recordEvery = 30 * time.Second // an agent that falls silent changes its record by itself
)

// introductions tells hosts who the agents are that come to them: with an agent's first
// request, and whenever its record changes. What a host was told is on disk, so that
// it hears of the end of an agent, too, however long it was away. A host that has come into
// reach is asked what it knows, and told again what it has forgotten: it may have trusted
// this daemon no more for a while.
type introductions struct {
	db          *store.DB
	log         *slog.Logger
	recordOf    func(agent string) (record string, ended bool) // as hosts are to know it; "" for none
	putRecord   putRecordFunc
	readRecords readRecordsFunc // nil: hosts forget nothing
	wake        pace.Signal     // records may differ from what was told

	mu    sync.Mutex // guards the rest
	hosts map[identity.ID]*hostGuests
	count int
}

// putRecordFunc tells a host the record of an agent. If the host did not take it, for now
// or for good, that is no error: the host says why when the agent wants something of it.
type putRecordFunc func(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error)

// readRecordsFunc returns the agents of this daemon of which a host has records. said is false
// if the host is of an earlier version, which does not say. The error is errNoRecords if the
// host could say it and does not.
type readRecordsFunc func(ctx context.Context, host identity.ID) (agents []string, said bool, err error)

// hostGuests are the agents that a host knows, with the records that it was told.
type hostGuests struct {
	reachChanges int           // how often the host came into reach, or went; introductions.mu guards this and the next
	checkedAt    int           // reachChanges when it last said what it knows; if there were more since, it may have forgotten some
	turn         chan struct{} // holds one while somebody tells, so that nobody tells what is outdated
	told         map[string]string
}

// errNoRecords is the error of a host that does not say whom it knows: it refuses to, and will say
// why to whatever an agent wants of it, or what it says is no list.
var errNoRecords = errors.New("it does not say which agents it knows")

func openIntroductions(ctx context.Context, db *store.DB, log *slog.Logger, recordOf func(string) (string, bool), putRecord putRecordFunc, readRecords readRecordsFunc) (*introductions, error) {
	q := &introductions{db: db, log: log, recordOf: recordOf, putRecord: putRecord, readRecords: readRecords, wake: pace.NewSignal(), hosts: make(map[identity.ID]*hostGuests)}
	err := db.Read(ctx, func(tx *store.Tx) error {
		return sqlGuests(tx, func(host identity.ID, agent, record string) {
			g := q.guestsAt(host)
			g.told[agent], g.reachChanges = record, 1
			q.count++
		})
	})
	q.wake.Set()
	return q, err
}

// guestsAt returns the agents that a host knows. The lock is held, or nobody else is there.
func (q *introductions) guestsAt(host identity.ID) *hostGuests {
	g := q.hosts[host]
	if g == nil {
		g = &hostGuests{turn: make(chan struct{}, 1), told: make(map[string]string)}
		q.hosts[host] = g
	}
	return g
}

// takeTurn waits for the turn to tell a host; leave gives it back.
func (q *introductions) takeTurn(ctx context.Context, host identity.ID) (*hostGuests, error) {
	for {
		q.mu.Lock()
		g := q.guestsAt(host)
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
		g.endTurn() // it was forgotten meanwhile: what is told now counts anew
	}
}

func (g *hostGuests) endTurn() { <-g.turn }

// introduceAgent makes sure that the host knows the agent as it is now, also where it has been out
// of reach and may have forgotten it. It waits for whoever tells the host something else.
func (q *introductions) introduceAgent(ctx context.Context, host identity.ID, agent string) error {
	if err := q.findForgotten(ctx, host); err != nil && err != errNoRecords {
		return err
	}
	return q.tellRecord(ctx, host, agent)
}

// tellRecord is introduce to a host that has forgotten nothing.
func (q *introductions) tellRecord(ctx context.Context, host identity.ID, agent string) error {
	record, _ := q.recordOf(agent)
	q.mu.Lock()
	told, known := q.guestsAt(host).told[agent]
	q.mu.Unlock()
	if known && told == record {
		return nil
	}
	g, err := q.takeTurn(ctx, host)
	if err != nil {
		return err
	}
	defer g.endTurn()
	record, ended := q.recordOf(agent)
	q.mu.Lock()
	told, known = g.told[agent]
	room := q.count < maxGuests // beyond, hosts do not hear of changes
	q.mu.Unlock()
	if !known && room { // before it hears of the agent, so that it hears of its end
		if err := q.rememberTold(ctx, host, g, agent, "", false); err != nil {
			return err
		}
	}
	if told == record {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	taken, err := q.putRecord(ctx, host, agent, record)
	if err != nil || !taken || !known && !room {
		return err
	}
	return q.rememberTold(ctx, host, g, agent, record, ended)
}

// rememberTold remembers what a host was told of an agent, and nothing of one that has ended.
func (q *introductions) rememberTold(ctx context.Context, host identity.ID, g *hostGuests, agent, record string, ended bool) error {
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
func (q *introductions) run(ctx context.Context, reach func() []identity.ID) {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	workers := newHostWorkers(func(host identity.ID) {
		if err := q.tellChanges(ctx, host); err != nil && ctx.Err() == nil {
			q.log.Debug("a host does not know all agents as they are", "host", host.Label(), "err", err)
		}
	})
	defer workers.waitAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-tick.C:
		}
		for _, host := range reach() {
			workers.start(host)
		}
	}
}

// noteReachChange says that a host has come into reach, or has gone: it may forget what it was told.
func (q *introductions) noteReachChange(host identity.ID) {
	q.mu.Lock()
	if g := q.hosts[host]; g != nil {
		g.reachChanges++
	}
	q.mu.Unlock()
	q.wake.Set()
}

// mayHaveForgotten reports whether a host may have forgotten what it was told, and how often it came
// and went until now.
func (q *introductions) mayHaveForgotten(host identity.ID) (links int, doubt bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.guestsAt(host)
	return g.reachChanges, q.readRecords != nil && g.checkedAt != g.reachChanges
}

// findForgotten finds out what a host has forgotten of what it was told. It waits for whoever tells
// it something. After an error it is asked again.
func (q *introductions) findForgotten(ctx context.Context, host identity.ID) error {
	if _, doubt := q.mayHaveForgotten(host); !doubt {
		return nil
	}
	g, err := q.takeTurn(ctx, host)
	if err != nil {
		return err
	}
	defer g.endTurn()
	links, doubt := q.mayHaveForgotten(host)
	if !doubt { // somebody else has asked
		return nil
	}
	q.mu.Lock()
	told := maps.Clone(g.told)
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	known, said, err := q.readRecords(ctx, host)
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
			if err := q.rememberTold(ctx, host, g, agent, "", false); err != nil {
				return err
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g.checkedAt = links // where it has come and gone meanwhile it is asked again
	return nil
}

// tellChanges tells a host all records that have changed, and those that it has forgotten.
func (q *introductions) tellChanges(ctx context.Context, host identity.ID) error {
	mute := q.findForgotten(ctx, host)
	if mute != nil && mute != errNoRecords {
		return mute
	}
	q.mu.Lock()
	agents := slices.Collect(maps.Keys(q.guestsAt(host).told))
	q.mu.Unlock()
	for _, agent := range agents {
		if err := q.tellRecord(ctx, host, agent); err != nil {
			return err
		}
	}
	return mute
}

// forgetHost forgets a host that is trusted no more. It waits for whoever tells it something.
func (q *introductions) forgetHost(ctx context.Context, host identity.ID) error {
	g, err := q.takeTurn(ctx, host)
	if err != nil {
		return err
	}
	defer g.endTurn()
	if err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDropGuests(tx, host) }); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count -= len(g.told)
	delete(q.hosts, host)
	return nil
}

// knownHosts returns the hosts that know agents of here.
func (q *introductions) knownHosts() []identity.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.hosts))
}

// putRecord implements putRecordFunc.
func (g *Gateway) putRecord(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error) {
	if record == "" {
		return true, nil
	}
	status, answer, err := g.askHost(ctx, 512, host, openintent.Daemon, http.MethodPut, apiPath+"agents/"+url.PathEscape(agent)+"/record", []byte(record))
	if err == nil && status >= 300 {
		g.log.Debug("a host took no record", "host", host.Label(), "agent", agent, "status", status, "answer", string(answer))
	}
	return err == nil && status < 300, err
}

// readRecords implements readRecordsFunc.
func (g *Gateway) readRecords(ctx context.Context, host identity.ID) (agents []string, said bool, err error) {
	status, answer, err := g.askHost(ctx, maxStrangers, host, openintent.Daemon, http.MethodGet, apiPath+"records", nil)
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
		return nil, false, errNoRecords
	}
	var known struct {
		Agents []string `json:"agents"`
	}
	if json.Unmarshal(answer, &known) != nil {
		return nil, false, errNoRecords
	}
	return known.Agents, true, nil
}
