package discovery

import (
	"net/netip"
	"sync"
	"time"
)

// How much foreign packets may cost in a second. A packet costs one for each KiB begun,
// and one for each service in it.
const (
	maxPerSource = 512
	maxPerSecond = 2048
)

// packetQuota bounds what each source may use up in a second.
type packetQuota struct {
	mu    sync.Mutex // guards the rest
	since time.Time
	total int
	of    map[netip.Addr]int
}

// takeUnits uses up n units, if there are any left.
func (q *packetQuota) takeUnits(source netip.Addr, n int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil {
		q.of = make(map[netip.Addr]int)
	}
	if now.Sub(q.since) >= time.Second {
		q.since, q.total = now, 0
		clear(q.of)
	}
	if q.total >= maxPerSecond || q.of[source] >= maxPerSource {
		return false
	}
	q.total += n
	q.of[source] += n
	return true
}
