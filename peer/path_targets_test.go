package peer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/wire"
)

// localTestNetwork is a host with IPv4 and IPv6 on one interface, an overlay's address without a
// network, and an address at the NAT before it.
func localTestNetwork() localNetwork {
	var l localNetwork
	for _, p := range []string{"127.0.0.1/8", "::1/128", "192.168.7.20/24", "fd00:7::20/64", "fe80::20/64", "2001:db8:7::20/64", "100.64.0.20/32", "10.9.9.9/31"} {
		l.prefixes = append(l.prefixes, netip.MustParsePrefix(p))
	}
	l.own = []netip.AddrPort{netip.MustParseAddrPort("203.0.113.7:7117")}
	return l
}

// holds: security.md#against-trusted-peers
func TestWhichAddressesMayBeDialled(t *testing.T) {
	l := localTestNetwork()
	for addr, want := range map[string]bool{
		"198.51.100.1:7117": true, "198.51.100.1:1024": true, "198.51.100.1:65535": true,
		"[2001:db8:8::1]:7117": true, "[2a00:1::1]:7117": true,
		"[::ffff:198.51.100.1]:7117": true, // the same as without the prefix

		// Ports of the system.
		"198.51.100.1:0": false, "198.51.100.1:53": false, "198.51.100.1:1023": false, "[2001:db8:8::1]:443": false,

		// Private ones: on an attached prefix alone.
		"192.168.7.21:7117": true, "[fd00:7::21]:7117": true, "10.9.9.8:7117": true,
		"192.168.8.21:7117": false, "10.0.0.1:7117": false, "172.16.0.1:7117": false, "[fd00:8::21]:7117": false,
		"100.64.0.21:7117": false, "100.127.255.254:7117": false, "198.18.0.1:7117": false, "198.19.255.1:7117": false,
		"[::ffff:10.0.0.1]:7117": false,

		// Of this host.
		"192.168.7.20:7117": false, "192.168.7.20:7118": false, "[fd00:7::20]:7117": false, "[2001:db8:7::20]:7117": false,
		"100.64.0.20:7117": false, "[::ffff:192.168.7.20]:7117": false,
		"203.0.113.7:7117": false, // as the world sees it
		"203.0.113.7:7118": true,  // another host behind the same NAT

		// Of no single host of another network.
		"127.0.0.1:7117": false, "127.9.9.9:7117": false, "[::1]:7117": false, "[::ffff:127.0.0.1]:7117": false,
		"0.0.0.0:7117": false, "[::]:7117": false, "0.1.2.3:7117": false,
		"255.255.255.255:7117": false, "192.168.7.255:7117": false, "192.168.7.0:7117": false, "240.0.0.1:7117": false,
		"224.0.0.251:5353": false, "239.1.2.3:7117": false, "[ff02::fb]:5353": false, "[ff0e::1]:7117": false,
		"169.254.1.1:7117": false, "[fe80::21]:7117": false, "[fe80::21%eth0]:7117": false, "[2001:db8:8::1%eth0]:7117": false,
		"192.0.0.8:7117": false, "[fec0::1]:7117": false, "[100::1]:7117": false,

		// With an IPv4 address within.
		"[64:ff9b::7f00:1]:7117": false, "[64:ff9b::c633:6401]:7117": false, "[64:ff9b:1::a00:1]:7117": false,
		"[2002:a00:1::1]:7117": false, "[2001:0:1::1]:7117": false, "[::192.168.7.21]:7117": false,
	} {
		chosen := make(pathTargets).chooseTargets([]string{addr}, l, time.Now())
		if got := len(chosen) == 1; got != want {
			t.Errorf("%s: dialled %v, expected %v", addr, got, want)
		}
		if len(chosen) == 1 && chosen[0].Addr().Is4In6() {
			t.Errorf("%s is dialled as %s", addr, chosen[0])
		}
	}
	for _, text := range []string{"", "198.51.100.1", "nats.example.org:7117", "198.51.100.1:http", "198.51.100.1:70000", "relay:home/ab", "198.51.100.1:7117 "} {
		if chosen := make(pathTargets).chooseTargets([]string{text}, l, time.Now()); len(chosen) > 0 {
			t.Errorf("%q: dialled as %v", text, chosen)
		}
	}
}

// public returns addresses of different hosts and ports.
func public(hosts, ports int) (all []string) {
	for h := range hosts {
		for p := range ports {
			all = append(all, fmt.Sprintf("198.51.%d.%d:%d", h/250, 1+h%250, 7000+p))
		}
	}
	return all
}

func TestHowManyAddressesARoundHas(t *testing.T) {
	l := localTestNetwork()
	for name, c := range map[string]struct {
		named []string
		want  string
	}{
		"three hosts":           {public(5, 1), "198.51.0.1:7000 198.51.0.2:7000 198.51.0.3:7000"},
		"ports of three hosts":  {public(4, 2), "198.51.0.1:7000 198.51.0.1:7001 198.51.0.2:7000 198.51.0.2:7001 198.51.0.3:7000 198.51.0.3:7001"},
		"private ones too":      {append(public(4, 1), "192.168.7.21:7117"), "192.168.7.21:7117 198.51.0.1:7000 198.51.0.2:7000 198.51.0.3:7000"},
		"one twice":             {[]string{"198.51.0.1:7000", "198.51.0.1:7000", "[::ffff:198.51.0.1]:7000"}, "198.51.0.1:7000"},
		"no more than are read": {public(1, wire.MaxPaths+1), "198.51.0.1:7000 198.51.0.1:7001 198.51.0.1:7002 198.51.0.1:7003 198.51.0.1:7004 198.51.0.1:7005 198.51.0.1:7006 198.51.0.1:7007"},
		"forbidden ones first":  {append([]string{"127.0.0.1:7117", "10.0.0.1:7117"}, public(1, 1)...), "198.51.0.1:7000"},
		"none":                  {nil, ""},
	} {
		var got []string
		for _, a := range make(pathTargets).chooseTargets(c.named, l, time.Now()) {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, expected %s", name, got, c.want)
		}
	}
}

func TestHowManyAddressesAnHourHas(t *testing.T) {
	l, targets, now := localTestNetwork(), make(pathTargets), time.Now()
	all := public(20, 2)
	dialled := make(map[netip.AddrPort]bool)
	for round := range 20 {
		for _, a := range targets.chooseTargets(all[2*round:2*round+2], l, now.Add(time.Duration(round)*time.Minute)) {
			dialled[a] = true
		}
	}
	if len(dialled) != maxTargetsHour || len(targets) != maxTargetsHour {
		t.Fatalf("%d addresses in 20 minutes, %d kept", len(dialled), len(targets))
	}
	if again := targets.chooseTargets(all[:2], l, now.Add(30*time.Minute)); len(again) != 2 {
		t.Errorf("what was dialled before is dialled no more: %v", again)
	}
	// Of the first round's the hour begins anew with the dial above.
	later := now.Add(61*time.Minute + time.Second)
	chosen := targets.chooseTargets(all[len(all)-6:], l, later)
	if len(chosen) != 2 || !slices.Contains(chosen, netip.MustParseAddrPort(all[len(all)-6])) {
		t.Errorf("an hour after the second round %v are dialled", chosen)
	}
	if left := targets.chooseTargets(nil, l, later.Add(2*time.Hour)); len(left) > 0 || len(targets) > 0 {
		t.Errorf("%d addresses are kept for ever", len(targets))
	}
}

func FuzzChooseTargets(f *testing.F) {
	f.Add("198.51.100.1:7117 [2001:db8:8::1]:7117 127.0.0.1:7117 192.168.7.21:80 [::ffff:10.0.0.1]:7117 [fe80::1%1]:7117")
	f.Fuzz(func(t *testing.T, text string) {
		l := localTestNetwork()
		chosen := make(pathTargets).chooseTargets(strings.Split(text, " "), l, time.Now())
		public := make(map[netip.Addr]bool)
		for _, a := range chosen {
			ip := a.Addr()
			if isPublicAddr(ip) {
				public[ip] = true
			} else if !slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				t.Errorf("%s is dialled", a)
			}
			if a.Port() < 1024 || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.Is4In6() || slices.Contains(l.own, a) {
				t.Errorf("%s is dialled", a)
			}
		}
		if len(chosen) > wire.MaxPaths || len(public) > 3 {
			t.Errorf("%v are dialled", chosen)
		}
	})
}
