package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// open opens a new database with a table t (n).
func open(tb testing.TB) *DB {
	tb.Helper()
	db := openAt(tb, filepath.Join(tb.TempDir(), "state.db"))
	migrate(tb, db, "CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
	return db
}

func openAt(tb testing.TB, path string) *DB {
	tb.Helper()
	db, err := OpenDB(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

func migrate(tb testing.TB, db *DB, steps ...string) {
	tb.Helper()
	if err := db.Migrate(tb.Context(), "test", steps); err != nil {
		tb.Fatal(err)
	}
}

// insert returns a write of the row n.
func insert(n int) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO t (n) VALUES (?)", n)
		return err
	}
}

// fill gives t enough rows for several pages.
func fill(tb testing.TB, db *DB) {
	tb.Helper()
	err := db.Write(tb.Context(), false, func(tx *Tx) error {
		_, err := tx.Exec("WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n+1 FROM c WHERE n < 5000) INSERT INTO t (n) SELECT n FROM c")
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// rows returns what t holds.
func rows(tb testing.TB, db *DB) (list []int) {
	tb.Helper()
	err := db.Read(tb.Context(), func(tx *Tx) error {
		return tx.EachRow("SELECT n FROM t ORDER BY n", func(scan func(...any) error) error {
			var n int
			err := scan(&n)
			list = append(list, n)
			return err
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func TestReopen(t *testing.T) {
	// Each character here means something in a URI.
	path := filepath.Join(t.TempDir(), "a b?mode=ro#%41&", "state.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db := openAt(t, path)
	migrate(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	if err := db.Write(t.Context(), false, insert(1)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("state.db%s has mode %v", suffix, info.Mode())
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.Stat(path + "-wal"); err != nil || left.Size() != 0 {
		t.Errorf("after Close the log is %v, %v", left, err)
	}
	if got := rows(t, openAt(t, path)); len(got) != 1 {
		t.Errorf("after reopening: %v", got)
	}
}

func TestOpenTightensMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "state.db")} {
		if db, err := OpenDB(t.Context(), path); err == nil {
			db.Close()
			t.Errorf("%s: no error", path)
		}
	}
}

func TestOpenCorrupt(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"no database": func(b []byte) []byte { return []byte(strings.Repeat("this is no database\n", 500)) },
		"short":       func(b []byte) []byte { return b[:len(b)-len(b)/3] },
		"overwritten": func(b []byte) []byte {
			copy(b[len(b)/2:], bytes.Repeat([]byte{0xa5}, 4096))
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			db := openAt(t, path)
			migrate(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
			fill(t, db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := damage(whole)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err = OpenDB(t.Context(), path)
			corrupt, ok := errors.AsType[*corruptError](err)
			if !ok {
				if err == nil {
					db.Close()
				}
				t.Fatalf("got %v", err)
			}
			if corrupt.Path != path || corrupt.Problem == "" {
				t.Errorf("%+v", corrupt)
			}
			if now, _ := os.ReadFile(path); !bytes.Equal(now, damaged) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

// Damage that comes to light only while the daemon runs has the same type.
func TestCorruptLater(t *testing.T) {
	db := open(t)
	fill(t, db)
	if _, err := db.writer.conn.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(db.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db.path+".damage", bytes.Repeat([]byte{0xa5}, int(info.Size())-4096), 0o600); err != nil {
		t.Fatal(err)
	}
	damage, _ := os.ReadFile(db.path + ".damage")
	// Through a descriptor that stays open: closing it would drop SQLite's locks.
	f, err := os.OpenFile(db.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt(damage, 4096); err != nil {
		t.Fatal(err)
	}
	err = db.Read(t.Context(), func(tx *Tx) error {
		var n int
		return tx.QueryRow("SELECT count(*) FROM t").Scan(&n)
	})
	_, ok := errors.AsType[*corruptError](err)
	if !ok {
		t.Errorf("got %v", err)
	}
}

func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	first := "CREATE TABLE t (n INTEGER PRIMARY KEY); INSERT INTO t (n) VALUES (1)"
	second := "ALTER TABLE t ADD COLUMN body BLOB; INSERT INTO t (n) VALUES (2);"
	for i, steps := range [][]string{{first}, {first}, {first, second}, {first, second}} {
		db := openAt(t, path)
		migrate(t, db, steps...)
		if got := rows(t, db); len(got) != len(steps) {
			t.Errorf("start %d: %d steps applied: rows %v", i, len(steps), got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}

	db := openAt(t, path)
	err := db.Migrate(t.Context(), "test", []string{first})
	if err == nil || !strings.Contains(err.Error(), "newer version") || !strings.Contains(err.Error(), path) {
		t.Errorf("a newer file: %v", err)
	}
	err = db.Migrate(t.Context(), "test", []string{first, second, "INSERT INTO t (n) VALUES (3)", "nonsense"})
	if err == nil || !strings.Contains(err.Error(), "test: step 4: SQLite: ") {
		t.Errorf("a bad step: %v", err)
	}
	if got := rows(t, db); len(got) != 2 {
		t.Errorf("a bad step left half of the migration: %v", got)
	}
	if err := db.Migrate(t.Context(), "other", []string{"CREATE TABLE other (n)"}); err != nil {
		t.Errorf("another user: %v", err)
	}
}

func TestStatements(t *testing.T) {
	db := open(t)
	err := db.Write(t.Context(), false, func(tx *Tx) error {
		for n := range 2 * maxStmts {
			if _, err := tx.Exec(fmt.Sprintf("INSERT INTO t (n) VALUES (%d)", n)); err != nil {
				return err
			}
			var got int
			if err := tx.QueryRow(fmt.Sprintf("SELECT n FROM t WHERE n = %d", n)).Scan(&got); err != nil || got != n {
				return fmt.Errorf("row %d: %d, %w", n, got, err)
			}
			enough := errors.New("enough")
			if err := tx.EachRow(fmt.Sprintf("SELECT %d FROM t", n), func(func(...any) error) error { return enough }); err != enough {
				return fmt.Errorf("ended with %w", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(db.writer.conn.stmts); n > maxStmts {
		t.Errorf("%d statements kept", n)
	}
	for name, use := range map[string]func(*Tx) error{
		"Exec":     func(tx *Tx) error { _, err := tx.Exec("nonsense"); return err },
		"Each":     func(tx *Tx) error { return tx.EachRow("nonsense", nil) },
		"QueryRow": func(tx *Tx) error { return tx.QueryRow("nonsense").Scan() },
	} {
		if err := db.Read(t.Context(), use); err == nil || !strings.Contains(ownwords.FindForeign(err), "nonsense") || strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s of nonsense: %v", name, err)
		}
	}
	if got := rows(t, db); len(got) != 2*maxStmts {
		t.Errorf("%d rows", len(got))
	}
}

// A disk without space is not one that fails, though SQLite calls both by one name.
func TestOpenFullDisk(t *testing.T) {
	if !isOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "state.db")
	lift := limitFiles(t)
	db, err := OpenDB(t.Context(), path)
	lift()
	if err == nil {
		db.Close()
		t.Fatal("a file was made without space")
	}
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), path+" cannot grow: file too large: free some space") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".space-*")); left != nil {
		t.Errorf("left: %v", left)
	}
	openAt(t, path)
}

// isOwnProcess reports whether the test has a process of its own. If not, it runs the test in one: a
// limit of files holds for the whole process, and go test has it write a log.
func isOwnProcess(t *testing.T) bool {
	t.Helper()
	const own = "ACPD_TEST_OWN_PROCESS"
	if os.Getenv(own) != "" {
		return true
	}
	child := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), own+"=1")
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// limitFiles stops this process from making files larger, as a full disk would, until
// lift is called.
func limitFiles(t *testing.T) (lift func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: 0, Max: before.Max})
	return func() { set(before) }
}

// What was closed, or left by a crash, opens on a full disk and is read; writes fail
// with the word for it, and work again when there is space.
// holds: security.md#on-this-machine
func TestReopenOnFullDisk(t *testing.T) {
	if !isOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "state.db")
	steps := []string{"CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"}
	db := openAt(t, path)
	if err := db.Migrate(t.Context(), "test", steps); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), true, insert(1)); err != nil {
		t.Fatal(err)
	}
	crashed := filepath.Join(t.TempDir(), "state.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(crashed+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"closed": path, "crashed": crashed} {
		lift := limitFiles(t)
		db, err := OpenDB(t.Context(), path)
		if err != nil {
			lift()
			t.Fatalf("%s: %v", name, err)
		}
		if err := db.Migrate(t.Context(), "test", steps); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, failed := rows(t, db), db.Write(t.Context(), true, insert(2))
		if err := db.Read(t.Context(), insert(2)); err == nil {
			t.Errorf("%s: a read has written", name)
		}
		lift()
		if !slices.Equal(got, []int{1}) {
			t.Errorf("%s: rows %v", name, got)
		}
		if !errors.Is(failed, syscall.EFBIG) {
			t.Errorf("%s: a write says %v", name, failed)
		}
		if err := db.Write(t.Context(), true, insert(3)); err != nil {
			t.Errorf("%s: with space again: %v", name, err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that cannot be checked in time opens all the same, and says so.
// holds: security.md#on-this-machine
func TestOpenDoesNotReadForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	for limit, whole := range map[time.Duration]bool{0: false, time.Hour: true} {
		db, err := openDBWithCheckTime(t.Context(), path, limit)
		if err != nil {
			t.Fatal(err)
		}
		if db.IsChecked() != whole {
			t.Errorf("within %s the file was checked: %t", limit, db.IsChecked())
		}
		err = db.Read(t.Context(), func(tx *Tx) error {
			var n int
			return tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n)
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Errorf("within %s: %v", limit, err)
		}
	}
}
