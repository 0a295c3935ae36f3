package addresses

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// addrsPause is the time in which further new addresses may come before all are written.
const addrsPause = time.Second

// maxForgottenAddrs bounds oldAddrs. A peer that is trusted again after a mistake is among
// the last.
const maxForgottenAddrs = 256

// lastConnection holds the time at which a peer was last connected in this run of the
// daemon, zero for never, and its last address in any run.
type lastConnection struct {
	at       time.Time
	addr     string
	inMemory bool // and not on disk: it is a peer by its certificate
}

// lastConnections remembers when and where trusted peers were last connected. The addresses
// are on disk too, so that the daemon finds peers again that nobody announces. A crash
// may lose what came in the last second. The trust store bounds their number.
//
// The address of a peer that is no longer trusted is kept only in memory, in case it is
// trusted again.
type lastConnections struct {
	db      *store.DB
	changed pace.Signal // set if dirty is not empty

	mu       sync.Mutex // guards the rest
	last     map[identity.ID]lastConnection
	oldAddrs map[identity.ID]string // last addresses of peers that are no longer trusted
	dirty    map[identity.ID]bool   // those whose address on disk differs
}

func newLastConnections(db *store.DB, last map[identity.ID]lastConnection) *lastConnections {
	return &lastConnections{db: db, changed: pace.NewSignal(), last: last, oldAddrs: make(map[identity.ID]string), dirty: make(map[identity.ID]bool)}
}

// record notes that a peer was connected at a UDP address. On any other link addr is "", and the last address
// stays as it is.
func (s *lastConnections) record(id identity.ID, addr string, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr = cmp.Or(addr, s.last[id].addr)
	if was := s.last[id]; was.addr != addr || was.inMemory {
		s.markDirty(id)
	}
	s.last[id] = lastConnection{at: t, addr: addr}
	delete(s.oldAddrs, id)
}

// recordInMemory does what record does for a peer by its certificate. There may be many of these, so the
// address is not written to disk.
func (s *lastConnections) recordInMemory(id identity.ID, addr string, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.last[id]; ok && !was.inMemory {
		s.markDirty(id) // it was a trusted one
	}
	s.last[id] = lastConnection{at: t, addr: addr, inMemory: true}
}

func (s *lastConnections) get(id identity.ID) lastConnection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[id]
}

func (s *lastConnections) forgetPeer(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.last[id]; ok {
		s.markDirty(id)
		delete(s.last, id)
		if was.addr == "" {
			return
		}
		for other := range s.oldAddrs {
			if len(s.oldAddrs) < maxForgottenAddrs {
				break
			}
			delete(s.oldAddrs, other)
		}
		s.oldAddrs[id] = was.addr
	}
}

// forgetAddr forgets where a peer was connected, and not when.
func (s *lastConnections) forgetAddr(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.oldAddrs, id)
	if was, ok := s.last[id]; ok && was.addr != "" {
		was.addr = ""
		s.last[id] = was
		s.markDirty(id)
	}
}

// takeOldAddr returns and forgets the last address of a peer from when it was trusted before in this run of
// the daemon, or "".
func (s *lastConnections) takeOldAddr(id identity.ID) (addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr = s.oldAddrs[id]
	delete(s.oldAddrs, id)
	return addr
}

// markDirty notes that the address on disk differs. Callers hold mu.
func (s *lastConnections) markDirty(id identity.ID) {
	s.dirty[id] = true
	s.changed.Set()
}

func (s *lastConnections) save(ctx context.Context) error {
	s.mu.Lock()
	addrs := make(map[identity.ID]string, len(s.dirty))
	for id := range s.dirty {
		if last := s.last[id]; last.inMemory {
			addrs[id] = ""
		} else {
			addrs[id] = last.addr
		}
	}
	clear(s.dirty)
	s.mu.Unlock()
	if len(addrs) == 0 {
		return nil
	}
	err := s.db.Write(ctx, false, func(tx *store.Tx) error {
		for id, addr := range addrs {
			if err := writePeerAddr(tx, id, addr); err != nil {
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

// readPeerAddrs returns where peers were last connected.
func readPeerAddrs(tx *store.Tx) (map[identity.ID]lastConnection, error) {
	all := make(map[identity.ID]lastConnection)
	return all, tx.EachRow("SELECT peer, addr FROM daemon_addr", func(scan func(...any) error) error {
		var id identity.ID
		var s lastConnection
		err := scan(store.Blob(id[:]), &s.addr)
		all[id] = s
		return err
	})
}

// writePeerAddr sets the address of a peer; "" removes it.
func writePeerAddr(tx *store.Tx, id identity.ID, addr string) error {
	if addr == "" {
		_, err := tx.Exec("DELETE FROM daemon_addr WHERE peer = ?", id[:])
		return err
	}
	_, err := tx.Exec("INSERT INTO daemon_addr (peer, addr) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET addr = excluded.addr", id[:], addr)
	return err
}
