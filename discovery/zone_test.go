package discovery

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"
)

// asking is a packet with questions; the name of one that is repeated is compressed.
func asking(t testing.TB, names []string, known ...string) []byte {
	return message(t, func(m *dns.Msg) {
		m.Response, m.Compress, m.Id = false, true, 77
		for _, name := range names {
			m.Question = append(m.Question, dns.Question{Name: name, Qtype: dns.TypeANY, Qclass: dns.ClassINET})
		}
	}, known...)
}

// unpack reads an answer and names the types of what is in it.
func unpack(t *testing.T, data []byte) (msg dns.Msg, types []string) {
	t.Helper()
	if len(data) == 0 {
		return msg, nil
	}
	if err := msg.Unpack(data); err != nil || !msg.Response || len(data) > maxAnswer {
		t.Fatalf("an answer of %d bytes: %v", len(data), err)
	}
	for _, rr := range msg.Answer {
		types = append(types, dns.TypeToString[rr.Header().Rrtype])
	}
	return msg, types
}

// TestAnswer: whatever a packet asks, one packet of at most 1,232 bytes answers it.
// holds: security.md#exposure-on-the-network
func TestAnswer(t *testing.T) {
	host, port := netip.MustParseAddrPort("10.0.0.5:5353"), netip.MustParseAddrPort("10.0.0.5:40000")
	few := newDNSRecords(planner, "planner", addrPorts("10.0.0.9:7117", "[2001:db8::9]:7117"))
	most := newDNSRecords(planner, strings.Repeat("ü", 40), manyAddrs())
	all := []string{"PTR", "SRV", "TXT", "A", "AAAA"}
	ptr := service + " 75 IN PTR " + few.instance
	for name, tt := range map[string]struct {
		records *dnsRecords
		data    []byte
		want    []string // types, sorted
	}{
		"the service":                 {few, asking(t, []string{service}), all},
		"all that there is":           {few, asking(t, []string{service, few.instance, few.host, enumeration}), append(slices.Clone(all), "PTR")},
		"the host":                    {few, asking(t, []string{strings.ToUpper(few.host)}), []string{"A", "AAAA"}},
		"which services there are":    {few, asking(t, []string{enumeration}), []string{"PTR"}},
		"the service, which it knows": {few, asking(t, []string{service}, ptr), nil},
		"another service":             {few, asking(t, []string{"_ipp._tcp.local."}), nil},
		"another instance":            {few, asking(t, []string{instanceName(reviewer)}), nil},
		"200 times the service":       {few, asking(t, slices.Repeat([]string{service}, 200)), all},
		"an answer":                   {few, few.encodeAnnouncement(lifetime), nil},
		"garbage":                     {few, []byte("\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x04_acp\xc0\x0c"), nil},
		"nothing to say":              {nil, asking(t, []string{service}), nil},
		"where there is too much":     {most, asking(t, slices.Repeat([]string{service, most.instance, most.host, enumeration}, 50)), nil},
	} {
		z := &zone{}
		z.current.Store(tt.records)
		_, types := unpack(t, z.answerPacket(tt.data, host))
		if tt.records == most { // as much as fits, and the one who asks can reach it
			if len(types) < 10 || !slices.Contains(types, "TXT") || !slices.Contains(types, "SRV") {
				t.Errorf("%s: %q", name, types)
			}
			continue
		}
		slices.Sort(types)
		want := slices.Sorted(slices.Values(tt.want))
		if !slices.Equal(types, want) {
			t.Errorf("%s: answers %q, want %q", name, types, want)
		}
	}

	// Who is no mDNS host gets what a resolver expects.
	z := &zone{}
	z.current.Store(few)
	msg, _ := unpack(t, z.answerPacket(asking(t, []string{service}), port))
	if msg.Id != 77 || len(msg.Question) != 1 {
		t.Errorf("id %d, %d questions", msg.Id, len(msg.Question))
	}
	for _, rr := range msg.Answer {
		if h := rr.Header(); h.Ttl != legacyTTL || h.Class != dns.ClassINET {
			t.Errorf("to a resolver: %v", rr)
		}
	}
	if msg, _ := unpack(t, z.answerPacket(asking(t, []string{service}), host)); msg.Id != 0 || msg.Answer[1].Header().Ttl != lifetime || msg.Answer[1].Header().Class&flush == 0 {
		t.Errorf("to a host: %v", msg)
	}
}

// TestReflection: what an answer is of its question. docs/discovery.md has the figures.
// holds: security.md#exposure-on-the-network
func TestReflection(t *testing.T) {
	from := netip.MustParseAddrPort("10.0.0.5:40000")
	for name, tt := range map[string]struct {
		addrs []netip.AddrPort
		most  int
	}{"one address": {addrPorts("10.0.0.9:7117"), 9}, "a host with many": {manyAddrs(), 25}} {
		z := &zone{}
		z.current.Store(newDNSRecords(planner, "planner", tt.addrs))
		for what, names := range map[string][]string{"least": {service}, "200 questions": slices.Repeat([]string{service}, 200)} {
			q := message(t, func(m *dns.Msg) {
				m.Response, m.Compress = false, true
				for _, name := range names {
					m.Question = append(m.Question, dns.Question{Name: name, Qtype: dns.TypePTR, Qclass: dns.ClassINET})
				}
			})
			a := z.answerPacket(q, from)
			t.Logf("%s, %s: %d bytes, answered by %d", name, what, len(q), len(a))
			if len(a) == 0 || len(a) > maxAnswer || len(a) > tt.most*len(q) {
				t.Errorf("%s, %s: %d bytes are answered by %d", name, what, len(q), len(a))
			}
		}
	}
}

// TestQuotaComesFirst: a packet over the quota is not unpacked.
// holds: security.md#exposure-on-the-network
func TestQuotaComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{}
		z.current.Store(newDNSRecords(planner, "planner", addrPorts("10.0.0.9:7117")))
		from := netip.MustParseAddrPort("10.0.0.66:5353")
		broken := make([]byte, 4<<10) // a name that leads back to itself
		copy(broken, "\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04_acp\xc0\x0c")
		for range maxPerSource {
			if z.answerPacket(broken, from) != nil {
				t.Fatal("garbage is answered")
			}
		}
		if z.quota.total < maxPerSource || z.quota.total > maxPerSource+5 {
			t.Errorf("%d units were taken", z.quota.total)
		}
		if z.answerPacket(asking(t, []string{service}), from) != nil {
			t.Error("an answer over the quota")
		}
		if z.answerPacket(asking(t, []string{service}), netip.MustParseAddrPort("10.0.0.5:5353")) == nil {
			t.Error("a quiet host is not answered beside the flood")
		}
	})
}

// TestWhoIsAnswered: who is on the link, on the interface of the socket, and nobody
// else; and of those only who speaks from the port of mDNS is believed.
// holds: security.md#exposure-on-the-network
func TestWhoIsAnswered(t *testing.T) {
	z := &zone{}
	z.current.Store(newDNSRecords(planner, "planner", addrPorts("10.0.0.9:7117")))
	type datagram struct {
		from  string
		index int
		data  []byte
	}
	question := asking(t, []string{service})
	in := []datagram{
		{"10.0.0.5:5353", 2, question}, {"10.0.0.6:40000", 2, question}, {"10.0.0.7:5353", 0, question},
		{"192.0.2.9:5353", 2, question}, {"192.0.2.9:40000", 2, question}, {"192.0.2.9:40000", 0, question}, // from afar
		{"10.0.0.8:5353", 3, question}, // by another interface
		{"10.0.0.9:5353", 2, asking(t, slices.Repeat([]string{service}, 200))},
	}
	var answered, taken []string
	s := &socket{index: 2}
	s.read = func(b []byte) (int, int, net.Addr, error) {
		if len(in) == 0 {
			return 0, 0, nil, net.ErrClosed
		}
		d := in[0]
		in = in[1:]
		return copy(b, d.data), d.index, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(d.from)), nil
	}
	s.write = func(data []byte, to *net.UDPAddr) error {
		unpack(t, data)
		answered = append(answered, to.String())
		return nil
	}
	p := &familySockets{group: s}
	p.readPackets(s, eth0, z, func(p packet) bool { taken = append(taken, p.src.String()); return true })
	if want := []string{"10.0.0.5:5353", "10.0.0.6:40000", "10.0.0.7:5353", "10.0.0.9:5353"}; !slices.Equal(answered, want) {
		t.Errorf("answered %q, want %q", answered, want)
	}
	if want := []string{"10.0.0.5", "10.0.0.7", "10.0.0.9"}; !slices.Equal(taken, want) {
		t.Errorf("heeded %q, want %q", taken, want)
	}
}
