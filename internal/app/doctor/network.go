package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/acpd/acpd/config"
)

// listenAddr returns the host and port at which the daemon listens, or would.
func (x *examination) listenAddr() (host, port string) {
	listen := x.config.Listen
	if x.status != nil && len(x.status.Listen) > 0 {
		_, port, _ = net.SplitHostPort(x.status.Listen[0])
		host, _, _ = net.SplitHostPort(listen)
		if ip, _, err := net.SplitHostPort(x.status.Listen[0]); err == nil && len(x.status.Listen) == 1 && isLoopback(ip) {
			host = ip
		}
		return host, port
	}
	if host, port, _ = net.SplitHostPort(listen); port == "" {
		port = config.DefaultPort
	}
	return host, port
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// describeOpenPorts says which ports a firewall of this machine must let in.
func (x *examination) describeOpenPorts() string {
	_, port := x.listenAddr()
	return "a firewall of this machine must let in UDP port " + port + ", and UDP port 5353 for discovery"
}

// examinePort says whether the UDP port is the daemon's, or would be.
func (x *examination) examinePort() {
	host, port := x.listenAddr()
	subject := "UDP port " + port
	if isLoopback(host) {
		x.add("port.loopback", subject, fmt.Sprintf("the daemon listens on %s, where no other machine reaches it", host), "change listen in config.yaml, or --listen, if that is not meant")
	}
	open := "; " + x.describeOpenPorts()
	if isLoopback(host) {
		open = ""
	}
	if x.status != nil {
		if port == config.DefaultPort || x.config.Listen != "" || x.hasDaemonFlag("--listen") {
			x.add("port.ok", subject, "the daemon listens on UDP port "+port+open, "")
		} else if errors.Is(x.Machine.ListenUDP(":"+config.DefaultPort), syscall.EADDRINUSE) {
			x.add("port.other", subject, fmt.Sprintf("the daemon uses UDP port %s, and another program has %s", port, config.DefaultPort), x.describeOpenPorts()+"; or, unless --listen chose that port, stop that program, and set listen in config.yaml")
		} else {
			x.add("port.ok", subject, fmt.Sprintf("the daemon listens on UDP port %s, which it chose when %s was taken, or as its command line says%s", port, config.DefaultPort, open), "")
		}
		return
	}
	if port == "0" || x.holder != nil {
		return
	}
	switch err := x.Machine.ListenUDP(net.JoinHostPort(host, port)); {
	case err == nil:
		x.add("port.ok", subject, "UDP port "+port+" is free", "")
	case errors.Is(err, syscall.EADDRINUSE) && x.config.Listen == "":
		x.add("port.other", subject, fmt.Sprintf("another program has UDP port %s: the daemon will use another one, which it keeps", port), "nothing; or stop that program before acpd starts for the first time")
	case errors.Is(err, syscall.EADDRINUSE):
		x.add("port.taken", subject, fmt.Sprintf("another program has UDP port %s, which listen in config.yaml names: acpd does not start", port), "stop that program (ss -lunp and lsof -iUDP show it), or choose another port with listen in config.yaml")
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		x.add("port.forbidden", subject, fmt.Sprintf("this user may not use UDP port %s: acpd does not start", port), "choose one from 1024 up with listen in config.yaml")
	case errors.Is(err, syscall.EADDRNOTAVAIL) && x.Machine.OS == "linux":
		x.add("port.absent", subject, fmt.Sprintf("%s is not an address of this machine now: acpd starts, and nobody reaches it there until it is", host), "nothing, if it comes later, as that of a VPN; else choose another one with listen in config.yaml, or none for all")
	default:
		x.add("port.address", subject, fmt.Sprintf("nothing can listen on %s: acpd does not start (%v)", net.JoinHostPort(host, port), err), "choose an address of this machine with listen in config.yaml, or none for all")
	}
}

// wantedBuffer is what the QUIC library asks the system to buffer for its socket, in bytes:
// github.com/quic-go/quic-go/wiki/UDP-Buffer-Sizes.
const wantedBuffer = 7 << 20

// examineBuffers says whether the system lets the UDP socket buffer as much as a burst needs.
func (x *examination) examineBuffers() {
	if x.Machine.OS != "linux" {
		return
	}
	const remedy = "as root: sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000, and the same two lines in a file of /etc/sysctl.d; then start acpd again"
	least, what := x.readSysctl("net/core/rmem_max"), "net.core.rmem_max"
	if send := x.readSysctl("net/core/wmem_max"); least == 0 || send > 0 && send < least {
		least, what = send, "net.core.wmem_max"
	}
	if x.status != nil && x.status.Process.UDPReceiveBytes > 0 {
		// Linux tells double what it was asked for (socket(7)). A daemon with CAP_NET_ADMIN may have more than the bounds.
		least, what = min(x.status.Process.UDPReceiveBytes, x.status.Process.UDPSendBytes)/2, "the daemon's socket"
	}
	switch {
	case least == 0:
	case least < wantedBuffer:
		x.add("buffers.small", "UDP buffers", fmt.Sprintf("%s allows %d KiB, and %d KiB are wanted: under load packets are lost and sent again", what, least>>10, wantedBuffer>>10), remedy)
	default:
		x.add("buffers.ok", "UDP buffers", fmt.Sprintf("%s allows %d KiB", what, least>>10), "")
	}
}

// readSysctl returns a number of the kernel, 0 if it does not say.
func (x *examination) readSysctl(name string) int {
	text, _ := x.Machine.readFile("proc/sys/" + name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// examineMulticast sends a question to the group on each interface that discovery uses, and
// listens for it.
func (x *examination) examineMulticast(ctx context.Context) {
	if x.config.Discovery.MDNS == config.Off || x.hasDaemonFlag("--no-mdns") {
		x.add("multicast.off", "discovery", "discovery.mdns is off in config.yaml, or acpd runs with --no-mdns: peers do not find each other by themselves", "nothing if that is meant; peers are reached by invitations and configured addresses")
		return
	}
	all, _ := x.Machine.ListInterfaces()
	host, _ := x.listenAddr()
	use := slices.DeleteFunc(slices.Clone(all), func(n net.Interface) bool {
		include := x.config.Discovery.Include
		return n.Flags&net.FlagUp == 0 || n.Flags&net.FlagMulticast == 0 || n.Flags&net.FlagLoopback != 0 || isLoopback(host) ||
			slices.Contains(x.config.Discovery.Exclude, n.Name) || len(include) > 0 && !slices.Contains(include, n.Name)
	})
	if len(use) == 0 {
		if !isLoopback(host) {
			x.add("multicast.none", "discovery", "no interface is up and can do multicast, or include and exclude leave none: daemons of other machines are not found", "look at the network and at discovery in config.yaml; or give peers addresses")
		}
		return
	}
	use = use[:min(len(use), maxListed)]
	heard := make([]error, len(use))
	var probes sync.WaitGroup
	for i, nic := range use {
		probes.Go(func() { heard[i] = x.Machine.HearMulticast(ctx, nic) })
	}
	probes.Wait()
	for i, nic := range use {
		switch err := heard[i]; {
		case err == nil:
			x.add("multicast.ok", nic.Name, nic.Name+": multicast is heard", "")
		case errors.Is(err, syscall.EADDRINUSE):
			x.add("multicast.taken", nic.Name, nic.Name+": a program holds UDP port 5353 and does not share it", "stop that program (ss -lunp and lsof -iUDP show it; avahi and systemd-resolved do share it); or give peers addresses")
		default:
			x.add("multicast.deaf", nic.Name, fmt.Sprintf("%s: what is sent to the group of multicast DNS is not heard (%v)", nic.Name, err), "let UDP port 5353 in there, or exclude the interface: discovery.exclude in config.yaml")
		}
	}
}

// hasDaemonFlag reports whether the daemon was started with a flag, as far as the system says.
func (x *examination) hasDaemonFlag(flag string) bool {
	if x.status == nil {
		return false
	}
	line, _ := x.Machine.readFile(fmt.Sprintf("proc/%d/cmdline", x.status.Process.PID))
	return slices.ContainsFunc(strings.Split(string(line), "\x00"), func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return name == flag && value != "false"
	})
}
