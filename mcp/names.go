package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

// petnames knows how peers are called here.
type petnames struct {
	mu    sync.Mutex
	known map[identity.ID]string
	asked time.Time
}

// namesFor is how long a petname is believed.
const namesFor = 30 * time.Second

// find returns the peer that a text of its id, or its petname, names, and its petname.
func (p *petnames) find(ctx context.Context, s *Server, peer string) (identity.ID, string) {
	id, err := identity.ParseID(peer)
	if err == nil {
		return id, p.of(ctx, s, id)
	}
	p.refresh(ctx, s, func() bool { return false })
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, name := range p.known {
		if name == peer {
			return id, name
		}
	}
	return identity.ID{}, "a peer"
}

// of returns the petname of a peer, or the label of its id if it has no petname.
func (p *petnames) of(ctx context.Context, s *Server, id identity.ID) string {
	p.refresh(ctx, s, func() bool { return p.known[id] != "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	if name := p.known[id]; name != "" {
		return name
	}
	return id.Label()
}

// refresh asks the daemon for the petnames, unless they are fresh and enough returns true.
// It calls enough with p locked.
func (p *petnames) refresh(ctx context.Context, s *Server, enough func() bool) {
	p.mu.Lock()
	fresh := time.Since(p.asked) < namesFor && enough()
	p.mu.Unlock()
	if fresh {
		return
	}
	peers, err := twice(ctx, s.Daemon.Peers)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.asked = make(map[identity.ID]string, len(peers)), time.Now()
	for _, peer := range peers {
		p.known[peer.ID] = peer.Name
	}
}
