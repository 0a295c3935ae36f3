package waking

import (
	"time"

	"github.com/acpd/acpd/store"
)

func readTurns(tx *store.Tx, since time.Time) ([]*turn, error) {
	return store.ReadRows(tx, "SELECT agent, peer, message, cause, at, sent FROM daemon_turn WHERE at > ? ORDER BY at", func(scan func(...any) error) (*turn, error) {
		t := new(turn)
		var at int64
		err := scan(&t.agent, store.Blob(t.peer[:]), store.Blob(t.message[:]), store.Blob(t.cause[:]), &at, &t.sent)
		t.at = store.FromMillis(at)
		return t, err
	}, store.Millis(since))
}

// insertTurn inserts a turn, and deletes those that count no more.
func insertTurn(tx *store.Tx, t *turn, since time.Time) error {
	if _, err := tx.Exec("DELETE FROM daemon_turn WHERE at <= ?", store.Millis(since)); err != nil {
		return err
	}
	_, err := tx.Exec("INSERT OR REPLACE INTO daemon_turn (agent, peer, message, cause, at, sent) VALUES (?, ?, ?, ?, ?, ?)", t.agent, t.peer[:], t.message[:], t.cause[:], store.Millis(t.at), t.sent)
	return err
}

func deleteTurn(tx *store.Tx, t *turn) error {
	_, err := tx.Exec("DELETE FROM daemon_turn WHERE agent = ? AND peer = ? AND message = ? AND sent = ?", t.agent, t.peer[:], t.message[:], t.sent)
	return err
}

func hasTurnsOf(tx *store.Tx, peer []byte) (has bool, err error) {
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM daemon_turn WHERE cause = ?)", peer).Scan(&has)
	return has, err
}

func deleteTurnsOf(tx *store.Tx, peer []byte) error {
	_, err := tx.Exec("DELETE FROM daemon_turn WHERE cause = ?", peer)
	return err
}
