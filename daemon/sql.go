package daemon

import (
	"context"
	"database/sql"
	"errors"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

const settingPort = "port" // the UDP port that was chosen when 7117 was taken

func readSetting(ctx context.Context, db *store.DB, name string) (value string, err error) {
	err = db.Read(ctx, func(tx *store.Tx) error {
		err := tx.QueryRow("SELECT value FROM daemon_setting WHERE name = ?", name).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return value, err
}

func writeSetting(ctx context.Context, db *store.DB, name, value string) error {
	return db.Write(ctx, true, func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO daemon_setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
		return err
	})
}

// Where peers were last connected.

func readAddrs(tx *store.Tx) (map[identity.ID]lastConnection, error) {
	all := make(map[identity.ID]lastConnection)
	return all, tx.Each("SELECT peer, addr FROM daemon_addr", func(scan func(...any) error) error {
		var peer []byte
		var id identity.ID
		var s lastConnection
		err := scan(&peer, &s.addr)
		copy(id[:], peer)
		all[id] = s
		return err
	})
}

// writeAddr sets the address of a peer; "" removes it.
func writeAddr(tx *store.Tx, id identity.ID, addr string) error {
	if addr == "" {
		_, err := tx.Exec("DELETE FROM daemon_addr WHERE peer = ?", id[:])
		return err
	}
	_, err := tx.Exec("INSERT INTO daemon_addr (peer, addr) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET addr = excluded.addr", id[:], addr)
	return err
}
