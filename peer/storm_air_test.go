package peer

import (
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// fault is a kind of thing that goes wrong.
type fault int

const (
	partition fault = iota
	loss
	reordering
	duplication
	corruption
	closing
	going
	resets
	untrusting
	restart
	panics
	faults // how many there are without a relay
)

// These are of a relay.
const (
	outage fault = faults + iota
	lies
	forgetting
	unlinking
	relayFaults
)

var faultNames = [faults]string{"partition", "loss", "reordering", "duplication", "corruption", "closed connections", "goaway", "reset streams", "untrust", "restarts", "panics"}

var relayFaultNames = append(faultNames[:], "outages", "false notices", "forgotten peers", "removed links")

// air carries packets, and does to them what the weather is like.
type air struct {
	simnet.PerfectRouter
	w *weather

	mu sync.Mutex
	is [faults]bool // of the network
}

func (a *air) set(f fault, on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.is[f] = on
}

func (a *air) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.is = [faults]bool{}
}

func (a *air) SendPacket(p simnet.Packet) error {
	a.mu.Lock()
	is := a.is
	a.mu.Unlock()
	if is == ([faults]bool{}) {
		return a.PerfectRouter.SendPacket(p)
	}
	draw := a.w.DrawBelow(100)
	switch {
	case is[partition], is[loss] && draw < 20:
		return nil
	case is[duplication] && draw < 30:
		q := p
		q.Data = append([]byte(nil), p.Data...)
		a.PerfectRouter.SendPacket(q)
	case is[corruption] && draw < 10:
		p.Data = append([]byte(nil), p.Data...)
		for range 3 {
			p.Data[a.w.DrawBelow(len(p.Data))] ^= byte(1 + a.w.DrawBelow(255))
		}
	case is[reordering] && draw < 30:
		time.AfterFunc(a.w.ms(30), func() { a.PerfectRouter.SendPacket(p) })
		return nil
	}
	return a.PerfectRouter.SendPacket(p)
}
