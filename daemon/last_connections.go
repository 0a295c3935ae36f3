package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/acpd/acpd/daemon/delegation"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// addrsWait is how long a new address waits for others, before all are written.
const addrsWait = time.Second

// maxLeft bounds the addresses of peers that are trusted no more: who is trusted again
// after a mistake is among the last.
const maxLeft = 256

// lastConnection is when a peer was last connected in this run of the daemon, zero for
// never, and where it last was in any.
type lastConnection struct {
	at   time.Time
	addr string
}

// lastConnections remembers when and where trusted peers were last connected, the where on
// disk too: it leads to them where nothing else is heard. A crash may lose what came
// in the last second. The trust store bounds how many there are. Of who is trusted no
// more the where is kept in memory alone, for the case that trust comes back.
type lastConnections struct {
	db    *store.DB
	moved pace.Signal // holds one where dirty is not empty

	mu    sync.Mutex // guards the rest
	last  map[identity.ID]lastConnection
	left  map[identity.ID]string // where those that are trusted no more last were
	dirty map[identity.ID]bool   // the disk has another address, or none
}

func openLastConnections(ctx context.Context, db *store.DB) (*lastConnections, error) {
	s := &lastConnections{db: db, moved: pace.NewSignal(), left: make(map[identity.ID]string), dirty: make(map[identity.ID]bool)}
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		s.last, err = readAddrs(tx)
		return err
	})
	return s, err
}

func (s *lastConnections) record(id identity.ID, addr string, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[id].addr != addr {
		s.markDirty(id)
	}
	s.last[id] = lastConnection{t, addr}
	delete(s.left, id)
}

func (s *lastConnections) get(id identity.ID) lastConnection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[id]
}

func (s *lastConnections) forget(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.last[id]; ok {
		s.markDirty(id)
		delete(s.last, id)
		if was.addr == "" {
			return
		}
		for other := range s.left {
			if len(s.left) < maxLeft {
				break
			}
			delete(s.left, other)
		}
		s.left[id] = was.addr
	}
}

// recall returns where a peer was when it was trusted last, in this run of the daemon,
// and forgets it; "" if that is not known.
func (s *lastConnections) recall(id identity.ID) (addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr = s.left[id]
	delete(s.left, id)
	return addr
}

// markDirty notes that the disk is behind. Callers hold mu.
func (s *lastConnections) markDirty(id identity.ID) {
	s.dirty[id] = true
	s.moved.Set()
}

// run writes addresses until ctx ends, and then the rest. What cannot be written is
// tried again.
func (s *lastConnections) run(ctx context.Context, log *slog.Logger) error {
	failing := false
	for pause := addrsWait; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-s.moved:
			_ = pace.Sleep(ctx, pause)
		}
		err := s.save(context.WithoutCancel(ctx))
		if err != nil && !failing {
			log.Warn("the addresses of peers are not on disk, and will be tried again", "err", err)
		}
		if failing = err != nil; failing {
			pause = min(2*pause, delegation.SlowestWrite)
		} else {
			pause = addrsWait
		}
	}
	return nil
}

func (s *lastConnections) save(ctx context.Context) error {
	s.mu.Lock()
	addrs := make(map[identity.ID]string, len(s.dirty))
	for id := range s.dirty {
		addrs[id] = s.last[id].addr
	}
	clear(s.dirty)
	s.mu.Unlock()
	if len(addrs) == 0 {
		return nil
	}
	err := s.db.Write(ctx, false, func(tx *store.Tx) error {
		for id, addr := range addrs {
			if err := writeAddr(tx, id, addr); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for id := range addrs {
			s.markDirty(id)
		}
	}
	return err
}
