package peers

import (
	"net/netip"
	"slices"
	"testing"
)

// An invitation names three addresses at most, and each network comes before the second address of
// another one.
func TestChooseInvitedAddrs(t *testing.T) {
	networks := make(map[netip.Addr]int)
	for addr, network := range map[string]int{"192.0.2.1": 2, "2001:db8::1": 2, "2001:db8::2": 2, "198.51.100.1": 3, "203.0.113.1": 4, "2001:db8:1::1": 4} {
		networks[netip.MustParseAddr(addr)] = network
	}
	for _, c := range []struct{ addrs, want []string }{
		{[]string{"192.0.2.1:1", "2001:db8::x"}, []string{"192.0.2.1:1", "2001:db8::x"}},
		{[]string{"192.0.2.1:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "198.51.100.1:1"}, []string{"192.0.2.1:1", "198.51.100.1:1", "[2001:db8::1]:1"}},
		{[]string{"172.17.0.1:1", "192.0.2.1:1", "198.51.100.1:1", "203.0.113.1:1"}, []string{"192.0.2.1:1", "198.51.100.1:1", "203.0.113.1:1"}}, // nobody is on the first one's network
		{[]string{"192.0.2.1:1", "198.51.100.1:1", "203.0.113.1:1", "[2001:db8:1::1]:1"}, []string{"192.0.2.1:1", "198.51.100.1:1", "203.0.113.1:1"}},
		{nil, nil},
	} {
		if got := chooseInvitedAddrs(c.addrs, networks); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.addrs, got, c.want)
		}
	}
	if loopback := netip.MustParseAddr("127.0.0.1"); findNetworks()[loopback] == 0 {
		t.Errorf("no interface has %s", loopback)
	}
}
