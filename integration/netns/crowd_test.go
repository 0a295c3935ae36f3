//go:build netns

package netns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

const service = "_acp._udp.local."

// mostMemory bounds the memory of a daemon in KiB, whatever is said on the network.
const mostMemory = 64 << 10

// mostIdle bounds the processor time of an idle daemon: so many times what a listener needs
// that does the least. Both are measured at once, so that a slow machine is slow for both.
const mostIdle = 8

var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

// invented is an id without a key.
func invented(kind byte, n int) identity.ID {
	id := identity.ID{kind}
	binary.BigEndian.PutUint32(id[1:], uint32(n+1))
	return id
}

// announcement returns the announcement of a daemon, or with ttl 0 its goodbye.
func announcement(t *testing.T, id identity.ID, name string, ttl uint32, addrs ...string) []byte {
	t.Helper()
	instance, host := id.String()[:32]+"."+service, "acp-"+id.Label()+".local."
	head := func(name string, rrtype uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
	}
	txt := []string{"v=1", "id=" + id.String(), "name=" + name}
	msg := dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	for _, a := range addrs {
		ap := netip.MustParseAddrPort(a)
		txt = append(txt, "a="+a)
		msg.Extra = append(msg.Extra, &dns.A{Hdr: head(host, dns.TypeA), A: ap.Addr().AsSlice()})
	}
	port := netip.MustParseAddrPort(addrs[0]).Port()
	msg.Answer = []dns.RR{
		&dns.PTR{Hdr: head(service, dns.TypePTR), Ptr: instance},
		&dns.SRV{Hdr: head(instance, dns.TypeSRV), Port: port, Target: host},
		&dns.TXT{Hdr: head(instance, dns.TypeTXT), Txt: txt},
	}
	data, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// udp is a socket on a host, open until the test ends, at a port that others may
// share.
func (h *host) udp(addr string) *net.UDPConn {
	h.l.t.Helper()
	var conn *net.UDPConn
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }), err)
	}}
	if err := h.in(func() error {
		c, err := shared.ListenPacket(context.Background(), "udp4", addr)
		if err == nil {
			conn = c.(*net.UDPConn)
		}
		return err
	}); err != nil {
		h.l.t.Fatal(err)
	}
	h.l.t.Cleanup(func() { conn.Close() })
	return conn
}

// crowd is daemons that do what idle ones do: each answers from an address of its
// own, 10.77.1.1 and up, and once a minute it announces itself and asks. It returns
// their ids.
func (h *host) crowd(size int) (ids []identity.ID) {
	t := h.l.t
	t.Helper()
	asker := h.udp("10.77.0.2:0")
	var addrs, fresh []string
	for i := range size {
		addrs = append(addrs, fmt.Sprintf("10.77.1.%d", i+1))
		fresh = append(fresh, addrs[i]+"/16")
	}
	h.addrs("eth0", fresh...)
	var conns []*net.UDPConn
	var packets [][]byte
	for i, a := range addrs {
		ids = append(ids, invented(0x55, i))
		conns = append(conns, h.udp(a+":5353"))
		packets = append(packets, announcement(t, ids[i], "crowd", 75, a+":7117"))
	}
	var ears *net.UDPConn
	if err := h.in(func() error {
		eth, err := net.InterfaceByName("eth0")
		if err == nil {
			ears, err = net.ListenMulticastUDP("udp4", eth, group)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	question, err := (&dns.Msg{Question: []dns.Question{{Name: service, Qtype: dns.TypePTR, Qclass: dns.ClassINET}}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		ears.Close()
		running.Wait()
	})
	running.Go(func() {
		for buf := make([]byte, 9000); ; {
			n, from, err := ears.ReadFromUDP(buf)
			if err != nil {
				return
			}
			if buf[2]&0x80 == 0 && strings.Contains(string(buf[:n]), "\x04_acp\x04_udp") && from.IP.Equal(net.IPv4(10, 77, 0, 1)) {
				for i, conn := range conns {
					conn.WriteTo(packets[i], from)
				}
			}
		}
	})
	running.Go(func() {
		tick := time.NewTicker(time.Minute / time.Duration(size))
		defer tick.Stop()
		for i := 0; ; i = (i + 1) % size {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				conns[i].WriteTo(packets[i], group)
				asker.WriteTo(question, group)
			}
		}
	})
	return ids
}

// use returns what the daemon has used: its processor time and its memory, in KiB.
func (d *daemon) use() (cpu time.Duration, rss int) {
	d.T.Helper()
	dir := fmt.Sprintf("/proc/%d/", d.Acpd.Cmd.Process.Pid)
	threads, err := filepath.Glob(dir + "task/*/schedstat")
	if err != nil || len(threads) == 0 {
		d.T.Fatalf("no threads in %s: %v", dir, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended meanwhile
			continue
		}
		if err != nil {
			d.T.Fatal(err)
		}
		ran, err := strconv.ParseInt(strings.Fields(string(stat))[0], 10, 64) // nanoseconds
		if err != nil {
			d.T.Fatalf("%s: %v", thread, err)
		}
		cpu += time.Duration(ran)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		d.T.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	rss, _ = strconv.Atoi(strings.Fields(after)[0])
	return cpu, rss
}

// listen does for d on the host the least that a daemon has to: it reads what the group
// hears and unpacks it, and looks at the network interfaces once a second. It returns how
// much processor time that took, and how many packets there were.
func (h *host) listen(d time.Duration) (cpu time.Duration, packets int) {
	h.l.t.Helper()
	err := h.in(func() error { // on a thread of its own
		eth, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		conn, err := net.ListenMulticastUDP("udp4", eth, group)
		if err != nil {
			return err
		}
		defer conn.Close()
		file, err := conn.File() // reads of which block the thread
		if err != nil {
			return err
		}
		defer file.Close()
		fd := int(file.Fd())
		if err := unix.SetNonblock(fd, false); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			return err
		}
		var before, after unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
			return err
		}
		buf := make([]byte, 9000)
		looked := time.Now()
		for end := time.Now().Add(d); time.Now().Before(end); {
			if time.Since(looked) >= time.Second {
				looked = time.Now()
				nics, err := net.Interfaces()
				if err != nil {
					return err
				}
				for _, nic := range nics {
					nic.Addrs()
				}
			}
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue
			} else if err != nil {
				return err
			}
			if err := new(dns.Msg).Unpack(buf[:n]); err != nil {
				return err
			}
			packets++
		}
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
			return err
		}
		for _, part := range [][2]unix.Timeval{{after.Utime, before.Utime}, {after.Stime, before.Stime}} {
			cpu += time.Duration(part[0].Nano() - part[1].Nano())
		}
		return nil
	})
	if err != nil {
		h.l.t.Fatal(err)
	}
	return cpu, packets
}

// TestCrowd: 200 services are all listed soon, and cost next to nothing.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const size, watched = 200, 90 * time.Second
	l := newLab(t, "lan")
	h, other := l.host("desk"), l.host("crowd")
	h.wire("eth0", "lan", "10.77.0.1/16")
	other.wire("eth0", "lan", "10.77.0.2/16")
	other.crowd(size)
	desk := h.acpd("desk")
	// A second, but where so many answers at once are more than a socket holds: who was lost says so again within a minute.
	all := eventually(t, desk.Acpd.Begun, await.Patience, "all of them", func() bool { return len(desk.ListPeers()) == size })
	<-time.After(5 * time.Second) // what follows is measured over time
	before, _ := desk.use()
	begun := time.Now()
	least, packets := h.listen(watched)
	after, rss := desk.use()
	cpu := after - before
	t.Logf("%d services after %s; idle CPU %.2f %%, %.1f times the least for %d packets; %d KiB resident",
		size, all, 100*cpu.Seconds()/time.Since(begun).Seconds(), cpu.Seconds()/least.Seconds(), packets, rss)
	if cpu > mostIdle*least {
		t.Errorf("it used %s, more than %d times the %s of a listener that does the least", cpu, mostIdle, least)
	}
	if rss > mostMemory {
		t.Errorf("%d KiB resident, want at most %d", rss, mostMemory)
	}
	if n := len(desk.ListPeers()); n != size {
		t.Errorf("%d listed in the end, want %d", n, size)
	}
	if n := desk.heard(client.EventLost, identity.ID{}); n != 0 {
		t.Errorf("%d were lost meanwhile", n)
	}
	desk.warned(0)
}
