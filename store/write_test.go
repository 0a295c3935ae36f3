package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// holdLead has an empty write hold the lead, for which all others wait, until release is called.
func holdLead(t *testing.T, db *DB) (release func()) {
	t.Helper()
	held, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Write(t.Context(), false, func(*Tx) error { close(held); <-end; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	return func() { close(end); wg.Wait() }
}

// group runs the writes so that they are committed together. It returns their errors.
func group(t *testing.T, db *DB, durable []bool, fns ...func(*Tx) error) []error {
	t.Helper()
	release := holdLead(t, db)
	var wg sync.WaitGroup
	errs := make([]error, len(fns))
	for i, fn := range fns {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = db.Write(t.Context(), durable != nil && durable[i], fn)
		})
		waiting(db, i+1)
	}
	release()
	wg.Wait()
	return errs
}

// waiting returns when n writes wait.
func waiting(db *DB, n int) {
	for {
		db.writer.mu.Lock()
		have := len(db.writer.queue)
		db.writer.mu.Unlock()
		if have == n {
			return
		}
		runtime.Gosched()
	}
}

func TestGroupCommit(t *testing.T) {
	db := open(t)
	const n = 50
	var fns []func(*Tx) error
	for i := range n {
		fns = append(fns, func(tx *Tx) error {
			var own int
			if err := tx.QueryRow("SELECT count(*) FROM t").Scan(&own); err != nil {
				return err
			}
			if others := rows(t, db); own != i || len(others) != 0 {
				t.Errorf("write %d sees %d rows, readers %d", i, own, len(others))
			}
			return insert(i)(tx)
		})
	}
	if err := errors.Join(group(t, db, nil, fns...)...); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, db); len(got) != n {
		t.Errorf("%d rows", len(got))
	}
}

func TestFailureIsAlone(t *testing.T) {
	db := open(t)
	mine := errors.New("mine")
	errs := group(t, db, nil,
		insert(1),
		func(tx *Tx) error { insert(2)(tx); return mine },
		insert(3),
		func(tx *Tx) error { insert(4)(tx); panic("at the disco") },
		insert(1), // a constraint
		insert(5),
	)
	if errs[0] != nil || errs[2] != nil || errs[5] != nil {
		t.Errorf("bystanders failed: %v", errs)
	}
	if errs[1] != mine {
		t.Errorf("own error came back as %v", errs[1])
	}
	if errs[3] == nil || !strings.Contains(errs[3].Error(), "at the disco") || !strings.Contains(errs[3].Error(), "TestFailureIsAlone") {
		t.Errorf("panic came back as %v", errs[3])
	}
	if errs[4] == nil || !strings.Contains(errs[4].Error(), "SQLITE_CONSTRAINT") {
		t.Errorf("constraint came back as %v", errs[4])
	}
	if got := rows(t, db); !slices.Equal(got, []int{1, 3, 5}) {
		t.Errorf("rows %v", got)
	}
}

func TestTxEnds(t *testing.T) {
	db := open(t)
	var kept *Tx
	if err := db.Write(t.Context(), false, func(tx *Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a dead transaction was usable")
		}
	}()
	kept.Exec("INSERT INTO t (n) VALUES (1)")
}

func TestDurable(t *testing.T) {
	db := open(t)
	var levels []int
	level := func(tx *Tx) error {
		var n int
		// Not from the statement cache: the answer is part of the compiled text.
		err := tx.conn.QueryRowContext(context.Background(), "PRAGMA synchronous").Scan(&n)
		levels = append(levels, n)
		return err
	}
	for _, durable := range []bool{false, true, true, false, true, false} {
		if err := db.Write(t.Context(), durable, level); err != nil {
			t.Fatal(err)
		}
	}
	// One durable write makes its whole group durable.
	if err := errors.Join(group(t, db, []bool{false, true, false}, level, level, level)...); err != nil {
		t.Fatal(err)
	}
	const normal, full = 1, 2
	if want := []int{normal, full, full, normal, full, normal, full, full, full}; !slices.Equal(levels, want) {
		t.Errorf("synchronous was %v, want %v", levels, want)
	}
}

func TestDiskFull(t *testing.T) {
	db := open(t)
	limit := func(pages int) {
		t.Helper()
		if _, err := db.writer.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(t.Context(), true, insert(1)); err != nil {
		t.Fatal(err)
	}
	limit(10)
	big := func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO t (n, body) VALUES (2, ?)", make([]byte, 1<<20))
		return err
	}
	careless := func(tx *Tx) error { big(tx); return nil }
	for name, fn := range map[string]func(*Tx) error{"big": big, "careless": careless} {
		for i, err := range group(t, db, nil, insert(10), fn, insert(11)) {
			// Whatever SQLite did to the transaction: no false success.
			if got := rows(t, db); err == nil && i != 1 && !slices.Contains(got, 10+i/2) {
				t.Errorf("%s: write %d succeeded, rows %v", name, i, got)
			}
			if i == 1 && name == "big" && (err == nil || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space")) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := rows(t, db); slices.Contains(got, 2) {
			t.Errorf("%s: kept %v", name, got)
		}
		if err := db.Write(t.Context(), true, func(tx *Tx) error { _, err := tx.Exec("DELETE FROM t WHERE n >= 10"); return err }); err != nil {
			t.Errorf("%s: the next write: %v", name, err)
		}
	}
	limit(10000)
	if err := db.Write(t.Context(), true, big); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, db); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("rows %v", got)
	}
}

// A transaction that is gone by the time of its commit fails for all.
func TestCommitFails(t *testing.T) {
	db := open(t)
	errs := group(t, db, nil,
		insert(1),
		func(tx *Tx) error { return tx.conn.execControl("ROLLBACK") },
		insert(3),
	)
	for i, err := range errs {
		if err == nil || !strings.HasPrefix(err.Error(), "store: write "+db.path) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := rows(t, db); got != nil {
		t.Errorf("kept %v", got)
	}
	if err := db.Write(t.Context(), false, insert(4)); err != nil {
		t.Error(err)
	}
}

// What a write that is not kept gave to OnUndo is called before another write begins,
// the last one first, over all writes that fail with their commit.
func TestOnUndo(t *testing.T) {
	db := open(t)
	var log []string
	note := func(text string, more ...func(*Tx) error) func(*Tx) error {
		return func(tx *Tx) error {
			log = append(log, text)
			for _, last := range []string{"'", "''"} {
				tx.OnUndo(func() { log = append(log, text+last) })
			}
			for _, fn := range more {
				if err := fn(tx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	mine := func(*Tx) error { return errors.New("mine") }
	lost := func(tx *Tx) error { return tx.conn.execControl("ROLLBACK") }
	for _, c := range []struct {
		what string
		fns  []func(*Tx) error
		want string
	}{
		{"all kept", []func(*Tx) error{note("a"), note("b")}, "a b"},
		{"one fails", []func(*Tx) error{note("a"), note("b", mine), note("c")}, "a b b'' b' c"},
		{"one panics", []func(*Tx) error{note("a", func(*Tx) error { panic("at the disco") }), note("b")}, "a a'' a' b"},
		{"the commit fails", []func(*Tx) error{note("a"), note("b", mine), note("c", lost)}, "a b b'' b' c c'' c' a'' a'"},
	} {
		log = nil
		group(t, db, nil, c.fns...)
		if got := strings.Join(log, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestWriteContext(t *testing.T) {
	db := open(t)
	never := func(*Tx) error { t.Error("ran"); return nil }
	dead, kill := context.WithCancel(t.Context())
	kill()
	if err := db.Write(dead, false, never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}

	late, cancel := context.WithCancel(t.Context())
	if err := db.Write(late, false, func(tx *Tx) error { cancel(); return insert(1)(tx) }); err != nil {
		t.Errorf("cancelled while it ran: %v", err)
	}

	// Cancelled while it waits: it returns though the lead is still held.
	release := holdLead(t, db)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() { waiting(db, 1); cancel() })
	if err := db.Write(ctx, false, never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while waiting: %v", err)
	}
	release()
	wg.Wait()
	if got := rows(t, db); !slices.Equal(got, []int{1}) {
		t.Errorf("rows %v", got)
	}
}

// Writers come and give up at random; what succeeded is there, what did not
// is not, and nobody is left waiting.
func TestWriteRace(t *testing.T) {
	db := open(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var want []int
	for g := range 16 {
		wg.Go(func() {
			for i := range 40 {
				n := g*1000 + i
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					go cancel()
				}
				err := db.Write(ctx, i%5 == 0, insert(n))
				cancel()
				if err == nil {
					mu.Lock()
					want = append(want, n)
					mu.Unlock()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(want)
	if got := rows(t, db); !slices.Equal(got, want) {
		t.Errorf("%d rows, %d succeeded", len(got), len(want))
	}
}

func TestClose(t *testing.T) {
	db := open(t)
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Write(t.Context(), false, func(tx *Tx) error { close(held); <-release; return insert(1)(tx) }); err != nil {
			t.Error(err)
		}
	})
	<-held
	wg.Go(func() {
		if err := db.Write(t.Context(), false, insert(2)); err != nil {
			t.Error(err)
		}
	})
	waiting(db, 1)
	for range 2 {
		wg.Go(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			db.writer.mu.Lock()
			defer db.writer.mu.Unlock()
			if db.writer.led {
				t.Error("closed while a write runs")
			}
		})
	}
	for closed := false; !closed; runtime.Gosched() {
		db.writer.mu.Lock()
		closed = db.writer.closed
		db.writer.mu.Unlock()
	}
	close(release)
	wg.Wait()
	for name, err := range map[string]error{
		"Write":   db.Write(t.Context(), false, insert(3)),
		"Read":    db.Read(t.Context(), func(*Tx) error { return nil }),
		"Migrate": db.Migrate(t.Context(), "test", nil),
	} {
		if !errors.Is(err, errClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if got := rows(t, openAt(t, db.path)); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("rows %v", got)
	}
}
