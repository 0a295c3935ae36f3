package daemon

import (
	"database/sql"
	"errors"

	"github.com/acpd/acpd/store"
)

// readUDPPort returns the UDP port that was stored because 7117 was taken, or "".
func readUDPPort(tx *store.Tx) (port string, err error) {
	err = tx.QueryRow("SELECT value FROM daemon_setting WHERE name = 'port'").Scan(&port)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return port, err
}

func writeUDPPort(tx *store.Tx, port string) error {
	_, err := tx.Exec("INSERT INTO daemon_setting (name, value) VALUES ('port', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", port)
	return err
}
