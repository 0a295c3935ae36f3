package discovery

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

func manyAddrs() (addrs []netip.AddrPort) {
	for i := range byte(20) {
		addrs = append(addrs, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, i}), 7117),
			netip.AddrPortFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 4: 0xaa, 5: 0xaa, 6: 0xbb, 7: 0xbb, 8: 0xcc, 9: 0xcc, 15: i}), 65535))
	}
	return addrs
}

// The most that there can be to say fits one packet of an Ethernet.
func TestLargestAnnouncement(t *testing.T) {
	r := newDNSRecords(planner, strings.Repeat("ü", 40), manyAddrs())
	for _, ttl := range []uint32{lifetime, 0} {
		if n := len(r.encodeAnnouncement(ttl)); n > 1452 {
			t.Errorf("%d bytes", n)
		}
	}
	for _, s := range r.about[1].(*dns.TXT).Txt {
		if len(s) > 255 {
			t.Errorf("TXT string of %d bytes", len(s))
		}
	}
	if label, _, _ := strings.Cut(r.instance, "."); len(label) != 52 {
		t.Errorf("instance %q", r.instance)
	}
	if newDNSRecords(planner, "planner", nil) != nil {
		t.Error("something to say without an address")
	}
}

func TestZone(t *testing.T) {
	z := &zone{}
	ask := func(name string, qtype, class uint16) (types []string) {
		for _, rr := range z.Records(dns.Question{Name: name, Qtype: qtype, Qclass: class}) {
			h := rr.Header()
			s := dns.TypeToString[h.Rrtype]
			if h.Class&flush != 0 {
				s += "!"
			}
			if h.Ttl != lifetime {
				t.Errorf("%s: TTL %d", s, h.Ttl)
			}
			types = append(types, s)
		}
		return types
	}
	if got := ask(service, dns.TypePTR, dns.ClassINET); got != nil {
		t.Errorf("answers %q before there is anything to say", got)
	}
	r := newDNSRecords(planner, "planner", addrPorts("10.0.0.5:7117", "[2001:db8::5]:7117", "[fe80::5]:7117"))
	z.current.Store(r)
	all := []string{"PTR", "SRV!", "TXT!", "A!", "AAAA!", "AAAA!"}
	for _, test := range []struct {
		name         string
		qtype, class uint16
		want         []string
	}{
		{service, dns.TypePTR, dns.ClassINET, all},
		{"_ACP._UDP.local.", dns.TypePTR, dns.ClassINET | flush, all},
		{service, dns.TypeANY, dns.ClassANY, all},
		{service, dns.TypeA, dns.ClassINET, nil},
		{service, dns.TypePTR, dns.ClassCHAOS, nil},
		{r.instance, dns.TypeANY, dns.ClassINET, all[1:]},
		{r.instance, dns.TypeSRV, dns.ClassINET, all[1:]},
		{strings.ToUpper(r.instance), dns.TypeTXT, dns.ClassINET, all[1:]},
		{r.host, dns.TypeA, dns.ClassINET, all[3:]},
		{enumeration, dns.TypePTR, dns.ClassINET, []string{"PTR"}},
		{instanceName(reviewer), dns.TypeANY, dns.ClassINET, nil},
	} {
		if got := ask(test.name, test.qtype, test.class); !slices.Equal(got, test.want) {
			t.Errorf("%s %s: %q, want %q", test.name, dns.TypeToString[test.qtype], got, test.want)
		}
	}
	for _, s := range r.about[1].(*dns.TXT).Txt {
		if strings.Contains(s, "fe80") {
			t.Errorf("a link-local address in text: %s", s)
		}
	}
}

// The sockets pack the same records in their own goroutines.
func TestZoneConcurrently(t *testing.T) {
	z := &zone{}
	z.current.Store(newDNSRecords(planner, "planner", manyAddrs()))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				msg := dns.Msg{Compress: true, Answer: z.Records(dns.Question{Name: service, Qtype: dns.TypePTR, Qclass: dns.ClassINET})}
				if _, err := msg.Pack(); err != nil {
					t.Error(err)
				}
				z.current.Load().encodeAnnouncement(0)
			}
		})
	}
	wg.Wait()
}

func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q packetQuota
		take := func(source byte, n int) (taken int) {
			for range n {
				if q.takeUnits(netip.AddrFrom4([4]byte{10, 0, 0, source}), 1, time.Now()) {
					taken++
				}
			}
			return taken
		}
		for i, want := range []int{512, 512, 512, 512, 0} {
			if got := take(byte(i), 1000); got != want {
				t.Errorf("source %d took %d, want %d", i, got, want)
			}
		}
		time.Sleep(time.Second)
		if got := take(4, 1000); got != 512 {
			t.Errorf("took %d in the next second", got)
		}
	})
}
