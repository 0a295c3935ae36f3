package daemon

import (
	"database/sql"
	"errors"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// readUDPPort returns the UDP port that was chosen when 7117 was taken, "" if none was.
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

// readPeerAddrs returns where peers were last connected.
func readPeerAddrs(tx *store.Tx) (map[identity.ID]lastConnection, error) {
	all := make(map[identity.ID]lastConnection)
	return all, tx.EachRow("SELECT peer, addr FROM daemon_addr", func(scan func(...any) error) error {
		var id identity.ID
		var s lastConnection
		err := scan(store.Blob(id[:]), &s.addr)
		all[id] = s
		return err
	})
}

// writePeerAddr sets the address of a peer; "" removes it.
func writePeerAddr(tx *store.Tx, id identity.ID, addr string) error {
	if addr == "" {
		_, err := tx.Exec("DELETE FROM daemon_addr WHERE peer = ?", id[:])
		return err
	}
	_, err := tx.Exec("INSERT INTO daemon_addr (peer, addr) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET addr = excluded.addr", id[:], addr)
	return err
}
