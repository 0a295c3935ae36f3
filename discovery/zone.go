package discovery

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"
)

const (
	maxAnswer    = 1232 // bytes of an answer: what the least MTU of IPv6 leaves for it
	maxQuestions = 16   // of a packet that are looked at; there are four to ask
	legacyTTL    = 10   // seconds, to a host without mDNS, which gets no goodbye (RFC 6762, section 6.7)
)

// zone holds the records with which all interfaces answer.
type zone struct {
	current atomic.Pointer[dnsRecords] // nil: nothing to say
	quota   packetQuota                // of packets that ask
}

var _ mdns.Zone = (*zone)(nil)

// Records returns the records that answer a question.
func (z *zone) Records(q dns.Question) []dns.RR {
	known := z.current.Load()
	class := q.Qclass &^ flush
	if known == nil || class != dns.ClassINET && class != dns.ClassANY {
		return nil
	}
	return known.answerQuestion(strings.ToLower(q.Name), q.Qtype)
}

// answerPacket returns the one packet, of at most 1,232 bytes, that answers all questions of a
// packet, or nil if there is nothing to answer. Those who ask are on the link, or
// the packet would not come here. The quota is asked before the packet is unpacked.
func (z *zone) answerPacket(data []byte, from netip.AddrPort) []byte {
	known := z.current.Load()
	if known == nil || !isQuestionPacket(data) || !z.quota.takeUnits(from.Addr(), 1+len(data)/1024, time.Now()) {
		return nil
	}
	var msg dns.Msg
	if msg.Unpack(data) != nil || msg.Opcode != dns.OpcodeQuery {
		return nil
	}
	reply := dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	for _, q := range msg.Question[:min(len(msg.Question), maxQuestions)] {
		if strings.EqualFold(q.Name, service) && includesKnownAnswer(&msg, known.instance) {
			continue
		}
		for _, rr := range z.Records(q) {
			if !slices.Contains(reply.Answer, rr) {
				reply.Answer = append(reply.Answer, rr)
			}
		}
	}
	if len(reply.Answer) == 0 {
		return nil
	}
	if from.Port() != mdnsPort {
		reply.Id = msg.Id
		if len(msg.Question) == 1 {
			reply.Question = msg.Question
		}
		for i, rr := range reply.Answer {
			rr = dns.Copy(rr)
			rr.Header().Class &^= flush
			rr.Header().Ttl = legacyTTL
			reply.Answer[i] = rr
		}
	}
	return packReplyWithinLimit(&reply)
}

// packReplyWithinLimit packs an answer, without the last addresses if it is too long with them: the TXT
// record has those that are valid beyond the link too.
func packReplyWithinLimit(reply *dns.Msg) []byte {
	for {
		data, err := reply.Pack()
		if err != nil {
			return nil // the question that it repeats cannot be packed
		}
		if len(data) <= maxAnswer {
			return data
		}
		last := -1
		for i, rr := range reply.Answer {
			if t := rr.Header().Rrtype; t == dns.TypeA || t == dns.TypeAAAA {
				last = i
			}
		}
		if last < 0 {
			return nil
		}
		reply.Answer = slices.Delete(reply.Answer, last, last+1)
	}
}
