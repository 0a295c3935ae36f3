package spending

import (
	"database/sql"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// amounts are what runs have cost.
type amounts struct {
	runs   uint64
	tokens uint64
	cost   Money
}

// readSpent returns what was spent for a peer on a day, with all profiles.
func readSpent(tx *store.Tx, day string, peer identity.ID) (a amounts, err error) {
	err = tx.QueryRow("SELECT coalesce(sum(runs), 0), coalesce(sum(tokens), 0), coalesce(sum(micros), 0) FROM daemon_spent WHERE day = ? AND peer = ?", day, peer[:]).
		Scan(&a.runs, &a.tokens, &a.cost)
	return a, err
}

// readCostOfAll returns what was spent for all peers on a day.
func readCostOfAll(tx *store.Tx, day string) (cost Money, err error) {
	err = tx.QueryRow("SELECT coalesce(sum(micros), 0) FROM daemon_spent WHERE day = ?", day).Scan(&cost)
	return cost, err
}

// addSpent adds to what was spent. To take back what was added before, amounts are negative.
func addSpent(tx *store.Tx, day string, peer identity.ID, profile string, runs int, cost Money, tokens int64) error {
	_, err := tx.Exec(`INSERT INTO daemon_spent (day, peer, profile, runs, micros, tokens) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, micros = micros + excluded.micros, tokens = tokens + excluded.tokens`,
		day, peer[:], profile, runs, int64(cost), tokens)
	return err
}

// deleteUnspent deletes the row of a peer and a profile if no run of it has begun.
func deleteUnspent(tx *store.Tx, day string, peer identity.ID, profile string) error {
	_, err := tx.Exec("DELETE FROM daemon_spent WHERE day = ? AND peer = ? AND profile = ? AND runs = 0 AND micros = 0 AND tokens = 0", day, peer[:], profile)
	return err
}

func insertReservation(tx *store.Tx, key [16]byte, day string, at time.Time, r Reservation) error {
	_, err := tx.Exec("INSERT INTO daemon_reserved (id, day, peer, profile, micros, tokens, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		key[:], day, r.Peer[:], r.Profile, int64(r.Cost), int64(r.Tokens), store.Millis(at))
	return err
}

// takeReservation deletes a reservation and returns it with its day. ok is false if there is
// no such reservation.
func takeReservation(tx *store.Tx, key [16]byte) (day string, r Reservation, ok bool, err error) {
	var tokens int64
	err = tx.QueryRow("DELETE FROM daemon_reserved WHERE id = ? RETURNING day, peer, profile, micros, tokens", key[:]).
		Scan(&day, store.Blob(r.Peer[:]), &r.Profile, &r.Cost, &tokens)
	if errors.Is(err, sql.ErrNoRows) {
		return "", r, false, nil
	}
	r.Tokens = uint64(tokens)
	return day, r, err == nil, err
}

// deleteOld deletes the days that are over maxDays old, and reservations that are too old or
// too many to be settled.
func deleteOld(tx *store.Tx, now time.Time) error {
	if _, err := tx.Exec("DELETE FROM daemon_spent WHERE day < ?", now.AddDate(0, 0, 1-maxDays).Format(time.DateOnly)); err != nil {
		return err
	}
	if _, err := tx.Exec("DELETE FROM daemon_reserved WHERE at < ?", store.Millis(now.Add(-openFor))); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM daemon_reserved WHERE id IN (SELECT id FROM daemon_reserved ORDER BY at DESC LIMIT -1 OFFSET ?)", maxOpen-1)
	return err
}

// readSpentSince returns what was spent on a day and later.
func readSpentSince(tx *store.Tx, day string) ([]client.SpentRow, error) {
	return store.ReadRows(tx, "SELECT day, peer, profile, runs, tokens, micros FROM daemon_spent WHERE day >= ? ORDER BY day DESC, peer, profile LIMIT 10000",
		func(scan func(...any) error) (r client.SpentRow, err error) {
			var cost Money
			err = scan(&r.Day, store.Blob(r.Peer[:]), &r.Profile, &r.Runs, &r.Tokens, &cost)
			r.Cost = cost.Dollars()
			return r, err
		}, day)
}

// hasSpent reports whether a run was reserved for a peer in the last maxDays.
func hasSpent(tx *store.Tx, peer identity.ID) (has bool, err error) {
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM daemon_spent WHERE peer = ?)", peer[:]).Scan(&has)
	return has, err
}

// readUntrusts returns how often a peer was untrusted.
func readUntrusts(tx *store.Tx, peer identity.ID) (n uint64, err error) {
	err = tx.QueryRow("SELECT count FROM daemon_untrusts WHERE peer = ?", peer[:]).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

func addUntrust(tx *store.Tx, peer identity.ID) error {
	_, err := tx.Exec("INSERT INTO daemon_untrusts (peer, count) VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1", peer[:])
	return err
}
