package store

import (
	"context"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
)

// Sizes of the write-ahead log, in pages of 4 KiB.
const (
	// copyPages are written until the log is copied into the file.
	copyPages = 1000

	// fewPages are so few that no further pass is made for them: the writer copies them.
	fewPages = 64

	// mostBeside are the most writes during one copy, then writes wait for it: they could
	// be faster than it, and the log would grow.
	mostBeside = 3000

	// maxPasses bounds how often what was written meanwhile is copied too before the
	// writer does the rest.
	maxPasses = 4
)

// walCopy copies the write-ahead log into the file (a checkpoint). Most of that work, writing
// pages and waiting for the disk for some 20 ms, is done on a connection of its own while writes
// and reads continue. The writer copies what was written meanwhile, after which the log
// starts again.
type walCopy struct {
	running atomic.Bool
	done    atomic.Bool // the writer is to copy the rest
	work    sync.WaitGroup
	written int // pages since the last copy began; the leader's
}

// copyWALIfDue starts a copy of the log if one is due, or ends one that is done. The leader
// calls it after a commit.
func (db *DB) copyWALIfDue() {
	l := &db.log
	if db.oneConn {
		return // SQLite copies by itself
	}
	l.written += db.writer.conn.takeWrittenPageCount()
	if l.written >= mostBeside {
		l.work.Wait()
	}
	if l.done.CompareAndSwap(true, false) {
		if left, err := db.writer.conn.copyWALPages(); err == nil && left == 0 {
			l.written = 0
		} // else the next copy does its work
		return
	}
	if l.written < copyPages || !l.running.CompareAndSwap(false, true) {
		return
	}
	l.written = 0
	l.work.Go(func() {
		defer l.running.Store(false)
		db.copyWAL()
	})
}

// copyWAL copies the log on a connection of its own, because reads would wait for a
// reader's. If it cannot open one, or the disk fails, the log grows until SQLite copies it
// at a commit.
func (db *DB) copyWAL() {
	c, err := db.connectReader(context.Background())
	if err != nil {
		return
	}
	defer c.close()
	for range maxPasses {
		left, err := c.copyWALPages()
		if err != nil {
			return
		}
		if left <= fewPages {
			break
		}
	}
	db.log.done.Store(true)
}

// copyWALPages copies those pages of the log that no reader needs there, without waiting, and
// returns how many are left.
func (c *conn) copyWALPages() (left int, err error) {
	var busy, pages, copied int
	if err := c.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied); err != nil {
		return 0, err
	}
	return pages - copied, nil
}

// takeWrittenPageCount returns how many pages the connection has written since it was last called.
func (c *conn) takeWrittenPageCount() (pages int) {
	c.Raw(func(driver any) (err error) { // it never fails: the counter exists
		pages, _, err = driver.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, true)
		return err
	})
	return pages
}
