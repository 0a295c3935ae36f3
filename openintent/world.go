package openintent

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// load makes the world from the store, once, when the Engine begins. It is a write, so
// that nothing changes meanwhile.
func (e *Engine) load(ctx context.Context) error {
	return e.db.Write(ctx, false, func(stx *store.Tx) error {
		at := now()
		w := world{
			self: e.cfg.Self, intents: make(map[string]*intent), channels: make(map[string]*channel), agents: make(map[agentKey]*agent), roles: make(map[string]map[agentKey]bool), homes: make(map[string]int),
			tasks: make(map[string]*task), coords: make(map[string]*coordinator), guests: make(map[string]made), leavers: make(map[string]leaver), records: make(map[string]int64), listed: make(map[string]map[string]int), onDisk: make(map[string]int64),
		}
		if err := w.read(stx, at); err != nil {
			return err
		}
		var last int64
		if err := stx.QueryRow(`SELECT max((SELECT coalesce(max(seq), 0) FROM openintent_message), (SELECT coalesce(max(seq), 0) FROM openintent_event),
			(SELECT coalesce(max(seq), 0) FROM openintent_relayed), (SELECT coalesce(max(last), 0) FROM openintent_feed))`).Scan(&last); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.world = w
		e.next, e.settled = last+1, last
		e.holdShares()
		for _, ch := range w.channels {
			e.setAlarm(ch)
		}
		return nil
	})
}

func (w *world) read(stx *store.Tx, at chain.Time) error {
	byRow := make(map[int64]*intent)
	channels := make(map[int64]*channel)
	var failed error
	each := func(query string, row func(scan func(...any) error) error, args ...any) error {
		if failed == nil { // what comes later builds on what was read before
			failed = stx.Each(query, row, args...)
		}
		return failed
	}
	return cmp.Or(
		each(`SELECT i.row, i.id, i.doc ->> 'created_by', i.doc ->> 'status', i.doc ->> 'version', i.access, coalesce(v.sequence, 0), coalesce(v.doc ->> 'event_hash', ''), i.doc ->> 'updated_at' FROM openintent_intent i
			LEFT JOIN openintent_event v ON v.intent = i.row AND v.sequence = (SELECT max(sequence) FROM openintent_event WHERE intent = i.row)`,
			func(scan func(...any) error) error {
				in := newIntent()
				var access []byte
				var changed string
				if err := scan(&in.row, &in.id, &in.creator, &in.status, &in.version, &access, &in.sequence, &in.hash, &changed); err != nil {
					return err
				}
				if in.terminal() { // and nothing changes it any more
					var err error
					if in.ended, err = chain.ParseTime(changed); err != nil {
						return err
					}
				}
				if err := json.Unmarshal(access, &in.access); err != nil {
					return err
				}
				in.grants = in.index()
				w.reserve(in, in.granted(), 1)
				w.intents[in.id], byRow[in.row] = in, in
				w.rows = max(w.rows, in.row)
				return nil
			}),
		each("SELECT intent, home, id, at FROM openintent_used", func(scan func(...any) error) error {
			var row int64
			var k agentKey
			var at chain.Time
			err := scan(&row, &k.home, &k.id, &at)
			if err == nil {
				byRow[row].use(k, at)
			}
			return err
		}),
		each("SELECT intent, home, bytes, events FROM openintent_share WHERE intent > 0", func(scan func(...any) error) error {
			var row int64
			var home string
			var s share
			if err := scan(&row, &home, &s.bytes, &s.events); err != nil {
				return err
			}
			w.addShare(byRow[row], home, s)
			return nil
		}),
		each("SELECT doc FROM openintent_agent", func(scan func(...any) error) error {
			var doc Agent
			if err := scanDoc(scan, &doc); err != nil {
				return err
			}
			a := &agent{}
			a.seen.Store(int64(at))
			w.addAgent(a, doc)
			return nil
		}),
		each("SELECT doc, intent FROM openintent_task ORDER BY id", func(scan func(...any) error) error {
			k := &task{doc: new(Task)}
			var row int64
			if err := scanDoc(scan, k.doc, &row); err != nil {
				return err
			}
			k.in = byRow[row]
			k.in.tasks = append(k.in.tasks, k)
			w.tasks[k.doc.ID] = k
			w.count(k.doc.Home, 0, 1, 0)
			w.count(k.doc.payer(), 0, 0, k.doc.size())
			return nil
		}),
		each("SELECT doc, intent FROM openintent_coordinator ORDER BY id", func(scan func(...any) error) error {
			co := &coordinator{}
			var row int64
			if err := scanDoc(scan, &co.doc, &row); err != nil {
				return err
			}
			co.in = byRow[row]
			co.in.coords = append(co.in.coords, co)
			w.reserve(co.in, []agentKey{{co.doc.Home, co.doc.AgentID}}, 1)
			w.coords[co.doc.ID] = co
			return nil
		}),
		each(`SELECT c.doc, c.row, c.intent, coalesce(m.number, 0), coalesce(m.at, 0), CASE WHEN m.sender = 'system' THEN
				coalesce((SELECT at FROM openintent_message WHERE channel = c.row AND sender <> 'system' ORDER BY number DESC LIMIT 1), 0) ELSE coalesce(m.at, 0) END
			FROM openintent_channel c LEFT JOIN openintent_message m ON m.channel = c.row AND m.number = (SELECT max(number) FROM openintent_message WHERE channel = c.row)
			WHERE c.row NOT IN (SELECT channel FROM openintent_grave) ORDER BY c.row`,
			func(scan func(...any) error) error {
				ch := &channel{}
				var row int64
				if err := scanDoc(scan, &ch.doc, &ch.row, &row, &ch.count, &ch.last, &ch.used); err != nil {
					return err
				}
				var err error
				if ch.opt, err = parseOptions(ch.doc.Options); err != nil {
					return err
				}
				if ch.count > 0 {
					ch.dropped = at
				}
				ch.in = byRow[row]
				if ch.over = ch.in.ended; ch.doc.TaskID != nil {
					if k := w.tasks[*ch.doc.TaskID]; k != nil && k.in == ch.in && taskOver(k.doc.Status) && (ch.over == 0 || k.doc.CompletedAt < ch.over) {
						ch.over = k.doc.CompletedAt
					}
				}
				ch.in.channels = append(ch.in.channels, ch)
				w.enlist(ch, 1)
				ch.id = ch.doc.ID
				w.channels[ch.id], channels[ch.row] = ch, ch
				w.count(ch.doc.Home, 1, 0, ch.doc.size())
				w.rows = max(w.rows, ch.row)
				return nil
			}),
		each("SELECT home, count(*) FROM openintent_sent WHERE home <> '' GROUP BY home", func(scan func(...any) error) error {
			var home string
			var keys int
			err := scan(&home, &keys)
			n := w.guests[home]
			n.keys = keys
			w.guests[home] = n
			return err
		}),
		each("SELECT doc, name FROM openintent_leaver", func(scan func(...any) error) error {
			var l leaver
			var name string
			err := scanDoc(scan, &l, &name)
			l.number = w.departs()
			w.leavers[name] = l
			return err
		}),
		each("SELECT g.channel, coalesce(c.doc ->> '$.home', '') FROM openintent_grave g JOIN openintent_channel c ON c.row = g.channel", func(scan func(...any) error) error {
			var g grave
			err := scan(&g.row, &g.home)
			w.graves = append(w.graves, g)
			w.rows = max(w.rows, g.row)
			return err
		}),
		each("SELECT "+messageColumns+", channel FROM openintent_message WHERE kind = 'request' AND answered = 0 AND deadline > ?", func(scan func(...any) error) error {
			var row int64
			m, err := scanMessage(stx, scan, &row)
			if err != nil {
				return err
			}
			if m.ch = channels[row]; m.ch == nil || !m.ch.isOpen(at) {
				return nil
			}
			if m.ch.open == nil {
				m.ch.open = make(map[string]*message)
			}
			m.ch.open[m.id] = m.light()
			return nil
		}, int64(at)))
}
