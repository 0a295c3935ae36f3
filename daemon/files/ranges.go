package files

import (
	"bufio"
	"context"
	"crypto/sha256"
	"io"
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

// pieces are buffers that transfers use in turn.
var pieces = sync.Pool{New: func() any { return new([pieceBytes]byte) }}

// arrival is a file that is coming.
type arrival struct {
	key
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{}
	size   uint64

	arrived pace.Bell   // a range is there
	changed pace.Signal // a range is there, or has failed
	writers sync.WaitGroup

	mu      sync.Mutex // guards what follows
	file    *os.File   // nil before its bytes are wanted, and after
	marks   *os.File   // has a byte for each range that is there
	ranges  []wantedRange
	have    uint64 // bytes that are there
	closing bool   // no range may begin any more
	failed  error  // of this machine: there is no use in more
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

// countStoredBytes returns how many bytes of a file that is not whole are on disk.
func countStoredBytes(path string, size uint64) (n uint64) {
	marks, _ := os.ReadFile(path + mapSuffix)
	for i := range min(len(marks), countRanges(size)) {
		if marks[i] != 0 {
			n += rangeLength(size, i)
		}
	}
	return n
}

func (a *arrival) countBytes() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.have
}

// open opens the bytes of a file, of which some may be there from an earlier transfer.
func (a *arrival) open(path string, size uint64) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size, a.changed = size, pace.NewSignal()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return ownwords.Errorf("store a file: %w", err)
	}
	if a.file, err = os.OpenFile(path+partSuffix, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		a.marks, err = os.OpenFile(path+mapSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return ownwords.Errorf("store a file: %w", err)
	}
	info, err := a.file.Stat()
	if err != nil {
		return ownwords.Errorf("store a file: %w", err)
	}
	a.ranges = make([]wantedRange, countRanges(size))
	marks := make([]byte, len(a.ranges))
	n, _ := a.marks.ReadAt(marks, 0)
	for i := range n {
		if end := uint64(i)*wire.FileRangeBytes + rangeLength(size, i); marks[i] != 0 && uint64(info.Size()) >= end {
			a.ranges[i].state = present
			a.have += rangeLength(size, i)
		}
	}
	return nil
}

// close closes the files when no stream writes them any more. It may be called twice.
func (a *arrival) close() {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	a.writers.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		a.file.Close()
		a.marks.Close()
	}
	a.file, a.marks = nil, nil
}

// fetch gets the bytes of a file from its sender, checks them, and makes the file whole.
func (s *Service) fetch(ctx context.Context, a *arrival, r *record, st *peer.Stream) error {
	path := s.path(r.key)
	if err := a.open(path, r.size); err != nil {
		return err
	}
	defer func() {
		if !r.whole { // what has come of it is kept from now on
			r.until = time.Now().Add(unfinishedFor)
			s.updateRecord(context.WithoutCancel(ctx), false, r)
		}
	}()
	if err := writeReply(st, &wire.FileReply{Op: wire.FileTake}); err != nil {
		return err
	}
	resumed := a.countBytes() > 0
	sum, err := s.fetchRanges(ctx, a, st)
	if err == nil && sum != r.hash && resumed { // a loss of power may have taken what was not synced
		a.forgetRanges()
		sum, err = s.fetchRanges(ctx, a, st)
	}
	if err != nil {
		return err
	}
	if sum != r.hash {
		a.close()
		if err := s.drop(context.WithoutCancel(ctx), r); err != nil {
			return err
		}
		return kinds.Errorf(kinds.Invalid, "sha256: the bytes have another hash: the file changed while it was sent, or before: send it again")
	}
	if err := a.file.Sync(); err != nil {
		return ownwords.Errorf("store a file: %w", err)
	}
	a.close()
	if err := os.Rename(path+partSuffix, path); err != nil {
		return ownwords.Errorf("store a file: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return ownwords.Errorf("store a file: %w", err)
	}
	whole := *r
	whole.whole, whole.until = true, time.Now().Add(keptFor)
	if err := s.updateRecord(ctx, true, &whole); err != nil {
		return err
	}
	*r = whole
	os.Remove(path + mapSuffix)
	return nil
}

// fetchRanges gets the ranges that are missing, and returns the hash of all bytes.
func (s *Service) fetchRanges(ctx context.Context, a *arrival, st *peer.Stream) (sum [32]byte, err error) {
	hashing, stop := context.WithCancel(ctx)
	hashed := make(chan error, 1)
	go func() { hashed <- a.hash(hashing, &sum) }()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		wants, over, err := a.takeWants(time.Now())
		if err == nil && !over {
			err = s.Space.CheckRoom(a.peer)
		}
		for _, w := range wants {
			if err == nil {
				err = writeReply(st, w)
			}
		}
		if err != nil || over {
			if err != nil {
				stop()
			}
			failed := <-hashed
			stop()
			if err == nil {
				err = failed
			}
			return sum, err
		}
		select {
		case <-a.changed:
		case <-look.C:
		case <-ctx.Done():
			stop()
			<-hashed
			return sum, context.Cause(ctx)
		}
	}
}

// takeWants returns the ranges for which the sender is to be asked now, and whether all are there. It returns an
// error if one has failed too often.
func (a *arrival) takeWants(now time.Time) (wants []*wire.FileReply, over bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != nil {
		return nil, false, a.failed
	}
	open, left := 0, 0
	for i := range a.ranges {
		w := &a.ranges[i]
		if w.state == wanted && now.Sub(w.since) >= idleTime {
			w.state = missing
		}
		if w.state != present {
			left++
		}
		if w.state == wanted || w.state == arriving {
			open++
		}
	}
	for i := range a.ranges {
		w := &a.ranges[i]
		if open == maxWanted {
			break
		}
		if w.state != missing {
			continue
		}
		if w.tries == maxTries {
			return nil, false, kinds.Errorf(kinds.Timeout, "a part of the file did not come in %d attempts: send it again under the same id, and the rest follows", maxTries)
		}
		w.state, w.since = wanted, now
		w.tries++
		open++
		wants = append(wants, &wire.FileReply{Op: wire.FileWant, Offset: uint64(i) * wire.FileRangeBytes, Length: rangeLength(a.size, i), Have: a.have})
	}
	return wants, left == 0, nil
}

// forgetRanges makes all ranges missing.
func (a *arrival) forgetRanges() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.ranges)
	a.have = 0
	a.marks.Truncate(0)
}

// hash hashes the bytes in their order as soon as they are there.
func (a *arrival) hash(ctx context.Context, sum *[32]byte) error {
	h := sha256.New()
	buf := pieces.Get().(*[pieceBytes]byte)
	defer pieces.Put(buf)
	for i := range countRanges(a.size) {
		for {
			ring := a.arrived.NextRing()
			if a.isPresent(i) {
				break
			}
			select {
			case <-ring:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		offset := int64(i) * wire.FileRangeBytes
		if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{io.NewSectionReader(a.file, offset, int64(rangeLength(a.size, i)))}, buf[:]); err != nil {
			return ownwords.Errorf("read a file: %w", err)
		}
	}
	h.Sum(sum[:0])
	return nil
}

func (a *arrival) isPresent(i int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ranges[i].state == present
}

// serveRange takes a range that was wanted, and ends its stream. What nobody has asked for is not read.
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
	err := a.readRange(st, r, body)
	stop()
	a.endRange(r, err)
	if err != nil {
		st.Cancel()
		return
	}
	st.Close()
}

// beginRange reports whether a range is wanted, and its stream the first that brings it.
func (a *arrival) beginRange(r *wire.FileRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := int(r.Offset / wire.FileRangeBytes)
	if a.file == nil || a.closing || r.Offset >= a.size || r.Length != rangeLength(a.size, i) || a.ranges[i].state != wanted {
		return false
	}
	a.ranges[i].state = arriving
	a.writers.Add(1)
	return true
}

// storeError is an error of this machine's disk.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// readRange writes a range to the disk as it comes.
func (a *arrival) readRange(st *peer.Stream, r *wire.FileRequest, body *bufio.Reader) error {
	buf := pieces.Get().(*[pieceBytes]byte)
	defer pieces.Put(buf)
	end := time.Now().Add(rangeTime)
	for at := r.Offset; at < r.Offset+r.Length; at += pieceBytes {
		piece := buf[:min(pieceBytes, r.Offset+r.Length-at)]
		for n := 0; n < len(piece); {
			st.SetReadDeadline(time.Now().Add(min(idleTime, time.Until(end))))
			more, err := body.Read(piece[n:])
			if n += more; err != nil && n < len(piece) {
				return err
			}
		}
		if _, err := a.file.WriteAt(piece, int64(at)); err != nil {
			return storeError{ownwords.Errorf("store a file: %w", err)}
		}
	}
	if _, err := body.ReadByte(); err != io.EOF {
		return ownwords.New("more bytes came than were wanted")
	}
	if _, err := a.marks.WriteAt([]byte{1}, int64(r.Offset/wire.FileRangeBytes)); err != nil {
		return storeError{ownwords.Errorf("store a file: %w", err)}
	}
	return nil
}

// endRange records whether a range has come.
func (a *arrival) endRange(r *wire.FileRequest, err error) {
	a.mu.Lock()
	w := &a.ranges[r.Offset/wire.FileRangeBytes]
	w.state = missing
	if err == nil {
		w.state = present
		a.have += r.Length
	} else if _, ok := err.(storeError); ok {
		a.failed = err
	}
	a.mu.Unlock()
	a.changed.Set()
	a.arrived.Ring()
}
