package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
)

// crashEnv tells this binary to be the process that is killed, on that file.
const crashEnv = "STORE_TEST_CRASH"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := writeForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForEver adds rows from several goroutines and prints each once it is
// acknowledged.
func writeForEver(path string) error {
	ctx := context.Background()
	db, err := OpenDB(ctx, path)
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx, "test", []string{"CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"}); err != nil {
		return err
	}
	var next atomic.Int64
	err = db.Read(ctx, func(tx *Tx) error {
		var last int64
		err := tx.QueryRow("SELECT coalesce(max(n), 0) FROM t").Scan(&last)
		next.Store(last)
		return err
	})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				n := next.Add(1)
				err := db.Write(ctx, n%2 == 0, func(tx *Tx) error {
					_, err := tx.Exec("INSERT INTO t (n, body) VALUES (?, ?)", n, make([]byte, n%5000))
					return err
				})
				if err == nil {
					_, err = fmt.Printf("%d\n", n)
				}
				if err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	acknowledged := make(map[int]bool)
	for range 8 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashEnv+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for kill := 1 + rand.IntN(2000); lines.Scan(); kill-- {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatalf("child said %q", lines.Text())
			}
			acknowledged[n] = true
			if kill == 0 {
				child.Process.Kill()
			}
		}
		if err := child.Wait(); err == nil || child.ProcessState.Exited() {
			t.Fatalf("child was not killed: %v", err)
		}

		db, err := OpenDB(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		stored := make(map[int]bool)
		for _, n := range rows(t, db) {
			stored[n] = true
		}
		for n := range acknowledged {
			if !stored[n] {
				t.Errorf("row %d was acknowledged and is lost", n)
			}
		}
		err = db.Read(t.Context(), func(tx *Tx) error {
			var verdict string
			if err := tx.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
				t.Errorf("integrity: %s, %v", verdict, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
