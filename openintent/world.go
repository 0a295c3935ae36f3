package openintent

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// world holds everything but messages and events.
type world struct {
	cfg           *Config
	self          string // the daemon's id
	rows          int64  // the highest row number of intents and channels
	intents       map[string]*intentRecord
	channels      map[string]*channelRecord
	guests        map[string]guestCounts    // counts of what agents have created, by their home
	listed        map[string]map[string]int // agents of other daemons that are members: home -> id -> in how many channels
	onDisk        map[string]int64          // bytes that agents of other daemons have written, by their home
	agents        map[agentKey]*agentRecord
	roles         map[string]map[agentKey]bool // agents that say they have a role
	records       map[string]int64             // bytes of the records of agents of each other daemon
	homes         map[string]int               // how many agents of each daemon there are
	tasks         map[string]*taskRecord
	coords        map[string]*coordinatorRecord
	leavers       map[string]departure // by their names
	departures    int64                // how many agents have been to leave
	accessChanges int64                // how often the access of intents has changed
	graves        []grave              // channels that are gone, whose messages are still in the store
}

// grave is a deleted channel that still has messages in the store.
type grave struct {
	row  int64
	home string // of the agent that had created it
}

// guestCounts has the numbers of what the agents of one daemon have created, and of the keys of
// their sends that are kept.
type guestCounts struct{ channels, tasks, keys int }

// loadWorld reads the world from the store, once, when the Engine begins. It does so in a
// write, so that nothing changes meanwhile.
func (e *Engine) loadWorld(ctx context.Context) error {
	return e.db.Write(ctx, false, func(stx *store.Tx) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.world = world{
			cfg: &e.cfg, self: e.cfg.Self, intents: make(map[string]*intentRecord), channels: make(map[string]*channelRecord), agents: make(map[agentKey]*agentRecord), roles: make(map[string]map[agentKey]bool), homes: make(map[string]int),
			tasks: make(map[string]*taskRecord), coords: make(map[string]*coordinatorRecord), guests: make(map[string]guestCounts), leavers: make(map[string]departure), records: make(map[string]int64), listed: make(map[string]map[string]int), onDisk: make(map[string]int64),
		}
		t := &tx{Tx: stx, e: e, now: now(), loading: true}
		if err := t.fillWorldFromStore(); err != nil {
			return err
		}
		for home := range e.onDisk {
			e.syncGuestAccounts(home)
		}
		for _, ch := range e.channels {
			e.alarms.set(ch)
		}
		err := stx.QueryRow(`SELECT max((SELECT coalesce(max(seq), 0) FROM openintent_message), (SELECT coalesce(max(seq), 0) FROM openintent_event),
			(SELECT coalesce(max(last), 0) FROM openintent_feed))`).Scan(&e.settled)
		e.next = e.settled + 1
		return err
	})
}

// newID makes an id of this daemon.
func (w *world) newID(prefix string, at chain.Time) string { return object.NewID(w.self, prefix, at) }

// newMessageID makes a message's id, which carries its number in its channel.
func (w *world) newMessageID(at chain.Time, number int64) string {
	return object.NewMessageID(w.self, at, number)
}

// fillWorldFromStore fills the world from the store. The world is locked.
func (t *tx) fillWorldFromStore() error {
	e, at := t.e, t.now
	byRow := make(map[int64]*intentRecord)
	channels := make(map[int64]*channelRecord)
	var failed error
	each := func(query string, row func(scan func(...any) error) error, args ...any) error {
		if failed == nil { // later queries need the rows of earlier ones
			failed = t.EachRow(query, row, args...)
		}
		return failed
	}
	return cmp.Or(
		each(`SELECT i.row, i.id, i.doc ->> 'created_by', i.doc ->> 'status', i.doc ->> 'version', i.access, coalesce(v.sequence, 0), coalesce(v.doc ->> 'event_hash', ''), i.doc ->> 'updated_at' FROM openintent_intent i
			LEFT JOIN openintent_event v ON v.intent = i.row AND v.sequence = (SELECT max(sequence) FROM openintent_event WHERE intent = i.row)`,
			func(scan func(...any) error) error {
				in := newIntentRecord()
				var access []byte
				var changed string
				if err := scan(&in.row, &in.id, &in.creator, &in.status, &in.version, &access, &in.sequence, &in.hash, &changed); err != nil {
					return err
				}
				if in.isTerminal() { // and nothing changes it any more
					var err error
					if in.ended, err = chain.ParseTime(changed); err != nil {
						return err
					}
				}
				if err := json.Unmarshal(access, &in.access); err != nil {
					return err
				}
				in.grants = in.indexGrants()
				t.adjustReservedIDs(in, in.grantees(), 1)
				e.intents[in.id], byRow[in.row] = in, in
				e.rows = max(e.rows, in.row)
				return nil
			}),
		each("SELECT intent, home, id, at FROM openintent_used", func(scan func(...any) error) error {
			var row int64
			var k agentKey
			var at chain.Time
			err := scan(&row, &k.home, &k.id, &at)
			if err == nil {
				t.setFirstUse(byRow[row], k, at)
			}
			return err
		}),
		each("SELECT intent, home, bytes, events FROM openintent_share WHERE intent > 0", func(scan func(...any) error) error {
			var row int64
			var home string
			var s diskShare
			if err := scan(&row, &home, &s.bytes, &s.events); err != nil {
				return err
			}
			t.addToShare(byRow[row], home, s)
			return nil
		}),
		each("SELECT doc FROM openintent_agent", func(scan func(...any) error) error {
			var doc object.Agent
			if err := scanDoc(scan, &doc); err != nil {
				return err
			}
			a := &agentRecord{}
			a.seen.Store(int64(at))
			t.addAgentToWorld(a, doc)
			return nil
		}),
		each("SELECT doc, intent FROM openintent_task ORDER BY id", func(scan func(...any) error) error {
			k := &taskRecord{doc: new(object.Task)}
			var row int64
			if err := scanDoc(scan, k.doc, &row); err != nil {
				return err
			}
			k.in = byRow[row]
			k.in.tasks = append(k.in.tasks, k)
			e.tasks[k.doc.ID] = k
			t.adjustCreatedCounts(k.doc.Home, 0, 1, 0)
			t.adjustCreatedCounts(k.doc.PayingHome(), 0, 0, k.doc.Size())
			return nil
		}),
		each("SELECT doc, intent FROM openintent_coordinator ORDER BY id", func(scan func(...any) error) error {
			co := &coordinatorRecord{}
			var row int64
			if err := scanDoc(scan, &co.doc, &row); err != nil {
				return err
			}
			co.in = byRow[row]
			co.in.coords = append(co.in.coords, co)
			t.adjustReservedIDs(co.in, []agentKey{{co.doc.Home, co.doc.AgentID}}, 1)
			e.coords[co.doc.ID] = co
			return nil
		}),
		each(`SELECT c.doc, c.row, c.intent, coalesce(m.number, 0), coalesce(m.at, 0), CASE WHEN m.sender = 'system' THEN
				coalesce((SELECT at FROM openintent_message WHERE channel = c.row AND sender <> 'system' ORDER BY number DESC LIMIT 1), 0) ELSE coalesce(m.at, 0) END
			FROM openintent_channel c LEFT JOIN openintent_message m ON m.channel = c.row AND m.number = (SELECT max(number) FROM openintent_message WHERE channel = c.row)
			WHERE c.row NOT IN (SELECT channel FROM openintent_grave) ORDER BY c.row`,
			func(scan func(...any) error) error {
				ch := &channelRecord{}
				var row int64
				if err := scanDoc(scan, &ch.doc, &ch.row, &row, &ch.count, &ch.last, &ch.used); err != nil {
					return err
				}
				var err error
				if ch.opt, err = object.ParseOptions(ch.doc.Options); err != nil {
					return err
				}
				if ch.count > 0 {
					ch.dropped = at
				}
				ch.in = byRow[row]
				if ch.over = ch.in.ended; ch.doc.TaskID != nil {
					if k := e.tasks[*ch.doc.TaskID]; k != nil && k.in == ch.in && object.IsTaskOver(k.doc.Status) && (ch.over == 0 || k.doc.CompletedAt < ch.over) {
						ch.over = k.doc.CompletedAt
					}
				}
				ch.in.channels = append(ch.in.channels, ch)
				t.adjustMemberCounts(ch, 1)
				ch.id = ch.doc.ID
				e.channels[ch.id], channels[ch.row] = ch, ch
				t.adjustCreatedCounts(ch.doc.Home, 1, 0, ch.doc.Size())
				e.rows = max(e.rows, ch.row)
				return nil
			}),
		each("SELECT home, count(*) FROM openintent_sent WHERE home <> '' GROUP BY home", func(scan func(...any) error) error {
			var home string
			var keys int
			err := scan(&home, &keys)
			n := e.guests[home]
			n.keys = keys
			e.guests[home] = n
			return err
		}),
		each("SELECT doc, name FROM openintent_leaver", func(scan func(...any) error) error {
			var l departure
			var name string
			err := scanDoc(scan, &l, &name)
			l.number = e.nextDepartureNumber()
			e.leavers[name] = l
			return err
		}),
		each("SELECT g.channel, coalesce(c.doc ->> '$.home', '') FROM openintent_grave g JOIN openintent_channel c ON c.row = g.channel", func(scan func(...any) error) error {
			var g grave
			err := scan(&g.row, &g.home)
			e.graves = append(e.graves, g)
			e.rows = max(e.rows, g.row)
			return err
		}),
		each("SELECT "+messageColumns+", channel FROM openintent_message WHERE kind = 'request' AND answered = 0 AND deadline > ?", func(scan func(...any) error) error {
			var row int64
			m, err := scanMessage(t.Tx, scan, &row)
			if err != nil {
				return err
			}
			if m.ch = channels[row]; m.ch == nil || !m.ch.isOpen(at) {
				return nil
			}
			if m.ch.open == nil {
				m.ch.open = make(map[string]*message)
			}
			m.ch.open[m.id] = m.withoutText()
			return nil
		}, int64(at)))
}
