package waking

import (
	"time"

	"github.com/acpd/acpd/store"
)

func readCharges(tx *store.Tx, since time.Time) ([]*charge, error) {
	return store.ReadRows(tx, "SELECT agent, peer, message, cause, at, sent FROM daemon_turn WHERE at > ? ORDER BY at", func(scan func(...any) error) (*charge, error) {
		c := new(charge)
		var at int64
		err := scan(&c.agent, store.Blob(c.peer[:]), store.Blob(c.message[:]), store.Blob(c.cause[:]), &at, &c.sent)
		c.at = store.FromMillis(at)
		return c, err
	}, store.Millis(since))
}

// insertCharge inserts a charge, and deletes those that have expired.
func insertCharge(tx *store.Tx, c *charge, since time.Time) error {
	if _, err := tx.Exec("DELETE FROM daemon_turn WHERE at <= ?", store.Millis(since)); err != nil {
		return err
	}
	_, err := tx.Exec("INSERT OR REPLACE INTO daemon_turn (agent, peer, message, cause, at, sent) VALUES (?, ?, ?, ?, ?, ?)", c.agent, c.peer[:], c.message[:], c.cause[:], store.Millis(c.at), c.sent)
	return err
}

func deleteCharge(tx *store.Tx, c *charge) error {
	_, err := tx.Exec("DELETE FROM daemon_turn WHERE agent = ? AND peer = ? AND message = ? AND sent = ?", c.agent, c.peer[:], c.message[:], c.sent)
	return err
}

func hasChargesOf(tx *store.Tx, peer []byte) (has bool, err error) {
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM daemon_turn WHERE cause = ?)", peer).Scan(&has)
	return has, err
}

func deleteChargesOf(tx *store.Tx, peer []byte) error {
	_, err := tx.Exec("DELETE FROM daemon_turn WHERE cause = ?", peer)
	return err
}
