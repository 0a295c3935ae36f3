package files

import (
	"context"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// record is a file that came, or comes, in the store.
type record struct {
	peer             identity.ID
	wire.FileRequest // the offer, with a name that cleanName has made
	row              uint64
	whole            bool // its bytes are there, and have its hash
	reported         bool // an agent, or the inbox, has the entry for it
	takenBy          string
	since            time.Time
	until            time.Time // when it is removed, if it is whole; see findEnd
}

func (r *record) key() key { return key{r.peer, r.ID} }

// readRecords returns the records that a condition selects.
func (s *Service) readRecords(ctx context.Context, where string, args ...any) ([]*record, error) {
	return store.ReadValue(ctx, s.DB, func(tx *store.Tx) ([]*record, error) {
		const columns = "row, peer, id, name, size, hash, agent, from_agent, ref, thread, hops, text, whole, reported, taken_by, since, until"
		return store.ReadRows(tx, "SELECT "+columns+" FROM daemon_file WHERE "+where, func(scan func(...any) error) (*record, error) {
			r := new(record)
			var since, until int64
			err := scan(&r.row, store.Blob(r.peer[:]), store.Blob(r.ID[:]), &r.Name, &r.Size, store.Blob(r.Hash[:]), &r.Agent, &r.FromAgent, store.Blob(r.Ref[:]), &r.Thread, &r.Hops, &r.Text,
				&r.whole, &r.reported, &r.takenBy, &since, &until)
			r.since, r.until = store.FromMillis(since), store.FromMillis(until)
			return r, err
		}, args...)
	})
}

// readRecord returns the record of a file, or nil.
func (s *Service) readRecord(ctx context.Context, k key) (*record, error) {
	found, err := s.readRecords(ctx, "peer = ? AND id = ?", k.peer[:], k.id[:])
	if len(found) == 0 {
		return nil, err
	}
	return found[0], err
}

// exec changes the records, and returns how many it has changed. They are on disk when it returns.
func (s *Service) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = s.DB.Write(ctx, true, func(tx *store.Tx) error {
		changed, err := tx.Exec(query, args...)
		if err != nil {
			return err
		}
		n, err = changed.RowsAffected()
		return err
	})
	return n, err
}

// admitRecord inserts the record of a file, unless it has one, or reports that the owner has to be asked first. asked
// is true if the owner has said yes. It sums up and inserts in one step, so that two offers at once count both.
func (s *Service) admitRecord(ctx context.Context, r *record, asked bool) (ask bool, err error) {
	const query = `SELECT count(*), coalesce(sum(CASE WHEN since >= ? THEN size END), 0), coalesce(sum(NOT whole), 0), EXISTS (SELECT 1 FROM daemon_file_always WHERE peer = ?)
		FROM daemon_file WHERE peer = ?`
	bound, lost := s.Config().Files.Ask, s.countLost(r.peer, 0)
	err = s.DB.Write(ctx, true, func(tx *store.Tx) error {
		var files, bytes, unfinished uint64
		var always bool
		if err := tx.QueryRow(query, store.Millis(s.Today()), r.peer[:], r.peer[:]).Scan(&files, &bytes, &unfinished, &always); err != nil {
			return err
		}
		isNew := r.row == 0
		ask = !asked && !always && (lost > bound || isNew && (files == 0 || lost+bytes+r.Size > bound))
		switch {
		case isNew && unfinished >= maxUnfinished:
			return newFullError("%d files of yours have not come whole: send one of them again under its id, or wait a day", unfinished)
		case ask || !isNew:
			return nil
		}
		_, err := tx.Exec("INSERT INTO daemon_file (peer, id, name, size, hash, agent, from_agent, ref, thread, hops, text, since, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
			r.peer[:], r.ID[:], r.Name, r.Size, r.Hash[:], r.Agent, r.FromAgent, r.Ref[:], r.Thread, r.Hops, r.Text, store.Millis(r.since))
		return err
	})
	return ask, err
}

// updateRecord writes what changes of a record, also if the sender goes away meanwhile, or if the disk is full: else
// agents would be told of the file again and again.
func (s *Service) updateRecord(ctx context.Context, r *record) error {
	return s.Space.RunWithReserve(func() error {
		_, err := s.exec(context.WithoutCancel(ctx), "UPDATE daemon_file SET whole = ?, reported = ?, until = ? WHERE peer = ? AND id = ?", r.whole, r.reported, store.Millis(r.until), r.peer[:], r.ID[:])
		return err
	})
}

// takeRecord records that an agent takes a file, also if the disk is full, and reports whether no other has.
func (s *Service) takeRecord(ctx context.Context, k key, agent string) (taken bool, err error) {
	err = s.Space.RunWithReserve(func() error {
		n, err := s.exec(ctx, "UPDATE daemon_file SET taken_by = ? WHERE peer = ? AND id = ? AND (taken_by IN ('', ?) OR agent = ?)", agent, k.peer[:], k.id[:], agent, agent)
		taken = n > 0
		return err
	})
	if err == nil && !taken {
		if r, err := s.readRecord(ctx, k); err == nil && r == nil {
			return false, kinds.Errorf(kinds.NotFound, "file.take: id: the file has been removed meanwhile: files lists those that are here")
		}
	}
	return taken, err
}

// untakeRecord takes back what takeRecord has recorded, for an agent that did not get the file.
func (s *Service) untakeRecord(ctx context.Context, k key, agent string) error {
	_, err := s.exec(ctx, "UPDATE daemon_file SET taken_by = '' WHERE peer = ? AND id = ? AND taken_by = ?", k.peer[:], k.id[:], agent)
	return err
}

// deleteRecord deletes a record, also if the disk is full, and returns how many there were.
func (s *Service) deleteRecord(ctx context.Context, k key) (n int64, err error) {
	err = s.Space.RunWithReserve(func() (err error) {
		n, err = s.exec(ctx, "DELETE FROM daemon_file WHERE peer = ? AND id = ?", k.peer[:], k.id[:])
		return err
	})
	return n, err
}

const rowsPerWrite = 64 // that are deleted: other writers wait meanwhile

// deleteSome deletes records of a peer, at most rowsPerWrite, and returns their ids and sizes.
func (s *Service) deleteSome(ctx context.Context, peer identity.ID) (gone []*record, err error) {
	const query = "DELETE FROM daemon_file WHERE row IN (SELECT row FROM daemon_file WHERE peer = ? LIMIT ?) RETURNING id, size"
	err = s.DB.Write(ctx, true, func(tx *store.Tx) (err error) {
		gone, err = store.ReadRows(tx, query, func(scan func(...any) error) (*record, error) {
			r := &record{peer: peer}
			return r, scan(store.Blob(r.ID[:]), &r.Size)
		}, peer[:], rowsPerWrite)
		return err
	})
	return gone, err
}

// setAlways records whether files of a peer are taken without a question.
func (s *Service) setAlways(ctx context.Context, peer identity.ID, always bool) error {
	query := "DELETE FROM daemon_file_always WHERE peer = ?"
	if always {
		query = "INSERT OR IGNORE INTO daemon_file_always (peer) VALUES (?)"
	}
	_, err := s.exec(ctx, query, peer[:])
	return err
}

// ListSenders returns the peers that have files here, or the owner's answer "always".
func (s *Service) ListSenders(ctx context.Context) ([]identity.ID, error) {
	return store.ReadValue(ctx, s.DB, func(tx *store.Tx) ([]identity.ID, error) {
		return store.ReadRows(tx, "SELECT peer FROM daemon_file UNION SELECT peer FROM daemon_file_always", func(scan func(...any) error) (id identity.ID, err error) {
			err = scan(store.Blob(id[:]))
			return id, err
		})
	})
}
