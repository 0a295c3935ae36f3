package discovery

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

var lo = nic{net.Interface{Index: 1, Name: "lo", Flags: net.FlagUp | net.FlagLoopback}, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}}

var eth0 = nic{net.Interface{Index: 2, Name: "eth0"}, []netip.Prefix{
	netip.MustParsePrefix("10.0.0.9/24"), netip.MustParsePrefix("fe80::9/64"), netip.MustParsePrefix("2001:db8::9/64")}}

func addrPorts(addrs ...string) (list []netip.AddrPort) {
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(a))
	}
	return list
}

// message packs records as zone files have them.
func message(t testing.TB, edit func(*dns.Msg), lines ...string) []byte {
	t.Helper()
	msg := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	for _, l := range lines {
		rr, err := dns.NewRR(l)
		if err != nil {
			t.Fatal(err)
		}
		msg.Answer = append(msg.Answer, rr)
	}
	if edit != nil {
		edit(msg)
	}
	data, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func foreign(name string, id identity.ID, ttl int) []string {
	return []string{
		fmt.Sprintf(`_acp._udp.local. %d IN PTR %s._acp._udp.local.`, ttl, name),
		fmt.Sprintf(`%s._acp._udp.local. %d IN SRV 0 0 7117 Host.local.`, name, ttl),
		fmt.Sprintf(`%s._acp._udp.local. %d IN TXT "V=1" "id=%s" "name=\206\177 x" "id=no"`, name, ttl, id),
	}
}

const hostA = `host.local. 10 IN A 10.0.0.5`

func TestDecode(t *testing.T) {
	for name, test := range map[string]struct {
		data      []byte
		found     []string
		mentioned []string
	}{
		"three in one packet": {
			data:  message(t, nil, slices.Concat(foreign("one", planner, 10), foreign(`two\ words`, reviewer, 10), foreign("THREE", identity.ID{3}, 4500), []string{hostA, `HOST.local. 10 IN AAAA fe80::5`})...),
			found: []string{"one 01 10.0.0.5:7117 [fe80::5]:7117", `two\ words 02 10.0.0.5:7117 [fe80::5]:7117`, "three 03 10.0.0.5:7117 [fe80::5]:7117"},
		},
		"ours":                         {data: newDNSRecords(planner, `back\slash "quoted" ü`, addrPorts("10.0.0.5:7117", "[2001:db8::5]:7117")).encodeAnnouncement(lifetime), found: []string{strings.TrimSuffix(instanceName(planner), "."+service) + " 01 10.0.0.5:7117 [2001:db8::5]:7117 10.0.0.5:7117 [2001:db8::5]:7117"}},
		"goodbye":                      {data: message(t, nil, foreign("one", planner, 0)...), found: []string{"one 01 bye"}},
		"goodbye of the pointer alone": {data: message(t, nil, foreign("one", planner, 0)[0]), found: []string{"one 00 bye"}},
		"only mentioned":               {data: message(t, nil, foreign("one", planner, 10)[:2]...), mentioned: []string{"one"}},
		"without an address":           {data: message(t, nil, foreign("one", planner, 10)...), mentioned: []string{"one"}},
		"address that goes":            {data: message(t, nil, append(foreign("one", planner, 10), `host.local. 0 IN A 10.0.0.5`)...), mentioned: []string{"one"}},
		"additional records": {data: message(t, func(m *dns.Msg) { m.Answer, m.Extra = m.Answer[:1], m.Answer[1:] }, append(foreign("one", planner, 10), hostA)...),
			found: []string{"one 01 10.0.0.5:7117"}},
		"cache-flush bits": {data: message(t, func(m *dns.Msg) {
			for _, rr := range m.Answer[1:] {
				rr.Header().Class |= flush
			}
		}, append(foreign("one", planner, 10), hostA)...), found: []string{"one 01 10.0.0.5:7117"}},
		"another service": {data: message(t, nil, `_ipp._tcp.local. 10 IN PTR printer._ipp._tcp.local.`, `printer._ipp._tcp.local. 10 IN SRV 0 0 631 host.local.`, hostA)},
		"another class": {data: message(t, func(m *dns.Msg) {
			for _, rr := range m.Answer {
				rr.Header().Class = dns.ClassCHAOS
			}
		}, append(foreign("one", planner, 10), hostA)...)},
		"a question":      {data: message(t, func(m *dns.Msg) { m.Response = false }, append(foreign("one", planner, 10), hostA)...)},
		"an error":        {data: message(t, func(m *dns.Msg) { m.Rcode = dns.RcodeRefused }, append(foreign("one", planner, 10), hostA)...)},
		"another version": {data: message(t, nil, foreign("one", planner, 10)[1], `one._acp._udp.local. 10 IN TXT "v=2" "id=`+planner.String()+`"`, hostA)},
		"upper-case id":   {data: message(t, nil, foreign("one", planner, 10)[1], `one._acp._udp.local. 10 IN TXT "v=1" "id=`+strings.Repeat("AB", 32)+`"`, hostA)},
		"id of zeros":     {data: message(t, nil, foreign("one", planner, 10)[1], `one._acp._udp.local. 10 IN TXT "v=1" "id=`+strings.Repeat("0", 64)+`"`, hostA)},
		"port 0":          {data: message(t, nil, `one._acp._udp.local. 10 IN SRV 0 0 0 host.local.`, foreign("one", planner, 10)[2], hostA)},
		"too large":       {data: append(message(t, nil, append(foreign("one", planner, 10), hostA)...), make([]byte, maxPacket)...)},
		"dot in a label":  {data: message(t, nil, foreign("one", planner, 10)[1], `_acp._udp.local. 10 IN PTR x\._acp._udp.local.`), mentioned: []string{"one"}},
		"empty":           {},
	} {
		t.Run(name, func(t *testing.T) {
			r := decodePacket(test.data)
			var found []string
			for _, a := range r.found {
				s := strings.TrimSuffix(a.instance, "."+service) + " " + a.id.String()[:2]
				for _, addr := range a.addrs {
					s += " " + addr.String()
				}
				if a.bye {
					s = strings.Join(strings.Fields(s)[:2], " ") + " bye"
				}
				found = append(found, s)
				if !a.bye && a.claim != "α x" && a.claim != `back\slash "quoted" ü` {
					t.Errorf("claim %q", a.claim)
				}
			}
			var mentioned []string
			for _, m := range r.mentioned {
				mentioned = append(mentioned, strings.TrimSuffix(m, "."+service))
			}
			if !slices.Equal(found, test.found) || !slices.Equal(mentioned, test.mentioned) {
				t.Errorf("found %q, mentioned %q; want %q, %q", found, mentioned, test.found, test.mentioned)
			}
			if len(test.found)+len(test.mentioned) > 0 && !isServicePacket(test.data) {
				t.Error("not taken for relevant")
			}
		})
	}
}

func TestRelevant(t *testing.T) {
	if isServicePacket(message(t, nil, `_ipp._tcp.local. 10 IN PTR printer._ipp._tcp.local.`)) {
		t.Error("a printer is relevant")
	}
	if !isServicePacket(encodeQuestion("_ACP._udp.local.", dns.TypePTR)) {
		t.Error("a question is not relevant")
	}
}

func TestQuestioned(t *testing.T) {
	ask := func(name string, qtype uint16, edit func(*dns.Msg), known ...string) []byte {
		return message(t, func(m *dns.Msg) {
			m.Response = false
			m.Question = []dns.Question{{Name: "printer._ipp._tcp.local.", Qtype: dns.TypeSRV, Qclass: dns.ClassINET}, {Name: name, Qtype: qtype, Qclass: dns.ClassINET | flush}}
			if edit != nil {
				edit(m)
			}
		}, known...)
	}
	own := instanceName(planner)
	for name, test := range map[string]struct {
		data []byte
		want bool
	}{
		"service":       {ask("_ACP._udp.local.", dns.TypePTR, nil), true},
		"instance":      {ask(strings.ToUpper(own[:9])+own[9:], dns.TypeSRV, nil), true},
		"other type":    {ask(service, dns.TypeSRV, nil), false},
		"other":         {ask(instanceName(reviewer), dns.TypeSRV, nil), false},
		"known":         {ask(service, dns.TypePTR, nil, "_acp._udp.local. 38 IN PTR "+own), false},
		"hardly known":  {ask(service, dns.TypePTR, nil, "_acp._udp.local. 30 IN PTR "+own), true},
		"others known":  {ask(service, dns.TypePTR, nil, "_acp._udp.local. 75 IN PTR "+instanceName(reviewer)), true},
		"response":      {ask(service, dns.TypePTR, func(m *dns.Msg) { m.Response = true }), false},
		"cut in pieces": {ask(service, dns.TypePTR, nil)[:40], false},
	} {
		if got := isQuestionAbout(test.data, own); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestUsableAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		src       string
		announced []string
		want      []string
	}{
		"on the link first":    {"10.0.0.5", []string{"192.168.7.5:1", "10.0.0.5:1", "fd00::5|1", "2001:db8::5|1"}, []string{"10.0.0.5:1", "2001:db8::5|1", "192.168.7.5:1", "fd00::5|1"}},
		"once":                 {"10.0.0.5", []string{"10.0.0.5:1", "10.0.0.5:1", "10.0.0.5:2"}, []string{"10.0.0.5:1", "10.0.0.5:2"}},
		"sender's link-local":  {"fe80::5", []string{"fe80::6|1", "fe80::5|1"}, []string{"fe80::5%eth0|1"}},
		"link-local over IPv4": {"10.0.0.5", []string{"fe80::5|1"}, nil},
		"nowhere":              {"10.0.0.5", []string{"203.0.113.5:1", "2001:db8:1::5|1", "127.0.0.1:1", "::1|1", "0.0.0.0:1", "224.0.0.251:1", "ff02::fb|1", "169.254.1.1:1", "10.0.0.5:0", "2001:db8::5%eth1|1"}, nil},
		"on this host":         {"127.0.0.1", []string{"10.0.0.5:1", "127.0.0.1:1", "::1|1", "fe80::5|1", "203.0.113.5:1"}, []string{"127.0.0.1:1", "::1|1", "10.0.0.5:1"}},
		"eight": {"10.0.0.5", []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1", "10.0.0.6:1", "10.0.0.7:1", "10.0.0.8:1", "10.0.0.10:1"},
			[]string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1", "10.0.0.6:1", "10.0.0.7:1", "10.0.0.8:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(texts []string) (list []netip.AddrPort) {
				for _, s := range texts {
					if ip, port, ok := strings.Cut(s, "|"); ok {
						s = "[" + ip + "]:" + port
					}
					list = append(list, netip.MustParseAddrPort(s))
				}
				return list
			}
			p := packet{src: netip.MustParseAddr(test.src), nic: eth0}
			if p.src.IsLoopback() {
				p.nic = lo
			}
			if got := p.filterUsableAddrs(parse(test.announced)); !slices.Equal(got, parse(test.want)) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// FuzzPacket hands arbitrary packets to a browser that has a trusted and a
// configured peer.
func FuzzPacket(f *testing.F) {
	ours := newDNSRecords(planner, "planner", addrPorts("10.0.0.5:7117", "[2001:db8::5]:7117", "[fe80::5]:7117"))
	f.Add(ours.encodeAnnouncement(lifetime), true)
	f.Add(ours.encodeAnnouncement(0), false)
	f.Add(encodeQuestion(service, dns.TypePTR), false)
	f.Add(encodeQuestion(instanceName(identity.ID{7}), dns.TypeANY), true)
	f.Add(message(f, nil, slices.Concat(foreign("one", planner, 10), foreign(`t\.wo\ \\x`, reviewer, 0), []string{hostA})...), false)
	f.Add(message(f, func(m *dns.Msg) { m.Truncated = true }, foreign("one", identity.ID{3}, 10)[0]), true)
	f.Fuzz(func(t *testing.T, data []byte, v6 bool) {
		r := newRecorder(planner)
		r.SetAddrs(reviewer, Static, "reviewer.example:7117")
		b := newBrowser(identity.ID{7}, 7117, r.Table)
		p := packet{data, netip.MustParseAddr("10.0.0.5"), eth0}
		if v6 {
			p.src = netip.MustParseAddr("fe80::5")
		}
		said := decodePacket(data)
		if isQuestionAbout(data, instanceName(b.self)) && !isServicePacket(data) {
			t.Error("asks what is not relevant")
		}
		if !isServicePacket(data) && len(said.found)+len(said.mentioned) > 0 {
			t.Error("decoded what is not relevant")
		}
		for _, a := range said.found {
			if a.claim != identity.CleanClaim(a.claim) || !a.bye && a.id.IsZero() {
				t.Errorf("announcement %+v", a)
			}
		}
		for range 2 {
			b.recordPacket(p)
		}
		if len(b.asking) > maxStrangers {
			t.Errorf("%d to ask", len(b.asking))
		}
		for _, instance := range b.asking {
			if q := encodeQuestion(instance, dns.TypeANY); len(q) > 512 {
				t.Errorf("a question of %d bytes", len(q))
			}
		}
		for _, e := range r.Entries() {
			if e.ID == b.self {
				t.Error("itself as a peer")
			}
			hints := 0
			for _, a := range e.Addrs {
				if err := identity.CheckAddr(a.HostPort); err != nil {
					t.Error(err)
				}
				if a.Source == MDNS {
					hints++
					ip := netip.MustParseAddrPort(a.HostPort).Addr()
					if ip.IsLoopback() || ip.IsMulticast() || ip.IsUnspecified() || !eth0.isOnLink(ip.WithZone("")) && !ip.IsPrivate() {
						t.Errorf("hint %v", ip)
					}
				}
			}
			if hints > maxAddrs {
				t.Errorf("%d hints", hints)
			}
		}
		if got := r.listPeerAddrs(reviewer); len(got) == 0 || got[0] != "reviewer.example:7117" {
			t.Errorf("configured address: %q", got)
		}
	})
}

// The most expensive packets that anybody may send.
func BenchmarkHostilePacket(b *testing.B) {
	var lines []string
	for i := range 120 {
		lines = append(lines, foreign(fmt.Sprint(i), identity.ID{0xa0, byte(i)}, 10)[1:]...)
	}
	services := message(b, nil, append(lines[:134], hostA)...)
	msg := dns.Msg{MsgHdr: dns.MsgHdr{Response: true}, Compress: true}
	long := strings.Repeat(strings.Repeat("x", 61)+".", 3) + service
	for len(msg.Answer) < 620 {
		msg.Answer = append(msg.Answer, &dns.PTR{Hdr: dns.RR_Header{Name: service, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: lifetime}, Ptr: long})
	}
	names, err := msg.Pack()
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{"services": services, "names": names} {
		if len(data) > maxPacket {
			b.Fatalf("%s: %d bytes", name, len(data))
		}
		b.Run(fmt.Sprintf("%s/%dB", name, len(data)), func(b *testing.B) {
			for b.Loop() {
				decodePacket(data)
			}
		})
	}
}
