package discovery

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

const (
	headerLen = 12
)

// packet is a question or a response as it was received from port 5353.
type packet struct {
	data []byte
	src  netip.Addr // without the zone
	nic  nic        // where it came in
}

// announcement holds the facts that a packet states about one instance.
type announcement struct {
	instance string // lower case, in the presentation format of DNS
	bye      bool
	id       identity.ID // of a goodbye possibly zero; else it is not
	claim    string
	port     uint16
	addrs    []netip.AddrPort // as announced, unchecked
}

// responseBit is the bit of the third byte that tells an answer from a question.
const responseBit = 1 << 7

// The beginnings of labels that what concerns this package contains: the service, the
// question which services there are, and the hosts that run it.
var (
	serviceLabel = []byte("\x04_acp")
	enumLabel    = []byte("\x07_dns-sd")
	hostLabel    = []byte("\x0eacp-")
)

// isServicePacket reports whether data can be about the service. It spares the decoding of
// everything else that is said on the network.
func isServicePacket(data []byte) bool {
	return len(data) >= headerLen && len(data) <= maxPacket && containsLabel(data, serviceLabel)
}

// isQuestionPacket reports whether data can be a question that is answered here.
func isQuestionPacket(data []byte) bool {
	return len(data) >= headerLen && len(data) <= maxPacket && data[2]&responseBit == 0 &&
		(containsLabel(data, serviceLabel) || containsLabel(data, enumLabel) || containsLabel(data, hostLabel))
}

// containsLabel reports whether a label, in any case, is in a packet of at least a header.
func containsLabel(data, label []byte) bool {
	for rest := data[headerLen:]; ; {
		i := bytes.IndexByte(rest, label[0])
		if i < 0 || len(rest)-i < len(label) {
			return false
		}
		if bytes.EqualFold(rest[i:i+len(label)], label) {
			return true
		}
		rest = rest[i+1:]
	}
}

// isQuestionAbout reports whether data asks about an instance, by its name or the
// service's, and the one who asks does not know the answer (RFC 6762, section 7.1).
func isQuestionAbout(data []byte, instance string) bool {
	var msg dns.Msg
	if len(data) < headerLen || len(data) > maxPacket || data[2]&responseBit != 0 || msg.Unpack(data) != nil || msg.Opcode != dns.OpcodeQuery {
		return false
	}
	known := includesKnownAnswer(&msg, instance)
	return slices.ContainsFunc(msg.Question, func(q dns.Question) bool {
		all := strings.EqualFold(q.Name, service) && (q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY)
		return all && !known || strings.EqualFold(q.Name, instance)
	})
}

// includesKnownAnswer reports whether who asks has an instance's answer already.
func includesKnownAnswer(msg *dns.Msg, instance string) bool {
	return slices.ContainsFunc(msg.Answer, func(rr dns.RR) bool {
		ptr, ok := rr.(*dns.PTR)
		return ok && strings.EqualFold(ptr.Ptr, instance) && ptr.Hdr.Ttl >= lifetime/2
	})
}

// packetContent holds the facts that a packet states.
type packetContent struct {
	found     []announcement
	mentioned []string // instances that it describes only in part
	cut       bool     // it had more to say (the TC bit)
}

// decodePacket reads a packet. It leaves out what is malformed or of another version.
func decodePacket(data []byte) (r packetContent) {
	var msg dns.Msg
	if len(data) > maxPacket || msg.Unpack(data) != nil || !msg.Response || msg.Opcode != dns.OpcodeQuery || msg.Rcode != dns.RcodeSuccess {
		return r
	}
	r.cut = msg.Truncated
	type parts struct {
		srv *dns.SRV
		txt *dns.TXT
		bye bool
	}
	var (
		names     []string
		instances = make(map[string]*parts)
		hosts     = make(map[string][]netip.Addr)
	)
	// of returns the parts of an instance; of other names, parts that nobody will look at.
	of := func(instance string, ttl uint32) *parts {
		label, ok := strings.CutSuffix(instance, "."+service)
		p := instances[instance]
		if p == nil {
			p = &parts{}
			// An escaped dot ends no label.
			if ok && label != "" && !strings.HasSuffix(label, `\`) {
				names = append(names, instance)
				instances[instance] = p
			}
		}
		p.bye = p.bye || ttl == 0
		return p
	}
	for _, rr := range slices.Concat(msg.Answer, msg.Extra) {
		h := rr.Header()
		if h.Class&^flush != dns.ClassINET {
			continue
		}
		name := strings.ToLower(h.Name)
		switch rr := rr.(type) {
		case *dns.PTR:
			if name == service {
				of(strings.ToLower(rr.Ptr), h.Ttl)
			}
		case *dns.SRV:
			of(name, h.Ttl).srv = rr
		case *dns.TXT:
			of(name, h.Ttl).txt = rr
		case *dns.A:
			if ip, ok := netip.AddrFromSlice(rr.A); ok && h.Ttl > 0 {
				hosts[name] = append(hosts[name], ip.Unmap())
			}
		case *dns.AAAA:
			if ip, ok := netip.AddrFromSlice(rr.AAAA); ok && h.Ttl > 0 {
				hosts[name] = append(hosts[name], ip.Unmap())
			}
		}
	}
	for _, name := range names {
		p := instances[name]
		a := announcement{instance: name, bye: p.bye}
		ok := p.txt != nil && a.readTXT(p.txt.Txt)
		if p.srv != nil {
			a.port = p.srv.Port
			for _, ip := range hosts[strings.ToLower(p.srv.Target)] {
				a.addrs = append(a.addrs, netip.AddrPortFrom(ip, a.port))
			}
		}
		switch {
		case a.bye:
			r.found = append(r.found, a)
		case p.txt == nil || p.srv == nil || ok && len(a.addrs) == 0:
			r.mentioned = append(r.mentioned, name)
		case ok && a.port != 0:
			r.found = append(r.found, a)
		}
	}
	return r
}

// readTXT reads the strings of a TXT record (RFC 6763, section 6; of a= there may be
// several) and reports whether they are of version 1 and name an id.
func (a *announcement) readTXT(txt []string) bool {
	var versions, ids, names []string
	for _, s := range txt {
		key, value, _ := strings.Cut(unescapeTXT(s), "=")
		switch strings.ToLower(key) {
		case "v":
			versions = append(versions, value)
		case "id":
			ids = append(ids, value)
		case "name":
			names = append(names, value)
		case "a":
			if addr, err := netip.ParseAddrPort(value); err == nil && len(a.addrs) < 2*maxAddrs {
				a.addrs = append(a.addrs, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
			}
		}
	}
	if len(versions) == 0 || versions[0] != "1" || len(ids) == 0 {
		return false
	}
	if len(names) > 0 {
		a.claim = identity.CleanClaim(names[0])
	}
	var err error
	a.id, err = identity.ParseID(ids[0])
	return err == nil && !a.id.IsZero()
}

// unescapeTXT undoes the presentation format in which the dns package gives strings
// (RFC 1035, section 5.1).
func unescapeTXT(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			c = s[i]
			if i+2 < len(s) && digit(c) && digit(s[i+1]) && digit(s[i+2]) {
				c = (c-'0')*100 + (s[i+1]-'0')*10 + s[i+2] - '0'
				i += 2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}
