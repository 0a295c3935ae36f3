package discovery

import (
	"encoding/base32"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

// The service and its limits (RFC 6763, RFC 6762).
const (
	service     = "_acp._udp.local."
	enumeration = "_services._dns-sd._udp.local."
	lifetime    = 75      // seconds that a record may be kept
	flush       = 1 << 15 // of a class: this record replaces what was known
	maxPacket   = 9000    // RFC 6762, section 17
)

// dnsRecords holds the DNS records of this daemon. It is never changed, but replaced.
type dnsRecords struct {
	instance, host string
	ptr            dns.RR
	about          []dns.RR // SRV and TXT
	addrs          []dns.RR // A and AAAA
	enum           []dns.RR // that there is the service
}

// instanceName returns the name of an id's service: the whole key, so that two
// daemons never meet under one name and a name need not be defended.
func instanceName(id identity.ID) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(id[:])) + "." + service
}

// newDNSRecords returns the records of a daemon that listens at addrs, all of one
// port, or nil without addresses: then there is nothing to announce.
func newDNSRecords(self identity.ID, name string, addrs []netip.AddrPort) *dnsRecords {
	if len(addrs) == 0 {
		return nil
	}
	r := &dnsRecords{instance: instanceName(self), host: "acp-" + self.Label() + ".local."}
	txt := []string{"v=1", "id=" + self.String()}
	if claim := identity.CleanClaim(name); claim != "" {
		txt = append(txt, "name="+strings.ReplaceAll(claim, `\`, `\\`))
	}
	var ips []net.IP
	listed, ofFamily := 0, map[bool]int{}
	for _, a := range addrs {
		ip := a.Addr()
		if ofFamily[ip.Is4()]++; ofFamily[ip.Is4()] > maxAddrs {
			continue
		}
		ips = append(ips, ip.AsSlice())
		// Without its interface a link-local address means nothing in text.
		if !ip.IsLinkLocalUnicast() && listed < maxAddrs {
			listed++
			txt = append(txt, "a="+a.String())
		}
	}
	label, _, _ := strings.Cut(r.instance, ".")
	s, err := mdns.NewMDNSService(label, strings.TrimSuffix(service, ".local."), "local.", r.host, int(addrs[0].Port()), ips, txt)
	if err != nil {
		return nil // a port of 0: nobody listens
	}
	// Its records are for ever the same; what makes one's own replace the older is ours.
	own := func(question string) []dns.RR {
		all := s.Records(dns.Question{Name: question, Qtype: dns.TypePTR})
		for _, rr := range all {
			h := rr.Header()
			h.Ttl = lifetime
			if h.Rrtype != dns.TypePTR {
				h.Class |= flush
			}
		}
		return all
	}
	r.enum = own(enumeration)
	for _, rr := range own(service) {
		switch rr.(type) {
		case *dns.PTR:
			r.ptr = rr
		case *dns.A, *dns.AAAA:
			r.addrs = append(r.addrs, rr)
		default:
			r.about = append(r.about, rr)
		}
	}
	return r
}

// answerQuestion returns the records that answer a question, with all that the one who
// asks will want to know next.
func (r *dnsRecords) answerQuestion(name string, qtype uint16) []dns.RR {
	is := func(types ...uint16) bool { return qtype == dns.TypeANY || slices.Contains(types, qtype) }
	switch {
	case name == service && is(dns.TypePTR):
		return r.listAll()
	case name == r.instance && is(dns.TypeSRV, dns.TypeTXT):
		return slices.Concat(r.about, r.addrs)
	case name == r.host && is(dns.TypeA, dns.TypeAAAA):
		return r.addrs
	case name == enumeration && is(dns.TypePTR):
		return r.enum
	}
	return nil
}

func (r *dnsRecords) listAll() []dns.RR { return slices.Concat([]dns.RR{r.ptr}, r.about, r.addrs) }

// encodeAnnouncement returns an announcement (RFC 6762, section 8.3), or with ttl 0 a goodbye
// (section 10.1).
func (r *dnsRecords) encodeAnnouncement(ttl uint32) []byte {
	msg := dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	for _, rr := range r.listAll() {
		if ttl != lifetime {
			rr = dns.Copy(rr)
			rr.Header().Ttl = ttl
		}
		msg.Answer = append(msg.Answer, rr)
	}
	data, err := msg.Pack()
	if err != nil {
		panic("discovery: " + err.Error()) // all parts are ours and of a checked length
	}
	return data
}

// encodeQuestion returns a question about a name (RFC 6762, section 5.1), or nil if the
// name, which may come from a stranger, cannot be asked for.
func encodeQuestion(name string, qtype uint16) []byte {
	msg := dns.Msg{Question: []dns.Question{{Name: name, Qtype: qtype, Qclass: dns.ClassINET}}}
	data, err := msg.Pack()
	if err != nil {
		return nil
	}
	return data
}
