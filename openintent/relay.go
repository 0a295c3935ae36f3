package openintent

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// A home follows each host of its agents by one stream, subscribe/home, and hands the entries to
// the streams of its own agents. Relayed entries have a number in the home's own feed and are
// kept in its store, so that these streams resume as all others do.

// relayedEntry is a message or an event of another host, as subscribe/home tells it.
type relayedEntry struct {
	Event     string         `json:"event"` // kindMessage, or the type of an event
	IntentID  string         `json:"intent_id"`
	ChannelID string         `json:"channel_id,omitzero"` // of a message
	For       []string       `json:"for"`                 // agents of the home that see it
	Own       []string       `json:"own"`                 // those of them on whose own streams it is shown
	Data      jsontext.Value `json:"data"`

	payer identity.ID  // the host
	late  bool         // there was no room for it: it does not wait behind other entries
	waits atomic.Int32 // readers here that it waits for, and one while it is handed to them
}

const (
	maxRelayed  = 512 << 10 // bytes of an entry in a stream; a longer one goes without its payload
	relayHead   = 1 << 10   // of these, for the names of its lines
	keepRelayed = 5_000     // entries that are kept for agents that resume, of each host
	relayStep   = 64        // entries more than that, after which the oldest are removed

	relayRate  = 1000        // entries a second of one host; the rest waits in its stream
	cursorTime = time.Second // how long a place in a host's feed may stay unwritten
	followTime = 3 * time.Second
)

// newRelayedEntry makes the entry that the home of s is told, and returns false if the entry
// concerns none of its agents.
func (e *Engine) newRelayedEntry(s *subscriber, n *feedEntry, at chain.Time) (*relayedEntry, bool) {
	if n.in == nil {
		return nil, false // a relayed entry is not relayed again
	}
	r := &relayedEntry{IntentID: n.in.id, For: []string{}, Own: []string{}}
	if n.message != nil {
		r.Event, r.ChannelID = kindMessage, n.message.ch.id
	} else {
		r.Event = n.event.Type
	}
	tell := func(agent string) {
		who := e.fillCallerName(Caller{Agent: agent, Home: s.who.Home})
		if e.streamShowsEntry(&subscriber{who: who, intent: r.IntentID}, n, at) {
			r.For = append(r.For, agent)
		}
		if e.streamShowsEntry(&subscriber{who: who, agent: true}, n, at) {
			r.Own = append(r.Own, agent)
		}
	}
	for agent := range n.in.used[s.who.Home] {
		tell(agent)
	}
	for _, a := range n.in.Assignments { // agents that are assigned and have not used the intent
		if k := (agentKey{a.Home, a.AgentID}); k.home == s.who.Home && !n.in.wasUsedBy(k) {
			tell(k.id)
		}
	}
	if m := n.message; m != nil { // recipients that have not used the intent
		for _, name := range append([]string{m.to}, m.recipients...) {
			if k := e.agentKeyOf(name); k.home == s.who.Home && !n.in.wasUsedBy(k) && n.in.assignmentIndex(k) < 0 {
				tell(k.id)
			}
		}
	}
	if len(r.For)+len(r.Own) == 0 {
		return nil, false
	}
	slices.Sort(r.For)
	slices.Sort(r.Own)
	if n.message != nil {
		r.Data = n.message.appendJSON(nil, n.message.to, at, true) // a message to one agent is seen by that agent alone
	} else {
		r.Data = appendEventData(nil, n.event)
	}
	return r, true
}

// checkRelayedBy refuses an entry that the host must not tell.
func (r *relayedEntry) checkRelayedBy(host string) error {
	if !isIDMadeBy(host, r.IntentID) {
		return fmt.Errorf("openintent: relay: %s sent an event of an intent that is not its own", host)
	}
	if !isEventType(r.Event) || r.Data.Kind() != '{' || jsonscan.IsNestedDeeper(r.Data, 2*MaxDepth) || len(r.For) > 10*maxEntries || len(r.Own) > 10*maxEntries {
		return fmt.Errorf("openintent: relay: %s tells what is no event", host)
	}
	var said struct {
		Intent  string `json:"intent_id"`
		Channel string `json:"channel_id"`
	}
	if err := json.Unmarshal(r.Data, &said); err != nil {
		return fmt.Errorf("openintent: relay: %s: %w", host, err)
	}
	isMessage := r.Event == kindMessage
	if said.Intent != r.IntentID || isMessage && (said.Channel != r.ChannelID || !isIDMadeBy(host, said.Channel)) {
		return fmt.Errorf("openintent: relay: %s sent an event that is not its own: intent %.80q, channel %.80q", host, said.Intent, said.Channel)
	}
	return r.Data.Compact()
}

// isIDMadeBy reports whether the daemon with these digits has made an id.
func isIDMadeBy(host, id string) bool {
	maker, ok := HostOfID(id)
	return ok && maker == host
}

// concernsStream reports whether a stream of an agent here shows the entry.
func (r *relayedEntry) concernsStream(s *subscriber) bool {
	isMessage := r.Event == kindMessage
	switch {
	case s.who.Home != "" || isMessage && s.quiet:
		return false
	case s.agent:
		return slices.Contains(r.Own, s.who.Agent)
	}
	return s.intent == r.IntentID && (s.channel == "" || isMessage && s.channel == r.ChannelID) && (s.who.Operator || slices.Contains(r.For, s.who.Agent))
}

// FollowHost calls Config.Follow, if there is one.
func (e *Engine) FollowHost(host string) {
	if e.cfg.Follow != nil {
		e.cfg.Follow(host, false)
	}
}

// FollowHostBriefly follows a host, or all, for a stream that should miss nothing from its start. It
// waits for them for a few seconds at most.
func (e *Engine) FollowHostBriefly(ctx context.Context, host string) {
	if e.cfg.Follow == nil {
		return
	}
	timer := time.NewTimer(followTime)
	defer timer.Stop()
	for _, t := range e.cfg.Follow(host, true) {
		select {
		case <-t:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-e.done:
			return
		}
	}
}

// ReadStreamCursor returns the Last-Event-ID for the next request for the host's subscribe/home,
// "" for none.
func (e *Engine) ReadStreamCursor(ctx context.Context, host string) (cursor string, err error) {
	err = e.db.Read(ctx, func(stx *store.Tx) error {
		return stx.QueryRow("SELECT cursor FROM openintent_relayed WHERE host = ? ORDER BY seq DESC LIMIT 1", host).Scan(&cursor)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return cursor, err
}

// ReceiveHostStream reads the body of the subscribe/home of the host with that id, requested by this
// daemon as the agent [Daemon], and hands its entries to the streams of the agents here. Once the
// place in the host's feed is kept for the first time, it calls begun, unless that is nil. It
// blocks until the stream ends, and returns an error if the host tells what it must not.
func (e *Engine) ReceiveHostStream(ctx context.Context, host string, stream io.Reader, begun func()) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 4096), maxRelayed)
	var r *relayedEntry
	var rate relayPace
	home, payer := host, peerAccountKey(host)
	host = host[:HostDigits]
	turn, err := e.forgets.beginStream(host)
	if err != nil {
		return err
	}
	cursor, saved := int64(-1), int64(-1) // the place in the host's feed, and the one that is written
	var savedAt time.Time
	markSaved := func() {
		if saved < 0 && begun != nil {
			begun()
		}
		saved, savedAt = cursor, time.Now()
	}
	defer func() {
		if cursor != saved {
			e.saveStreamCursor(context.WithoutCancel(ctx), turn, cursor)
		}
	}()
	kept, err := e.readStoredRelays(ctx, host)
	if err != nil {
		return err
	}
	setAccountHolding(e.relayed, payer, int64(kept.bytes))
	for lines.Scan() {
		line := lines.Bytes()
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if err := rate.awaitNext(ctx); err != nil {
				return err
			}
			r = &relayedEntry{payer: payer}
			if err := json.Unmarshal(data, r); err != nil {
				return fmt.Errorf("openintent: relay: %s: %w", host, err)
			}
			if err := r.checkRelayedBy(host); err != nil {
				return err
			}
		}
		id, ok := bytes.CutPrefix(line, []byte("id: "))
		if !ok {
			continue
		}
		at, err := strconv.ParseInt(string(id), 10, 64)
		if err != nil || at < 0 {
			return fmt.Errorf("openintent: relay: %s numbers an entry %q", host, id)
		}
		if r == nil || len(r.For)+len(r.Own) == 0 { // a place in the host's feed without an entry for agents here
			r = nil
			cursor = at
			if err := rate.awaitNext(ctx); err != nil {
				return err
			}
			if time.Since(savedAt) < cursorTime {
				continue
			}
			if err := e.saveStreamCursor(ctx, turn, cursor); err != nil {
				return err
			}
			markSaved()
			continue
		}
		n := feedEntry{relayed: r}
		doc := encodeJSONText(r)
		r = nil
		full := e.relayed.Reserve(payer, int64(len(doc))) != nil
		gone := kept.countSurplus(full)
		low := e.CheckDiskRoom(home) != nil
		if low { // the kept entries get no larger
			gone = min(max(gone, 1), len(kept.list))
		}
		if low || full && len(kept.list) == 0 {
			doc = encodeJSONText(&relayedEntry{}) // streams that resume miss it
		}
		if err := e.runTransaction(ctx, false, func(t *tx) error {
			if err := e.forgets.checkStream(turn); err != nil {
				return err
			}
			n.seq = t.nextFeedNumber()
			t.out = append(t.out, n)
			if err := t.insertRelayedEntry(n.seq, host, at, doc); err != nil || gone == 0 {
				return err
			}
			return t.deleteRelayedUpTo(host, kept.list[gone-1].seq)
		}); err != nil {
			setAccountHolding(e.relayed, payer, int64(kept.bytes))
			return err
		}
		kept.dropOldest(gone)
		kept.addEntry(n.seq, len(doc))
		setAccountHolding(e.relayed, payer, int64(kept.bytes))
		cursor = at
		markSaved()
	}
	return lines.Err()
}

// storedRelays are the entries that are kept of a host, the oldest first.
type storedRelays struct {
	list  []storedRelay
	bytes int // of them
}

// storedRelay is the number and length of an entry that is kept.
type storedRelay struct {
	seq   int64
	bytes int
}

// addEntry adds an entry with a number and so many bytes.
func (k *storedRelays) addEntry(seq int64, bytes int) {
	k.list = append(k.list, storedRelay{seq, bytes})
	k.bytes += bytes
}

// dropOldest removes the n oldest entries.
func (k *storedRelays) dropOldest(n int) {
	for _, gone := range k.list[:n] {
		k.bytes -= gone.bytes
	}
	k.list = k.list[n:]
}

// countSurplus returns how many of the oldest entries the next write removes. It is none while
// there are hardly more than are kept, and at most a slice. If there is no room, it is a slice.
func (k *storedRelays) countSurplus(full bool) (n int) {
	if !full && len(k.list) < keepRelayed+relayStep {
		return 0
	}
	for size := 0; n < min(sliceRows, len(k.list)) && size < sliceBytes && (full || len(k.list)-n >= keepRelayed); n++ {
		size += k.list[n].bytes
	}
	return n
}

// relayPace lets relayRate things happen in a second.
type relayPace struct {
	began time.Time
	n     int
}

// awaitNext waits until one more thing may happen, or returns the error of ctx.
func (p *relayPace) awaitNext(ctx context.Context) error {
	if since := time.Since(p.began); since >= time.Second {
		p.began, p.n = time.Now(), 0
	} else if p.n >= relayRate {
		if err := pace.Sleep(ctx, time.Second-since); err != nil {
			return err
		}
		p.began, p.n = time.Now(), 0
	}
	p.n++
	return nil
}

// insertRelayedEntry stores an entry of another host, and the entry's place in the host's feed.
func (t *tx) insertRelayedEntry(seq int64, host string, cursor int64, doc string) error {
	return t.execute("INSERT INTO openintent_relayed (seq, host, cursor, doc) VALUES (?, ?, ?, ?)", seq, host, cursor, doc)
}

// deleteRelayedUpTo removes the entries of a host up to one.
func (t *tx) deleteRelayedUpTo(host string, upTo int64) error {
	return t.execute("DELETE FROM openintent_relayed WHERE host = ? AND seq <= ?", host, upTo)
}

// readStoredRelays reads the numbers and lengths of the entries that are kept of a host.
func (e *Engine) readStoredRelays(ctx context.Context, host string) (kept storedRelays, err error) {
	after := int64(0)
	for all := false; !all && err == nil; {
		err = e.readWithQuota(ctx, func(stx *store.Tx, l *readQuota) (err error) {
			all, err = eachRowWhile(stx, "SELECT seq, octet_length(doc) FROM openintent_relayed WHERE host = ? AND seq > ? ORDER BY seq", func(scan func(...any) error) (more bool, err error) {
				var bytes int
				if err := scan(&after, &bytes); err != nil {
					return false, err
				}
				kept.addEntry(after, bytes)
				return l.spend(1, 0), nil
			}, host, after)
			return err
		})
	}
	return kept, err
}

// saveStreamCursor writes the place of a stream in its host's feed to the host's last entry, or
// to an empty one if there is none.
func (e *Engine) saveStreamCursor(ctx context.Context, turn relayTurn, cursor int64) error {
	host := turn.host
	return e.runTransaction(ctx, false, func(t *tx) error {
		if err := e.forgets.checkStream(turn); err != nil {
			return err
		}
		done, err := t.Exec("UPDATE openintent_relayed SET cursor = ?1 WHERE seq = (SELECT max(seq) FROM openintent_relayed WHERE host = ?2)", cursor, host)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); n > 0 || err != nil {
			return err
		}
		return t.insertRelayedEntry(t.nextFeedNumber(), host, cursor, encodeJSONText(&relayedEntry{}))
	})
}

// ListFollowedHosts returns the digits of the hosts of which relayed entries are kept.
func (e *Engine) ListFollowedHosts(ctx context.Context) (hosts []string, err error) {
	err = e.db.Read(ctx, func(stx *store.Tx) error {
		return stx.EachRow("SELECT DISTINCT host FROM openintent_relayed", func(scan func(...any) error) error {
			var host string
			err := scan(&host)
			hosts = append(hosts, host)
			return err
		})
	})
	return hosts, err
}
