package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/integration/await"
)

// However slow a copy of the log is, the log stays small: writes wait for it.
// holds: security.md#the-budget
func TestWritesWaitForSlowCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		db.log.running.Store(true) // a copy that takes its time
		db.log.work.Add(1)
		var writes sync.WaitGroup
		var done atomic.Int32
		writes.Go(func() {
			for range 400 {
				if err := db.Write(t.Context(), false, func(tx *Tx) error {
					_, err := tx.Exec("INSERT INTO t VALUES (NULL, ?)", make([]byte, 64<<10))
					return err
				}); err != nil {
					t.Error(err)
				}
				done.Add(1)
			}
		})
		synctest.Wait()
		if pages := int(done.Load()) * 16; pages < mostBeside/2 || pages > mostBeside {
			t.Errorf("%d pages are written beside a copy", pages)
		}
		db.copyWAL()
		db.log.running.Store(false)
		db.log.work.Done()
		writes.Wait()
		if n := done.Load(); n != 400 {
			t.Errorf("%d writes are done, want 400", n)
		}
	})
}

// The log is copied into the file beside the writes: when a copy is done only what was
// written meanwhile is left to the writer, and the log starts again.
// holds: security.md#the-budget
func TestLogIsCopiedBesideWrites(t *testing.T) {
	db := open(t)
	pages := func() (in, copied int) {
		if err := db.Read(t.Context(), func(tx *Tx) error {
			var busy int
			return tx.conn.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &in, &copied)
		}); err != nil {
			t.Fatal(err)
		}
		return in, copied
	}
	write := func(n int) {
		if err := db.Write(t.Context(), false, func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO t (n, body) VALUES (NULL, ?)", make([]byte, n))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		in, copied := pages()
		for ; in < copyPages*3/4; in, copied = pages() {
			write(60 << 10)
		}
		if copied > 0 {
			t.Errorf("round %d: %d pages of %d are copied before a copy is due", round, copied, in)
		}
		for in < copyPages {
			write(60 << 10)
			in, _ = pages()
		}
		db.log.work.Wait()
		if in, copied = pages(); copied < copyPages {
			t.Errorf("round %d: %d pages of %d are copied", round, copied, in)
		}
		write(1) // and copies the rest
		write(1) // starts the log again
		if in, copied = pages(); in > fewPages {
			t.Errorf("round %d: the log has %d pages, of which %d are copied: it did not start again", round, in, copied)
		}
	}
}

// Copying the log waits for no reader, and takes none.
func TestCopyOfTheLogTakesNoReader(t *testing.T) {
	db := open(t)
	read, stop := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	for range maxReaders {
		all.Go(func() {
			if err := db.Read(t.Context(), func(*Tx) error { read <- struct{}{}; <-stop; return nil }); err != nil {
				t.Error(err)
			}
		})
		<-read
	}
	for !db.log.running.Load() && !db.log.done.Load() {
		if err := db.Write(t.Context(), false, func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO t (n, body) VALUES (NULL, ?)", make([]byte, 60<<10))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the log is copied while all readers are in use", func() bool { return !db.log.running.Load() && db.log.done.Load() })
}
