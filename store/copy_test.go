package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func neverEnd() error { return nil }

// TestCopyUnderWrites: a copy that is made while rows are written holds a prefix of them, in
// which every row is that was written when it began.
func TestCopyUnderWrites(t *testing.T) {
	db := open(t)
	fill(t, db)
	var writers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	began := make(chan struct{})
	writers.Go(func() {
		for n := 5001; ctx.Err() == nil; n++ {
			err := db.Write(t.Context(), true, func(tx *Tx) error {
				_, err := tx.Exec("INSERT INTO t (n, body) VALUES (?, zeroblob(3000))", n)
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
			if n == 5100 {
				close(began)
			}
		}
	})
	<-began
	for range 3 {
		before := rows(t, db)
		path := filepath.Join(t.TempDir(), "a b?mode=ro#%41&")
		if err := db.Copy(t.Context(), path, neverEnd); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("the copy has mode %v, %v", info.Mode(), err)
		}
		copied := openAt(t, path)
		got := rows(t, copied)
		if len(got) < len(before) || got[len(got)-1] != len(got) {
			t.Errorf("the copy has %d rows up to %d; %d were written before it", len(got), got[len(got)-1], len(before))
		}
		if !copied.IsChecked() {
			t.Error("the copy was not checked")
		}
	}
	stop()
	writers.Wait()
}

func TestCopyEnds(t *testing.T) {
	db := open(t)
	fill(t, db)
	path := filepath.Join(t.TempDir(), "copy")
	full := errors.New("full")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, run := range map[string]func() error{
		"by its caller":  func() error { return db.Copy(t.Context(), path, func() error { return full }) },
		"by its context": func() error { return db.Copy(ended, path, neverEnd) },
	} {
		if err := run(); !errors.Is(err, full) && !errors.Is(err, context.Canceled) {
			t.Errorf("ended %s: %v", name, err)
		}
		if left, _ := filepath.Glob(path + "*"); left != nil {
			t.Errorf("ended %s: it leaves %v", name, left)
		}
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.Copy(t.Context(), path, neverEnd); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file that was there is %q", text)
	}
	if err := db.Write(t.Context(), true, insert(9999)); err != nil {
		t.Errorf("after copies that ended: %v", err)
	}
}

func TestVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := openAt(t, path)
	check := func(want int) {
		t.Helper()
		if got, err := db.ReadVersion(t.Context()); err != nil || got != want {
			t.Errorf("version %d, %v, want %d", got, err, want)
		}
	}
	check(0)
	migrate(t, db, "CREATE TABLE a (n)", "CREATE TABLE b (n)")
	if err := db.Migrate(t.Context(), "other", []string{"CREATE TABLE c (n)"}); err != nil {
		t.Fatal(err)
	}
	check(3)
	for _, mark := range []int{0, 3} {
		if got, err := db.ReadMark(t.Context()); err != nil || got != mark {
			t.Errorf("mark %d, %v, want %d", got, err, mark)
		}
		if err := db.WriteMark(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(path)
	if err != nil || !slices.Equal(header[60:64], []byte{0, 0, 0, 3}) {
		t.Errorf("user_version is %x, %v", header[60:64], err)
	}
}
