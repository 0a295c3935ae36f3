package remote

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	maxIntroduced = 10_000           // agents that are known at hosts, all hosts together
	recordTime    = 10 * time.Second // in which a host must take a record
	recordEvery   = 30 * time.Second // between looks for changed records: an agent that falls silent tells nobody
)

// introductions tells hosts the records of the agents that come to them: with an agent's first
// request, and whenever its record changes. What a host was told is on disk, so that the host
// hears of an agent's end, too, however long it was away. A host that has come into reach is asked
// which agents it knows, and is told again what it has forgotten. It may have forgotten them
// because it did not trust this daemon for a while.
type introductions struct {
	db          *store.DB
	log         *slog.Logger
	recordOf    func(agent string) (record string, ended bool) // as hosts are to know it; "" for none
	putRecord   putRecordFunc
	readRecords readRecordsFunc // nil: hosts forget nothing, in tests
	wake        pace.Signal     // records may differ from what was told

	mu    sync.Mutex // guards the rest
	hosts map[identity.ID]*hostRecords
	count int
}

// putRecordFunc tells a host the record of an agent. It is no error if the host does not take the
// record: the host says why when the agent wants something of it.
type putRecordFunc func(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error)

// readRecordsFunc returns the agents of this daemon of which a host has records. said is false if
// the host's version is too old to say that. The error is errNoRecords if the host could say it
// and does not.
type readRecordsFunc func(ctx context.Context, host identity.ID) (agents []string, said bool, err error)

// hostRecords holds the records that a host was told, by the ids of their agents.
type hostRecords struct {
	reachChanges int           // how often the host came into reach, or left it; introductions.mu guards this and the next
	checkedAt    int           // reachChanges when the host last said which agents it knows; after more of them it may have forgotten some
	turn         chan struct{} // holds one while somebody tells the host something, so that nobody tells an outdated record
	told         map[string]string
}

// errNoRecords says that a host does not say which agents it knows. It refuses to, and will say why
// when an agent wants something of it; or its answer is no list.
var errNoRecords = ownwords.New("it does not say which agents it knows")

func openIntroductions(ctx context.Context, db *store.DB, log *slog.Logger, recordOf func(string) (string, bool), putRecord putRecordFunc, readRecords readRecordsFunc) (*introductions, error) {
	q := &introductions{db: db, log: log, recordOf: recordOf, putRecord: putRecord, readRecords: readRecords, wake: pace.NewSignal(), hosts: make(map[identity.ID]*hostRecords)}
	err := db.Read(ctx, func(tx *store.Tx) error {
		return sqlReadToldAgentRecords(tx, func(host identity.ID, agent, record string) {
			h := q.findOrAddHost(host)
			h.told[agent], h.reachChanges = record, 1
			q.count++
		})
	})
	q.wake.Set()
	return q, err
}

// findOrAddHost returns the records that a host was told. The caller holds q.mu.
func (q *introductions) findOrAddHost(host identity.ID) *hostRecords {
	h := q.hosts[host]
	if h == nil {
		h = &hostRecords{turn: make(chan struct{}, 1), told: make(map[string]string)}
		q.hosts[host] = h
	}
	return h
}

// acquireTurn waits for the turn to tell a host something; releaseTurn gives it back.
func (q *introductions) acquireTurn(ctx context.Context, host identity.ID) (*hostRecords, error) {
	for {
		q.mu.Lock()
		h := q.findOrAddHost(host)
		q.mu.Unlock()
		select {
		case h.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		q.mu.Lock()
		dropped := q.hosts[host] != h
		q.mu.Unlock()
		if !dropped {
			return h, nil
		}
		h.releaseTurn() // the host was forgotten meanwhile: take a turn with its new records
	}
}

func (h *hostRecords) releaseTurn() { <-h.turn }

// introduceAgent makes sure that the host has the agent's record as it is now, even if the host was
// out of reach and may have forgotten it. It waits for other calls that tell the host something.
func (q *introductions) introduceAgent(ctx context.Context, host identity.ID, agent string) error {
	if err := q.clearForgottenRecords(ctx, host); err != nil && err != errNoRecords {
		return err
	}
	return q.sendRecordIfChanged(ctx, host, agent)
}

// sendRecordIfChanged tells a host the record of an agent, unless the host was told that record before.
func (q *introductions) sendRecordIfChanged(ctx context.Context, host identity.ID, agent string) error {
	record, _ := q.recordOf(agent)
	q.mu.Lock()
	told, known := q.findOrAddHost(host).told[agent]
	q.mu.Unlock()
	if known && told == record {
		return nil
	}
	h, err := q.acquireTurn(ctx, host)
	if err != nil {
		return err
	}
	defer h.releaseTurn()
	record, ended := q.recordOf(agent)
	q.mu.Lock()
	told, known = h.told[agent]
	room := q.count < maxIntroduced // without room the host does not hear of changes
	q.mu.Unlock()
	if !known && room { // before the host hears of the agent, so that it hears of the agent's end
		if err := q.saveToldRecord(ctx, host, h, agent, "", false); err != nil {
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
	return q.saveToldRecord(ctx, host, h, agent, record, ended)
}

// saveToldRecord stores the record that a host was told of an agent. Of an agent that has ended
// it drops the record.
func (q *introductions) saveToldRecord(ctx context.Context, host identity.ID, h *hostRecords, agent, record string, ended bool) error {
	err := q.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
		if ended {
			return sqlDeleteToldAgentRecord(tx, host, agent)
		}
		return sqlSaveToldAgentRecord(tx, host, agent, record)
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count -= len(h.told)
	if h.told[agent] = record; ended {
		delete(h.told, agent)
	}
	q.count += len(h.told)
	return nil
}

// run tells the hosts in reach what has changed, until ctx ends.
func (q *introductions) run(ctx context.Context, reach func() []identity.ID) {
	runHostWorkers(ctx, recordEvery, q.wake, func(bool) []identity.ID { return reach() }, func(host identity.ID) {
		if err := q.sendChangedRecords(ctx, host); err != nil && ctx.Err() == nil {
			q.log.Debug("a host does not know all agents as they are", "host", host.Label(), "err", err)
		}
	})
}

// recordReachChange notes that a host has come into reach, or has left it. The host may forget what it
// was told.
func (q *introductions) recordReachChange(host identity.ID) {
	q.mu.Lock()
	if h := q.hosts[host]; h != nil {
		h.reachChanges++
	}
	q.mu.Unlock()
	q.wake.Set()
}

// mayHaveForgotten reports whether a host may have forgotten what it was told. changes is how often
// the host came into reach, or left it, until now.
func (q *introductions) mayHaveForgotten(host identity.ID) (changes int, doubt bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.findOrAddHost(host)
	return h.reachChanges, q.readRecords != nil && h.checkedAt != h.reachChanges
}

// clearForgottenRecords asks a host that may have forgotten records which agents it knows, and stores that
// the host was told nothing of the others. It waits for other calls that tell the host something.
func (q *introductions) clearForgottenRecords(ctx context.Context, host identity.ID) error {
	if _, doubt := q.mayHaveForgotten(host); !doubt {
		return nil
	}
	h, err := q.acquireTurn(ctx, host)
	if err != nil {
		return err
	}
	defer h.releaseTurn()
	changes, doubt := q.mayHaveForgotten(host)
	if !doubt { // somebody else has asked
		return nil
	}
	q.mu.Lock()
	told := maps.Clone(h.told)
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
			if err := q.saveToldRecord(ctx, host, h, agent, "", false); err != nil {
				return err
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	h.checkedAt = changes // a host that has come and gone meanwhile is asked again
	return nil
}

// sendChangedRecords tells a host all records that have changed, and those that the host has forgotten.
func (q *introductions) sendChangedRecords(ctx context.Context, host identity.ID) error {
	mute := q.clearForgottenRecords(ctx, host)
	if mute != nil && mute != errNoRecords {
		return mute
	}
	q.mu.Lock()
	agents := slices.Collect(maps.Keys(q.findOrAddHost(host).told))
	q.mu.Unlock()
	for _, agent := range agents {
		if err := q.sendRecordIfChanged(ctx, host, agent); err != nil {
			return err
		}
	}
	return mute
}

// deleteHost forgets a host that is no longer trusted. It waits for calls that tell the host
// something.
func (q *introductions) deleteHost(ctx context.Context, host identity.ID) error {
	h, err := q.acquireTurn(ctx, host)
	if err != nil {
		return err
	}
	defer h.releaseTurn()
	if err := q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDeleteHostRecords(tx, host) }); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count -= len(h.told)
	delete(q.hosts, host)
	return nil
}

// listHosts returns the hosts that were told records of agents here.
func (q *introductions) listHosts() []identity.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.hosts))
}

// putAgentRecord implements putRecordFunc.
func (g *Gateway) putAgentRecord(ctx context.Context, host identity.ID, agent, record string) (taken bool, err error) {
	if record == "" {
		return true, nil
	}
	status, _, err := g.fetchFromHost(ctx, 512, nil, host, openintent.Daemon, http.MethodPut, apiPath+"agents/"+url.PathEscape(agent)+"/record", []byte(record))
	if err == nil && status >= 300 {
		g.log.Debug("a host took no record", "host", host.Label(), "agent", agent, "status", status)
	}
	return err == nil && status < 300, err
}

// fetchRecordedAgents implements readRecordsFunc.
func (g *Gateway) fetchRecordedAgents(ctx context.Context, host identity.ID) (agents []string, said bool, err error) {
	status, answer, err := g.fetchFromHost(ctx, maxIDList, nil, host, openintent.Daemon, http.MethodGet, apiPath+"records", nil)
	switch {
	case err != nil:
		return nil, false, err
	case status == http.StatusNotFound:
		return nil, false, nil
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return nil, false, kinds.Errorf(kinds.Overloaded, "it answered with status %d when it was asked which agents it knows: try again", status).WithDelivered(kinds.DeliveredNo)
	case status >= 500:
		return nil, false, ownwords.Errorf("it answered with status %d when it was asked which agents it knows", status)
	case status != http.StatusOK:
		return nil, false, errNoRecords
	}
	var known openintent.ListOf
	if json.Unmarshal(answer, &known) != nil {
		return nil, false, errNoRecords
	}
	return known.Agents, true, nil
}
