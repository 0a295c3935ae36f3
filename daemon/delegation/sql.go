package delegation

import (
	"database/sql"
	"errors"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/store"
)

func readDelegations(tx *store.Tx) ([]*Delegation, error) {
	return store.ReadRows(tx, `SELECT row, direction, peer, id, hash, state, agent, thread, hops, trace, reports, created, deadline, partials, owed, final_id,
		ack IS NOT NULL, holder, from_agent, questions, to_agent, bytes, parent, guessed FROM daemon_task ORDER BY row`, func(scan func(...any) error) (*Delegation, error) {
		t := new(Delegation)
		var created, deadline int64
		err := scan(&t.Row, &t.Direction, store.Blob(t.Peer[:]), store.Blob(t.ID[:]), store.Blob(t.Content[:]), &t.state, &t.Agent,
			&t.Chain.Thread, &t.Chain.Hops, &t.Chain.Trace, &t.Reports, &created, &deadline, &t.partials, &t.owed,
			store.Blob(t.finalID[:]), &t.acked, store.Blob(t.KeyHash[:]), &t.FromAgent, &t.asked, &t.ToAgent, &t.Bytes, store.Blob(t.Parent[:]), &t.Guessed)
		t.Created, t.Deadline = store.FromMillis(created), store.FromMillis(deadline)
		return t, err
	})
}

// insertDelegation inserts an entry. It replaces one with the same peer and id that was just
// dropped from memory and is about to be deleted here. Rows are never used twice, so that
// deletion does not remove the new entry.
func insertDelegation(tx *store.Tx, t *Delegation, text string) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO daemon_task (row, direction, peer, id, hash, state, agent, thread, hops, trace, reports, created, deadline, task, holder, from_agent, to_agent, bytes, parent, guessed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.Row, t.Direction, t.Peer[:], t.ID[:], t.Content[:], client.TaskSent, t.Agent, t.Chain.Thread, t.Chain.Hops, t.Chain.Trace, t.Reports,
		store.Millis(t.Created), store.Millis(t.Deadline), client.ClipText(text, client.MaxBeginning), t.KeyHash[:], t.FromAgent, t.ToAgent, t.Bytes, t.Parent[:], t.Guessed)
	return err
}

// An ack, or a change between sent, unknown and refused, never undoes an end that was
// written meanwhile.

func updateDelegationAck(tx *store.Tx, row int64, state client.TaskState, ack []byte) error {
	_, err := tx.Exec("UPDATE daemon_task SET ack = ?, state = CASE WHEN state IN ('sent', 'unknown', 'refused') THEN ? ELSE state END WHERE row = ?", ack, state, row)
	return err
}

func updateDelegationState(tx *store.Tx, row int64, state client.TaskState) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = ? WHERE row = ? AND state IN ('sent', 'unknown', 'refused')", state, row)
	return err
}

func updateDelegationRefusal(tx *store.Tx, row int64, why string) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = 'refused', outcome = ? WHERE row = ? AND state IN ('sent', 'unknown')", client.ClipText(why, client.MaxBeginning), row)
	return err
}

func insertDelegationPartial(tx *store.Tx, row int64, p Partial) error {
	_, err := tx.Exec(`UPDATE daemon_task SET partials = partials + 1, partial = ?, progress = coalesce(?, progress), message = coalesce(nullif(?, ''), message),
		state = CASE WHEN state IN ('sent', 'unknown') THEN 'accepted' ELSE state END WHERE row = ?`, []byte(p.Payload.Object()), p.Progress, p.Message, row)
	return err
}

// updateDelegationEnd writes the end of a delegation, unless its time was over while that waited to be
// written.
func updateDelegationEnd(tx *store.Tx, row int64, e Ending) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = ?, outcome = ?, final_id = ?, final = ?, owed = ? WHERE row = ? AND state <> 'expired'",
		e.State, client.ClipText(e.Outcome, client.MaxBeginning), e.ID[:], []byte(e.Payload), e.owed, row)
	if err != nil {
		return err
	}
	return deleteQuestions(tx, row)
}

func updateDelegationKeyHash(tx *store.Tx, row int64, holder registry.KeyHash) error {
	_, err := tx.Exec("UPDATE daemon_task SET holder = ? WHERE row = ?", holder[:], row)
	return err
}

func markEndReported(tx *store.Tx, row int64) error {
	_, err := tx.Exec("UPDATE daemon_task SET owed = 0 WHERE row = ?", row)
	return err
}

func deleteDelegation(tx *store.Tx, row int64) error {
	if _, err := tx.Exec("DELETE FROM daemon_task WHERE row = ?", row); err != nil {
		return err
	}
	return deleteQuestions(tx, row)
}

// readDelegationTexts fills in what is on disk only.
func readDelegationTexts(tx *store.Tx, row int64, t *client.Task, payloads bool) error {
	var progress *float64
	var message string
	var hasResult bool
	err := tx.QueryRow("SELECT task, outcome, progress, message, coalesce(length(final), 0) > 0 FROM daemon_task WHERE row = ?", row).
		Scan(&t.Task, &t.Outcome, &progress, &message, &hasResult)
	if !hasResult {
		t.Progress, t.Message = progress, message
	}
	if err != nil || !payloads {
		return err
	}
	column, into := "partial", &t.Partial
	if hasResult { // both may be too long for one line
		column, into = "final", &t.Result
	}
	return tx.QueryRow("SELECT "+column+" FROM daemon_task WHERE row = ?", row).Scan((*[]byte)(into))
}

// readTaskText returns the beginning of what is to be done, "" while that is being written.
func readTaskText(tx *store.Tx, row int64) (text string, err error) {
	err = tx.QueryRow("SELECT task FROM daemon_task WHERE row = ?", row).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return text, err
}
