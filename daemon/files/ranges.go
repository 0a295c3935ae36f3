package files

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	maxWanted  = 16               // ranges that are wanted at a time
	maxTries   = 3                // of a range
	rangeTime  = 30 * time.Minute // for one of them
	lookPause  = 5 * time.Second  // between two looks for ranges that do not come
	pieceBytes = 128 << 10        // that are read, or asked of a client, at a time

	// The ends of the names of a file that is not whole: its bytes, and a byte for each range that is there.
	partSuffix = ".part"
	mapSuffix  = ".map"
)

// arrival is a file that is coming.
type arrival struct {
	key
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{}

	changed pace.Bell // a range is there, or has failed
	writers sync.WaitGroup
	file    *os.File // from when its bytes are wanted
	marks   *os.File // has a byte for each range that is there

	mu      sync.Mutex // guards what follows
	size    uint64     // 0 before its bytes are wanted
	ranges  []wantedRange
	have    uint64 // bytes that are there
	closing bool   // no range may begin any more
	failed  error  // of this machine, such as a full disk: no other range is wanted then
}

type wantedRange struct {
	state rangeState
	tries int
	since time.Time // when it was wanted
}

type rangeState byte

const (
	missing  rangeState = iota
	wanted              // the sender was asked for it
	arriving            // its stream is there
	present
)

// countRanges returns how many ranges a file has.
func countRanges(size uint64) int {
	return int((size + wire.FileRangeBytes - 1) / wire.FileRangeBytes)
}

// rangeLength returns the length of a range of a file.
func rangeLength(size uint64, i int) uint64 {
	return min(wire.FileRangeBytes, size-uint64(i)*wire.FileRangeBytes)
}

// isRange reports whether a file has this range.
func isRange(size, offset, length uint64) bool {
	return offset < size && length == rangeLength(size, int(offset/wire.FileRangeBytes))
}

// readMarks returns the ranges of a file that is not whole, as they are on disk, and how many bytes are there.
func readMarks(path string, size uint64) (ranges []wantedRange, have uint64) {
	marks, _ := os.ReadFile(path + mapSuffix)
	ranges = make([]wantedRange, countRanges(size))
	for i := range min(len(marks), len(ranges)) {
		if marks[i] != 0 {
			ranges[i].state = present
			have += rangeLength(size, i)
		}
	}
	return ranges, have
}

func (a *arrival) countBytes() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.have
}

// open opens the bytes of a file, and reports whether some are there from an earlier transfer.
func (a *arrival) open(path string, size uint64) (resumed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	os.Rename(path, path+partSuffix) // if all of it came, and the store does not know
	if a.file, err = os.OpenFile(path+partSuffix, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return false, err
	}
	if a.marks, err = os.OpenFile(path+mapSuffix, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size = size
	a.ranges, a.have = readMarks(path, size)
	return a.have > 0, a.file.Truncate(int64(size)) // a loss of power may have made it shorter
}

// close closes the files when no stream writes them any more.
func (a *arrival) close() {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	a.writers.Wait()
	a.file.Close()
	a.marks.Close()
}

// fetch gets the bytes of a file from its sender, checks them, and makes the file whole.
func (s *Service) fetch(ctx context.Context, a *arrival, r *record, st *peer.Stream) error {
	path := s.path(r.key())
	resumed, err := a.open(path, r.Size)
	if err == nil {
		err = writeReply(ctx, st, &wire.FileReply{Op: wire.FileTake})
	}
	if err != nil {
		return err
	}
	sum, err := s.fetchRanges(ctx, a, st)
	if err == nil && sum != r.Hash && resumed { // a loss of power may have taken what was not synced
		s.countLost(r.peer, r.Size)
		a.forgetRanges()
		sum, err = s.fetchRanges(ctx, a, st)
	}
	if err != nil {
		return err
	}
	if sum != r.Hash {
		s.countLost(r.peer, r.Size)
		if err := s.drop(context.WithoutCancel(ctx), r); err != nil {
			return err
		}
		return kinds.Errorf(kinds.Invalid, "sha256: the bytes have another hash: the file changed while it was sent, or before: send it again")
	}
	if err := a.file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(path+partSuffix, path); err != nil {
		return err
	}
	for _, folder := range []string{s.folderOf(r.peer), s.dir, s.Dir} { // the first file of a peer makes its folder
		if err := durable.SyncDir(folder); err != nil {
			return err
		}
	}
	r.whole, r.until = true, time.Now().Add(keptFor)
	if err := s.updateRecord(ctx, r); err != nil {
		return err
	}
	os.Remove(path + mapSuffix)
	return nil
}

// fetchRanges gets the ranges that are missing, and returns the hash of all bytes. It hashes them in their order as
// they come.
func (s *Service) fetchRanges(ctx context.Context, a *arrival, st *peer.Stream) (sum [32]byte, err error) {
	h := sha256.New()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for hashed := 0; ; {
		ring := a.changed.NextRing()
		wants, ready, err := a.takeWants(time.Now())
		if err == nil && ready < countRanges(a.size) {
			err = s.Space.CheckRoom(a.peer)
		}
		for _, w := range wants {
			if err == nil {
				err = writeReply(ctx, st, w)
			}
		}
		switch {
		case err != nil:
			return sum, err
		case hashed < ready:
			if _, err := io.Copy(h, io.NewSectionReader(a.file, int64(hashed)*wire.FileRangeBytes, int64(rangeLength(a.size, hashed)))); err != nil {
				return sum, err
			}
			hashed++
			continue
		case ready == countRanges(a.size):
			h.Sum(sum[:0])
			return sum, nil
		}
		select {
		case <-ring:
		case <-look.C:
		case <-ctx.Done():
		}
	}
}

// takeWants returns the ranges for which the sender is to be asked now, and how many at the beginning of the file are
// there. It returns an error if one has failed too often, or the arrival ends.
//
// It looks at the first ranges that are missing, as many as are wanted at a time: it has never wanted a later one.
func (a *arrival) takeWants(now time.Time) (wants []*wire.FileReply, ready int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := cmp.Or(a.failed, context.Cause(a.ctx)); err != nil {
		return nil, 0, err
	}
	for i, open := 0, 0; i < len(a.ranges) && open < maxWanted; i++ {
		w := &a.ranges[i]
		if w.state == present {
			if open == 0 {
				ready = i + 1
			}
			continue
		}
		open++
		if w.state == arriving || w.state == wanted && now.Sub(w.since) < idleTime {
			continue
		}
		if w.tries == maxTries {
			return nil, 0, kinds.Errorf(kinds.Timeout, "a part of the file did not come in %d attempts: send it again under the same id, and the rest follows", maxTries)
		}
		w.state, w.since = wanted, now
		w.tries++
		wants = append(wants, &wire.FileReply{Op: wire.FileWant, Offset: uint64(i) * wire.FileRangeBytes, Length: rangeLength(a.size, i), Have: a.have})
	}
	return wants, ready, nil
}

// forgetRanges makes all ranges missing.
func (a *arrival) forgetRanges() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.ranges)
	a.have = 0
	a.marks.Truncate(0)
}

// serveRange takes a range, and ends its stream. It reads none that is not wanted.
func (s *Service) serveRange(from identity.ID, st *peer.Stream, r *wire.FileRequest, body *bufio.Reader) {
	s.mu.Lock()
	a := s.arrivals[key{from, r.ID}]
	s.mu.Unlock()
	if a == nil || !a.beginRange(r) {
		st.Cancel()
		return
	}
	defer a.writers.Done()
	stop := context.AfterFunc(a.ctx, st.Cancel)
	got, err := a.readRange(st, r, body)
	stop()
	a.endRange(r, err)
	if err != nil {
		s.countLost(from, got)
		st.Cancel()
		return
	}
	st.Close()
}

// beginRange reports whether a range is wanted, and its stream the first that brings it.
func (a *arrival) beginRange(r *wire.FileRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing || !isRange(a.size, r.Offset, r.Length) {
		return false
	}
	w := &a.ranges[r.Offset/wire.FileRangeBytes]
	if w.state != wanted {
		return false
	}
	w.state = arriving
	a.writers.Add(1)
	return true
}

// readRange writes a range to the disk as it comes. It returns how many bytes came.
func (a *arrival) readRange(st *peer.Stream, r *wire.FileRequest, body *bufio.Reader) (got uint64, err error) {
	buf := make([]byte, pieceBytes)
	end := time.Now().Add(rangeTime)
	for got < r.Length {
		piece := buf[:min(pieceBytes, r.Length-got)]
		for n := 0; n < len(piece); {
			st.SetReadDeadline(time.Now().Add(min(idleTime, time.Until(end))))
			more, err := body.Read(piece[n:])
			if n += more; err != nil && n < len(piece) {
				return got + uint64(n), err
			}
		}
		if _, err := a.file.WriteAt(piece, int64(r.Offset+got)); err != nil {
			return got, err
		}
		got += uint64(len(piece))
	}
	if _, err := body.ReadByte(); err != io.EOF {
		return got, ownwords.New("more bytes came than were wanted")
	}
	_, err = a.marks.WriteAt([]byte{1}, int64(r.Offset/wire.FileRangeBytes))
	return got, err
}

// endRange records whether a range has come.
func (a *arrival) endRange(r *wire.FileRequest, err error) {
	a.mu.Lock()
	w := &a.ranges[r.Offset/wire.FileRangeBytes]
	w.state = missing
	if err == nil {
		w.state = present
		a.have += r.Length
	} else if _, ofDisk := errors.AsType[*fs.PathError](err); ofDisk {
		a.failed = err
	}
	a.mu.Unlock()
	a.changed.Ring()
}
