package files

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// record is what the store has of a file that came, or comes.
type record struct {
	key
	row       int64
	name      string // made clean, see cleanName
	size      uint64
	hash      [32]byte
	agent     string // for which it is; "": any
	fromAgent string
	ref       wire.MessageID
	thread    string
	text      string
	whole     bool // its bytes are there, and have its hash
	reported  bool // an agent, or the inbox, has the entry for it
	takenBy   string
	since     time.Time
	until     time.Time // when it is removed
}

const columns = "row, peer, id, name, size, hash, agent, from_agent, ref, thread, text, whole, reported, taken_by, since, until"

func scanRecord(scan func(...any) error) (*record, error) {
	r := new(record)
	var since, until int64
	err := scan(&r.row, store.Blob(r.peer[:]), store.Blob(r.id[:]), &r.name, &r.size, store.Blob(r.hash[:]), &r.agent, &r.fromAgent, store.Blob(r.ref[:]), &r.thread, &r.text,
		&r.whole, &r.reported, &r.takenBy, &since, &until)
	r.since, r.until = store.FromMillis(since), store.FromMillis(until)
	return r, err
}

// newRecord returns the record of an offer.
func newRecord(from identity.ID, f *wire.FileRequest, now time.Time) *record {
	return &record{
		key: key{from, f.ID}, name: cleanName(f.Name), size: f.Size, hash: f.Hash, agent: f.Agent, fromAgent: f.FromAgent, ref: f.Ref, thread: f.Thread, text: f.Text,
		since: now, until: now.Add(unfinishedFor),
	}
}

func (s *Service) readRecord(ctx context.Context, k key) (*record, error) {
	return store.ReadValue(ctx, s.DB, func(tx *store.Tx) (*record, error) {
		r, err := scanRecord(tx.QueryRow("SELECT "+columns+" FROM daemon_file WHERE peer = ? AND id = ?", k.peer[:], k.id[:]).Scan)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		return r, err
	})
}

// errEnough ends a read.
var errEnough = ownwords.New("enough rows")

// readRecords returns the records behind a row that are wanted, in the order of their rows, until enough, which may
// be nil, returns true.
func (s *Service) readRecords(ctx context.Context, after int64, wanted func(*record) bool, enough func() bool) ([]*record, error) {
	return store.ReadValue(ctx, s.DB, func(tx *store.Tx) (all []*record, err error) {
		err = tx.EachRow("SELECT "+columns+" FROM daemon_file WHERE row > ? ORDER BY row", func(scan func(...any) error) error {
			r, err := scanRecord(scan)
			if err != nil || !wanted(r) {
				return err
			}
			all = append(all, r)
			if enough != nil && enough() {
				return errEnough
			}
			return nil
		}, after)
		if errors.Is(err, errEnough) {
			err = nil
		}
		return all, err
	})
}

// readRecordsByID returns the records of an id that are wanted.
func (s *Service) readRecordsByID(ctx context.Context, id wire.MessageID, wanted func(*record) bool) ([]*record, error) {
	return s.readRecords(ctx, 0, func(r *record) bool { return r.id == id && wanted(r) }, nil)
}

func (s *Service) insertRecord(ctx context.Context, r *record) error {
	return s.DB.Write(ctx, false, func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO daemon_file (peer, id, name, size, hash, agent, from_agent, ref, thread, text, since, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			r.peer[:], r.id[:], r.name, r.size, r.hash[:], r.agent, r.fromAgent, r.ref[:], r.thread, r.text, store.Millis(r.since), store.Millis(r.until))
		return err
	})
}

// updateRecord writes what changes of a record.
func (s *Service) updateRecord(ctx context.Context, durable bool, r *record) error {
	return s.DB.Write(ctx, durable, func(tx *store.Tx) error {
		_, err := tx.Exec("UPDATE daemon_file SET whole = ?, reported = ?, until = ? WHERE peer = ? AND id = ?", r.whole, r.reported, store.Millis(r.until), r.peer[:], r.id[:])
		return err
	})
}

// takeRecord records that an agent takes a file, and reports whether no other has.
func (s *Service) takeRecord(ctx context.Context, k key, agent string) (taken bool, err error) {
	err = s.DB.Write(ctx, true, func(tx *store.Tx) error {
		changed, err := tx.Exec("UPDATE daemon_file SET taken_by = ? WHERE peer = ? AND id = ? AND (taken_by IN ('', ?) OR agent = ?)", agent, k.peer[:], k.id[:], agent, agent)
		if err != nil {
			return err
		}
		n, err := changed.RowsAffected()
		taken = n > 0
		return err
	})
	return taken, err
}

func (s *Service) deleteRecord(ctx context.Context, k key) error {
	return s.DB.Write(ctx, true, func(tx *store.Tx) error {
		_, err := tx.Exec("DELETE FROM daemon_file WHERE peer = ? AND id = ?", k.peer[:], k.id[:])
		return err
	})
}

// sumUp returns what decides whether the owner is asked about a file of a peer: how many files of it there are, the
// bytes of those that came since a time, how many are not whole, and whether the owner has said always.
func (s *Service) sumUp(ctx context.Context, peer identity.ID, since time.Time) (files, bytes, unfinished int64, always bool, err error) {
	err = s.DB.Read(ctx, func(tx *store.Tx) error {
		err := tx.QueryRow("SELECT count(*), coalesce(sum(CASE WHEN since >= ? THEN size END), 0), coalesce(sum(NOT whole), 0) FROM daemon_file WHERE peer = ?", store.Millis(since), peer[:]).Scan(&files, &bytes, &unfinished)
		if err != nil {
			return err
		}
		return tx.QueryRow("SELECT EXISTS (SELECT 1 FROM daemon_file_always WHERE peer = ?)", peer[:]).Scan(&always)
	})
	return files, bytes, unfinished, always, err
}

// setAlways records whether files of a peer are taken without a question.
func (s *Service) setAlways(ctx context.Context, peer identity.ID, always bool) error {
	query := "DELETE FROM daemon_file_always WHERE peer = ?"
	if always {
		query = "INSERT OR IGNORE INTO daemon_file_always (peer) VALUES (?)"
	}
	return s.DB.Write(ctx, true, func(tx *store.Tx) error {
		_, err := tx.Exec(query, peer[:])
		return err
	})
}

// ListSenders returns the peers of which something is stored.
func (s *Service) ListSenders(ctx context.Context) ([]identity.ID, error) {
	return store.ReadValue(ctx, s.DB, func(tx *store.Tx) ([]identity.ID, error) {
		return store.ReadRows(tx, "SELECT peer FROM daemon_file UNION SELECT peer FROM daemon_file_always", func(scan func(...any) error) (id identity.ID, err error) {
			err = scan(store.Blob(id[:]))
			return id, err
		})
	})
}

func formatRow(row int64) string { return strconv.FormatInt(row, 10) }

// parseRow reads what formatRow has written.
func parseRow(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	row, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, kinds.Errorf(kinds.Invalid, "files: after: %.40q: expected next of the answer before", text)
	}
	return row, nil
}

// describeOffer returns a file that waits for the owner as the local API has it.
func (r *record) describeOffer() client.File {
	return client.File{
		ID: r.id, Direction: client.In, Peer: r.peer, Agent: r.agent, FromAgent: r.fromAgent, Name: r.name, Size: r.size, SHA256: formatHash(r.hash), Text: r.text, Ref: r.ref, Thread: r.thread,
		State: client.FileAsked, Since: r.since.UTC(),
	}
}
