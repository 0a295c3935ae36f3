package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadIsASnapshot(t *testing.T) {
	db := open(t)
	count := func(tx *Tx) (n int) {
		if err := tx.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	err := db.Read(t.Context(), func(tx *Tx) error {
		before := count(tx)
		// Writes do not wait for readers.
		if err := db.Write(t.Context(), true, insert(1)); err != nil {
			return err
		}
		if after := count(tx); after != before {
			t.Errorf("a read saw %d rows, then %d", before, after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := rows(t, db); len(got) != 1 {
		t.Errorf("the next read saw %v", got)
	}
}

func TestReadCannotWrite(t *testing.T) {
	db := open(t)
	if err := db.Read(t.Context(), insert(1)); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("got %v", err)
	}
	mine := errors.New("mine")
	if err := db.Read(t.Context(), func(*Tx) error { return mine }); err != mine {
		t.Errorf("own error came back as %v", err)
	}
	func() {
		defer func() { recover() }()
		db.Read(t.Context(), func(*Tx) error { panic("at the disco") })
	}()
	if got := rows(t, db); got != nil {
		t.Errorf("rows %v", got)
	}
}

func TestReadContext(t *testing.T) {
	db := open(t)
	never := func(*Tx) error { t.Error("ran"); return nil }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var full func(int) error // reads that are under way
	full = func(n int) error {
		if n > 0 {
			return db.Read(t.Context(), func(*Tx) error { return full(n - 1) })
		}
		wg.Go(cancel)
		if err := db.Read(ctx, never); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		return nil
	}
	if err := full(maxReaders); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := db.Read(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

func TestReadConnectionIsDropped(t *testing.T) {
	path := t.TempDir() + "/state.db"
	synctest.Test(t, func(t *testing.T) {
		db, err := OpenDB(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		isOpen := func() bool {
			db.readers.mu.Lock()
			defer db.readers.mu.Unlock()
			return len(db.readers.idle) > 0
		}
		use := func() {
			if err := db.Read(t.Context(), func(tx *Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		use()
		time.Sleep(readerIdle - time.Second)
		use()
		time.Sleep(readerIdle - time.Second)
		if !isOpen() {
			t.Error("closed too early")
		}
		time.Sleep(2 * time.Second)
		if isOpen() {
			t.Error("still open")
		}
		use()
	})
}

func TestReadRows(t *testing.T) {
	db := open(t)
	read := func(tx *Tx) ([][2]byte, error) {
		return ReadRows(tx, "SELECT * FROM (VALUES (x'0102'), (x''), (NULL)) LIMIT ?", func(scan func(...any) error) (b [2]byte, err error) {
			err = scan(Blob(b[:]))
			return b, err
		}, 3)
	}
	if all, err := ReadValue(t.Context(), db, read); err != nil || !slices.Equal(all, [][2]byte{{1, 2}, {}, {}}) {
		t.Errorf("%v, %v", all, err)
	}
	broken := errors.New("broken")
	_, err := ReadValue(t.Context(), db, func(tx *Tx) ([]int, error) {
		return ReadRows(tx, "SELECT 1", func(func(...any) error) (int, error) { return 0, broken })
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
