//go:build netns

package netns

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// lab is hosts, each a network namespace, and the bridges between them, in a
// namespace of their own. No host has a route beyond its links.
type lab struct {
	t      *testing.T
	prefix string
	bridge *host
}

var labs atomic.Int32

func newLab(t *testing.T, bridges ...string) *lab {
	t.Helper()
	l := &lab{t: t, prefix: fmt.Sprintf("%d-", labs.Add(1))}
	l.bridge = l.host("bridges")
	for _, b := range bridges {
		l.bridge.ip("link add "+b+" type bridge mcast_snooping 0", "link set "+b+" up")
	}
	return l
}

// host is a network namespace.
type host struct {
	l    *lab
	name string
	ns   string
}

// host makes a host in which IPv6 addresses are usable at once.
func (l *lab) host(name string) *host {
	l.t.Helper()
	h := &host{l, name, l.prefix + name}
	if out, err := exec.Command("ip", "netns", "add", h.ns).CombinedOutput(); err != nil {
		l.t.Fatalf("ip netns add: %v\n%s", err, out)
	}
	l.t.Cleanup(func() { exec.Command("ip", "netns", "del", h.ns).Run() })
	h.sysctl("net/ipv6/conf/default/accept_dad", "0")
	h.sysctl("net/ipv6/conf/all/accept_dad", "0")
	h.ip("link set lo up")
	return h
}

// in runs f in the host's network. Sockets and processes that it makes stay there.
func (h *host) in(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + h.ns)
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter %s: %w", h.ns, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// ip runs commands of ip.
func (h *host) ip(lines ...string) {
	h.l.t.Helper()
	cmd := exec.Command("ip", "-n", h.ns, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.l.t.Fatalf("%s: ip %q: %v\n%s", h.name, lines, err, out)
	}
}

func (h *host) sysctl(key, value string) {
	h.l.t.Helper()
	if err := h.in(func() error { return os.WriteFile("/proc/sys/"+key, []byte(value), 0) }); err != nil {
		h.l.t.Fatalf("%s: %v", h.name, err)
	}
}

// wire connects the host to a bridge.
func (h *host) wire(dev, bridge string, addrs ...string) {
	h.l.t.Helper()
	h.l.bridge.ip("link add "+h.port(dev)+" type veth peer name "+dev+" netns "+h.ns, "link set "+h.port(dev)+" master "+bridge+" up")
	h.addrs(dev, addrs...)
	h.ip("link set " + dev + " up")
}

// port is the other end of the host's cable.
func (h *host) port(dev string) string { return h.name + "-" + dev }

func (h *host) addrs(dev string, addrs ...string) {
	h.l.t.Helper()
	var lines []string
	for _, a := range addrs {
		line := "addr add " + a + " dev " + dev
		if strings.Contains(a, ":") {
			line += " nodad"
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		h.ip(lines...)
	}
}

// Which addresses the hosts of a LAN have.
type family string

const (
	ipv4      family = "IPv4"
	ipv6      family = "IPv6"
	both      family = "both"
	linkLocal family = "link-local"
)

// lan is a lab of hosts on one bridge: 10.77.0.N and fd77::N, N counted from 1.
func lan(t *testing.T, f family, names ...string) (*lab, []*host) {
	t.Helper()
	l := newLab(t, "lan")
	var hosts []*host
	for i, name := range names {
		h := l.host(name)
		var addrs []string
		if f == ipv4 || f == both {
			addrs = append(addrs, fmt.Sprintf("10.77.0.%d/24", i+1))
		}
		if f == ipv6 || f == both {
			addrs = append(addrs, fmt.Sprintf("fd77::%d/64", i+1))
		}
		if f == ipv4 {
			h.withoutIPv6()
		}
		h.wire("eth0", "lan", addrs...)
		hosts = append(hosts, h)
	}
	return l, hosts
}
