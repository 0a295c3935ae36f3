package openintent

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/store"
)

// load makes the world from the store, in a write, so that nothing changes
// meanwhile. Who waits is woken and looks again.
func (e *Engine) load(ctx context.Context) error {
	return e.db.Write(ctx, false, func(stx *store.Tx) error {
		at := now()
		w := world{
			intents: make(map[string]*intent), channels: make(map[string]*channel), agents: make(map[agentKey]*agent),
			tasks: make(map[string]*task), coords: make(map[string]*coordinator), guests: make(map[string]made),
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
		old := e.world
		e.world, e.alarms, e.memory, e.bytes = w, nil, nil, 0
		e.next = max(e.next, last+1)
		if old.channels == nil {
			e.settled = e.next - 1
		}
		for _, ch := range w.channels {
			e.setAlarm(ch)
		}
		for _, ch := range old.channels {
			ch.bell.ring()
			for _, a := range ch.asks {
				a.bell.ring()
			}
		}
		return nil
	})
}

func (w *world) read(stx *store.Tx, at stamp) error {
	byRow := make(map[int64]*intent)
	channels := make(map[int64]*channel)
	return errors.Join(
		stx.Each(`SELECT i.row, i.id, i.doc ->> 'created_by', i.doc ->> 'status', i.doc ->> 'version', i.access, coalesce(v.sequence, 0), coalesce(v.doc ->> 'event_hash', '') FROM openintent_intent i
			LEFT JOIN openintent_event v ON v.intent = i.row AND v.sequence = (SELECT max(sequence) FROM openintent_event WHERE intent = i.row)`,
			func(scan func(...any) error) error {
				in := &intent{access: newAccess()}
				var access []byte
				if err := scan(&in.row, &in.id, &in.creator, &in.status, &in.version, &access, &in.sequence, &in.hash); err != nil {
					return err
				}
				if err := json.Unmarshal(access, &in.access); err != nil {
					return err
				}
				w.intents[in.id], byRow[in.row] = in, in
				w.rows = max(w.rows, in.row)
				return nil
			}),
		stx.Each("SELECT doc FROM openintent_agent", func(scan func(...any) error) error {
			a := &agent{}
			if err := scanDoc(scan, &a.doc); err != nil {
				return err
			}
			a.seen.Store(int64(at))
			w.agents[agentKey{a.doc.Host, a.doc.AgentID}] = a
			return nil
		}),
		stx.Each("SELECT doc, intent FROM openintent_task ORDER BY id", func(scan func(...any) error) error {
			k := &task{}
			var row int64
			if err := scanDoc(scan, &k.doc, &row); err != nil {
				return err
			}
			k.in = byRow[row]
			k.in.tasks = append(k.in.tasks, k)
			w.tasks[k.doc.ID] = k
			w.count(k.doc.Home, 0, 1)
			return nil
		}),
		stx.Each("SELECT doc, intent FROM openintent_coordinator ORDER BY id", func(scan func(...any) error) error {
			co := &coordinator{}
			var row int64
			if err := scanDoc(scan, &co.doc, &row); err != nil {
				return err
			}
			co.in = byRow[row]
			co.in.coords = append(co.in.coords, co)
			w.coords[co.doc.ID] = co
			return nil
		}),
		stx.Each(`SELECT c.doc, c.row, c.intent, coalesce(m.number, 0), coalesce(m.at, 0), CASE WHEN m.sender = 'system' THEN
				coalesce((SELECT at FROM openintent_message WHERE channel = c.row AND sender <> 'system' ORDER BY number DESC LIMIT 1), 0) ELSE coalesce(m.at, 0) END
			FROM openintent_channel c LEFT JOIN openintent_message m ON m.channel = c.row AND m.number = (SELECT max(number) FROM openintent_message WHERE channel = c.row)
			ORDER BY c.row`,
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
				ch.in.channels = append(ch.in.channels, ch)
				ch.id = ch.doc.ID
				w.channels[ch.id], channels[ch.row] = ch, ch
				w.count(ch.doc.Home, 1, 0)
				w.rows = max(w.rows, ch.row)
				return nil
			}),
		stx.Each("SELECT "+messageColumns+", channel FROM openintent_message WHERE kind = 'request' AND answered = 0 AND deadline > ?", func(scan func(...any) error) error {
			var row int64
			m, err := scanMessage(stx, scan, &row)
			if err != nil {
				return err
			}
			m.ch = channels[row]
			if m.ch.open == nil {
				m.ch.open = make(map[string]*message)
			}
			m.ch.open[m.id] = m.light()
			return nil
		}, int64(at)))
}
