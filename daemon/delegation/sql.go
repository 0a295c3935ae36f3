package delegation

import (
	"unicode/utf8"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/store"
)

func readDelegations(tx *store.Tx) (all []*Delegation, err error) {
	err = tx.Each(`SELECT row, direction, peer, id, hash, state, agent, thread, hops, trace, reports, created, deadline, partials, owed, final_id,
		ack IS NOT NULL, holder FROM daemon_task ORDER BY row`, func(scan func(...any) error) error {
		t := new(Delegation)
		var peer, id, hash, final, holder []byte
		var created, deadline int64
		err := scan(&t.Row, &t.Direction, &peer, &id, &hash, &t.state, &t.Agent, &t.Chain.Thread, &t.Chain.Hops, &t.Chain.Trace,
			&t.Reports, &created, &deadline, &t.partials, &t.owed, &final, &t.acked, &holder)
		copy(t.Peer[:], peer)
		copy(t.ID[:], id)
		copy(t.Content[:], hash)
		copy(t.finalID[:], final)
		copy(t.KeyHash[:], holder)
		t.Created, t.Deadline = store.FromMillis(created), store.FromMillis(deadline)
		all = append(all, t)
		return err
	})
	return all, err
}

// insertDelegation replaces an entry that was just dropped from memory and is about to be
// deleted here; rows are never used twice, so that deletes nothing of the new one.
func insertDelegation(tx *store.Tx, t *Delegation, text string) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO daemon_task (row, direction, peer, id, hash, state, agent, thread, hops, trace, reports, created, deadline, task, holder)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.Row, t.Direction, t.Peer[:], t.ID[:], t.Content[:], client.TaskSent, t.Agent, t.Chain.Thread, t.Chain.Hops, t.Chain.Trace, t.Reports,
		store.Millis(t.Created), store.Millis(t.Deadline), clipText(text), t.KeyHash[:])
	return err
}

// clipText bounds a text for [client.Task]: the whole of an outcome is in the
// payload that said it.
func clipText(text string) string {
	if len(text) <= client.MaxBeginning {
		return text
	}
	const more = "…"
	end := client.MaxBeginning - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// An ack, and a way between sent, unknown and refused, never undo an end that was
// written meanwhile.

func updateAck(tx *store.Tx, row int64, state client.TaskState, ack []byte) error {
	_, err := tx.Exec("UPDATE daemon_task SET ack = ?, state = CASE WHEN state IN ('sent', 'unknown', 'refused') THEN ? ELSE state END WHERE row = ?", ack, state, row)
	return err
}

func updateState(tx *store.Tx, row int64, state client.TaskState) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = ? WHERE row = ? AND state IN ('sent', 'unknown', 'refused')", state, row)
	return err
}

func updateRefusal(tx *store.Tx, row int64, why string) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = 'refused', outcome = ? WHERE row = ? AND state IN ('sent', 'unknown')", clipText(why), row)
	return err
}

func insertPartial(tx *store.Tx, row int64, payload []byte) error {
	_, err := tx.Exec(`UPDATE daemon_task SET partials = partials + 1, partial = ?,
		state = CASE WHEN state IN ('sent', 'unknown') THEN 'accepted' ELSE state END WHERE row = ?`, payload, row)
	return err
}

// updateEnd leaves a task alone whose time was over while its end waited to be written.
func updateEnd(tx *store.Tx, row int64, e Ending) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = ?, outcome = ?, final_id = ?, final = ?, owed = ? WHERE row = ? AND state <> 'expired'",
		e.State, clipText(e.Outcome), e.ID[:], []byte(e.Payload), e.owed, row)
	return err
}

func updateKeyHash(tx *store.Tx, row int64, holder registry.KeyHash) error {
	_, err := tx.Exec("UPDATE daemon_task SET holder = ? WHERE row = ?", holder[:], row)
	return err
}

func clearOwed(tx *store.Tx, row int64) error {
	_, err := tx.Exec("UPDATE daemon_task SET owed = 0 WHERE row = ?", row)
	return err
}

func deleteDelegation(tx *store.Tx, row int64) error {
	_, err := tx.Exec("DELETE FROM daemon_task WHERE row = ?", row)
	return err
}

func readAck(tx *store.Tx, row int64) (ack []byte, err error) {
	err = tx.QueryRow("SELECT ack FROM daemon_task WHERE row = ?", row).Scan(&ack)
	return ack, err
}

// readTexts fills in what is not kept in memory.
func readTexts(tx *store.Tx, row int64, t *client.Task, payloads bool) error {
	if !payloads {
		return tx.QueryRow("SELECT task, outcome FROM daemon_task WHERE row = ?", row).Scan(&t.Task, &t.Outcome)
	}
	var partial, final []byte
	err := tx.QueryRow("SELECT task, outcome, partial, final FROM daemon_task WHERE row = ?", row).Scan(&t.Task, &t.Outcome, &partial, &final)
	if t.Result = final; len(final) == 0 {
		t.Partial = partial // both may be too long for one line
	}
	return err
}
