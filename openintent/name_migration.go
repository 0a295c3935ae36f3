package openintent

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/store"
)

// Once an id on an intent was bound to the first daemon that used it, and stood in
// messages and lists without a home.

// accessWithHomes is the access of an intent of that time.
type accessWithHomes struct {
	access
	Homes map[string]string `json:"homes,omitempty"` // id -> its home; "" is here
}

// migrateAgentNames gives the agents of other daemons their names. Those that an entry or an
// assignment names with their home keep their grants and messages under the name. For the others,
// the log says that the id is no longer theirs: grants of the id are for the agent here, and
// messages that were sent under it stay the other's.
func (e *Engine) migrateAgentNames(ctx context.Context) error {
	return e.db.Write(ctx, true, func(stx *store.Tx) error {
		type old struct {
			row int64
			id  string
			accessWithHomes
		}
		var all []old
		err := stx.EachRow("SELECT row, id, access FROM openintent_intent WHERE access -> '$.homes' IS NOT NULL", func(scan func(...any) error) error {
			in := old{accessWithHomes: accessWithHomes{access: access{Policy: "open"}}}
			var text []byte
			if err := scan(&in.row, &in.id, &text); err != nil {
				return err
			}
			err := json.Unmarshal(text, &in.accessWithHomes)
			all = append(all, in)
			return err
		})
		for i := 0; i < len(all) && err == nil; i++ {
			in := &all[i]
			in.clearOwnHome(e.cfg.Self)
			kept, gone := make(map[string]string), make(map[string]string) // id -> name
			for _, id := range slices.Sorted(maps.Keys(in.Homes)) {
				k := agentKey{in.Homes[id], id}
				name := (&world{self: e.cfg.Self}).agentNameOf(k)
				switch {
				case k.home == "":
				case slices.Contains(in.grantees(), k):
					kept[id] = name
				default:
					gone[id] = name
					e.cfg.Log.Warn("openintent: an agent id is no other daemon's any more: let an access entry with its home name the agent, if it is to take part", "intent", in.id, "agent", id, "home", k.home)
					continue
				}
				if _, err = stx.Exec("INSERT OR IGNORE INTO openintent_used (intent, home, id, at) VALUES (?, ?, ?, 1)", in.row, k.home, k.id); err != nil {
					return err
				}
			}
			if _, err = stx.Exec("UPDATE openintent_intent SET access = ? WHERE row = ?", encodeJSONText(in.access), in.row); err == nil {
				err = renameMessageAgents(stx, in.row, kept, gone)
			}
		}
		return err
	})
}

// clearOwnHome removes the daemon's own id from grants.
func (a *access) clearOwnHome(self string) {
	for i := range a.Entries {
		if a.Entries[i].Home == self {
			a.Entries[i].Home = ""
		}
	}
	for i := range a.Assignments {
		if a.Assignments[i].Home == self {
			a.Assignments[i].Home = ""
		}
	}
}

// renameMessageAgents gives names to ids in an intent's messages and grants: kept ones wherever they
// stand, gone ones as senders.
func renameMessageAgents(stx *store.Tx, intent int64, kept, gone map[string]string) error {
	if len(kept)+len(gone) == 0 {
		return nil
	}
	type change struct {
		seq        int64
		sender, to string
		recipients string
		begin      []byte // of the head, as it is to be
		from       int    // index at which the rest of the head begins
	}
	var changes []change
	err := stx.EachRow(`SELECT m.seq, m.id, c.id, m.sender, m.recipient, m.recipients FROM openintent_channel c JOIN openintent_message m ON m.channel = c.row WHERE c.intent = ?`, func(scan func(...any) error) error {
		m := &message{ch: &channelRecord{}}
		var recipients []byte
		if err := scan(&m.seq, &m.id, &m.ch.id, &m.sender, &m.to, &recipients); err != nil {
			return err
		}
		if len(recipients) > 0 {
			if err := json.Unmarshal(recipients, &m.recipients); err != nil {
				return err
			}
		}
		was := len(m.appendHeadBegin(nil, ""))
		sender, bySender := gone[m.sender]
		if !bySender {
			sender, bySender = kept[m.sender]
		}
		to, isTo := kept[m.to]
		if bySender {
			m.sender = sender
		}
		if isTo {
			m.to = to
		}
		if !replaceAgentIDs(m.recipients, kept) && !bySender && !isTo {
			return nil
		}
		c := change{seq: m.seq, sender: m.sender, to: m.to, recipients: string(recipients), begin: m.appendHeadBegin(nil, ""), from: was + 1}
		if m.recipients != nil {
			c.recipients = encodeJSONText(m.recipients)
		}
		changes = append(changes, c)
		return nil
	}, intent)
	for i := 0; i < len(changes) && err == nil; i++ {
		c := changes[i]
		_, err = stx.Exec("UPDATE openintent_message SET sender = ?, recipient = ?, recipients = ?, head = CAST(? || CAST(substr(head, ?) AS TEXT) AS BLOB) WHERE seq = ?",
			c.sender, c.to, c.recipients, string(c.begin), c.from, c.seq)
	}
	for id, name := range kept {
		if err == nil {
			_, err = stx.Exec("UPDATE openintent_receipt SET agent = ? WHERE agent = ? AND message IN (SELECT m.seq FROM openintent_channel c JOIN openintent_message m ON m.channel = c.row WHERE c.intent = ? AND m.receipts = 1)",
				name, id, intent)
		}
	}
	if err != nil {
		return err
	}
	return renameMembersAndCoordinators(stx, intent, kept)
}

// renameMembersAndCoordinators gives names to members of the intent's channels, and homes to its
// coordinators.
func renameMembersAndCoordinators(stx *store.Tx, intent int64, kept map[string]string) error {
	channels := make(map[int64]Channel)
	err := stx.EachRow("SELECT doc, row FROM openintent_channel WHERE intent = ?", func(scan func(...any) error) error {
		var doc Channel
		var row int64
		if err := scanDoc(scan, &doc, &row); err != nil {
			return err
		}
		if replaceAgentIDs(doc.Members, kept) {
			channels[row] = doc
		}
		return nil
	}, intent)
	for row, doc := range channels {
		if err == nil {
			_, err = stx.Exec("UPDATE openintent_channel SET doc = ? WHERE row = ?", encodeJSONText(doc), row)
		}
	}
	var coords []Coordinator
	if err == nil {
		err = stx.EachRow("SELECT doc FROM openintent_coordinator WHERE intent = ?", func(scan func(...any) error) error {
			var doc Coordinator
			err := scanDoc(scan, &doc)
			if name, ok := kept[doc.AgentID]; ok {
				_, doc.Home, _ = splitAgentName(name)
				coords = append(coords, doc)
			}
			return err
		}, intent)
	}
	for _, doc := range coords {
		if err == nil {
			_, err = stx.Exec("UPDATE openintent_coordinator SET doc = ? WHERE id = ?", encodeJSONText(doc), doc.ID)
		}
	}
	return err
}

// replaceAgentIDs replaces ids in a list by names, and reports whether there were any.
func replaceAgentIDs(list []string, names map[string]string) (any bool) {
	for i, id := range list {
		if name, ok := names[id]; ok {
			list[i], any = name, true
		}
	}
	return any
}
