package discovery

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// zone is what the servers of all interfaces answer from. They share one, since
// each of them hears the questions of all interfaces: so duplicates are equal.
type zone struct {
	current atomic.Pointer[records] // nil: nothing to say
	quota   quota
}

// Records answers a question. The servers answer any source, also one that is
// forged or far away; the quota bounds what they can be made to send.
func (z *zone) Records(q dns.Question) []dns.RR {
	known := z.current.Load()
	class := q.Qclass &^ flush
	if known == nil || class != dns.ClassINET && class != dns.ClassANY {
		return nil
	}
	answer := known.answer(strings.ToLower(q.Name), q.Qtype)
	if len(answer) == 0 || !z.quota.take(netip.Addr{}, 1, time.Now()) {
		return nil
	}
	return answer
}
