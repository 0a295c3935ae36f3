package kept

import (
	"context"
	"database/sql"
	"errors"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

func readMessages(tx *store.Tx) ([]*message, error) {
	return store.ReadRows(tx, `SELECT row, id, peer, name, kind, agent, by_name, by_key, text, size, hash, since, until, end_id, state, tries, last_error, outcome, ended, told
		FROM daemon_kept ORDER BY row`, func(scan func(...any) error) (*message, error) {
		m := new(message)
		var since, until, ended int64
		err := scan(&m.row, store.Blob(m.id[:]), store.Blob(m.peer[:]), &m.name, &m.kind, &m.agent, &m.by.Name, store.Blob(m.by.KeyHash[:]), &m.text, &m.size,
			store.Blob(m.content[:]), &since, &until, store.Blob(m.endID[:]), &m.state, &m.tries, &m.lastError, &m.outcome, &ended, &m.told)
		m.since, m.until, m.ended = store.FromMillis(since), store.FromMillis(until), store.FromMillis(ended)
		return m, err
	})
}

func insertMessage(tx *store.Tx, m *message, envelope []byte) error {
	_, err := tx.Exec(`INSERT INTO daemon_kept (row, id, peer, name, kind, agent, by_name, by_key, text, size, hash, since, until, end_id, state, tries, last_error, envelope)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, m.row, m.id[:], m.peer[:], m.name, m.kind, m.agent, m.by.Name, m.by.KeyHash[:], m.text, m.size,
		m.content[:], store.Millis(m.since), store.Millis(m.until), m.endID[:], m.state, m.tries, m.lastError, envelope)
	return err
}

// updateSending writes that a message is about to be sent.
func updateSending(tx *store.Tx, m *message) error {
	_, err := tx.Exec("UPDATE daemon_kept SET state = ? WHERE row = ?", client.TaskSent, m.row)
	return err
}

// updateTries writes that a try has failed: the message in row sent, which may be 0, is not being sent any more.
func updateTries(tx *store.Tx, r recipient, sent int64, lastError string) error {
	_, err := tx.Exec("UPDATE daemon_kept SET state = ?, tries = tries + 1, last_error = ? WHERE ended = 0 AND peer = ? AND agent = ? AND (state = ? OR row = ?)",
		client.TaskKept, lastError, r.peer[:], r.agent, client.TaskKept, sent)
	return err
}

// updateEnd writes the end of a message. The envelope that reports the end replaces that of the message.
func updateEnd(tx *store.Tx, row int64, m *message) error {
	_, err := tx.Exec("UPDATE daemon_kept SET state = ?, outcome = ?, size = ?, ended = ?, told = ?, envelope = ? WHERE row = ?", m.state, m.outcome, m.size, store.Millis(m.ended), m.told, m.unwritten, row)
	return err
}

func updateTold(tx *store.Tx, row int64) error {
	_, err := tx.Exec("UPDATE daemon_kept SET told = 1 WHERE row = ?", row)
	return err
}

func deleteMessage(tx *store.Tx, row int64) error {
	_, err := tx.Exec("DELETE FROM daemon_kept WHERE row = ?", row)
	return err
}

// readEnvelope returns the envelope of a message or, if it has ended, the one that reports its end. It returns nil if
// the message is not here any more.
func (s *Service) readEnvelope(ctx context.Context, m *message) (*wire.Envelope, error) {
	s.mu.Lock()
	unwritten := m.unwritten
	s.mu.Unlock()
	if unwritten != nil {
		return wire.ParseEnvelope(unwritten)
	}
	text, err := store.ReadValue(ctx, s.DB, func(tx *store.Tx) (text []byte, err error) {
		err = tx.QueryRow("SELECT envelope FROM daemon_kept WHERE row = ?", m.row).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return text, err
	})
	if err != nil || text == nil {
		return nil, err
	}
	return wire.ParseEnvelope(text)
}

// write changes the table, also if the caller goes away meanwhile.
func (s *Service) write(ctx context.Context, durable bool, fn func(*store.Tx) error) error {
	return s.DB.Write(context.WithoutCancel(ctx), durable, fn)
}
