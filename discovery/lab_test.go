//go:build netns

package discovery

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
)

// The tests of this build tag run as root on Linux with iproute2. They make network
// namespaces of their own, connected by bridges in another one, and remove them.
// Each host in them is this test binary, run again.

const hostEnv = "ACPD_DISCOVERY_HOST"

func TestMain(m *testing.M) {
	if spec := os.Getenv(hostEnv); spec != "" {
		if err := runHost(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	sweepLabs()
	os.Exit(m.Run())
}

const labPrefix = "acp-discovery-"

// sweepLabs removes what a run left that was killed before it could.
func sweepLabs() {
	out, _ := exec.Command("ip", "netns", "list").Output()
	for l := range strings.Lines(string(out)) {
		ns := strings.Fields(l)[0]
		rest, ours := strings.CutPrefix(ns, labPrefix)
		owner, _, _ := strings.Cut(rest, "-")
		// A process that has ended but was not waited for has no command line.
		if alive, _ := os.ReadFile("/proc/" + owner + "/cmdline"); !ours || len(alive) > 0 {
			continue
		}
		pids, _ := exec.Command("ip", "netns", "pids", ns).Output()
		for pid := range strings.FieldsSeq(string(pids)) {
			exec.Command("kill", pid).Run()
		}
		exec.Command("ip", "netns", "del", ns).Run()
	}
}

// hostSpec is what a host process is told.
type hostSpec struct {
	Role    string // "daemon", or a name in roles
	Self    identity.ID
	Name    string
	Port    uint16
	Listen  string
	Trusted []identity.ID
	Static  map[string]string
	Exclude []string
	Count   int
}

// line is what a host process prints.
type line struct {
	At    time.Time
	Event string
	ID    string   `json:",omitempty"`
	Claim string   `json:",omitempty"`
	Addrs []string `json:",omitempty"`
	CPU   int64    `json:",omitzero"` // microseconds
	Text  string   `json:",omitempty"`
	Peers int      `json:",omitempty"`
	Heap  uint64   `json:",omitempty"`
}

var roles = make(map[string]func(context.Context, hostSpec) error)

func runHost(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var spec hostSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	if role, ok := roles[spec.Role]; ok {
		go func() {
			defer stop() // the test has gone
			io.Copy(io.Discard, os.Stdin)
		}()
		return role(ctx, spec)
	}
	table := NewTable(func(id identity.ID) bool { return slices.Contains(spec.Trusted, id) }, func(c Change) {
		print(line{Event: string(c.Event), ID: c.Entry.ID.String(), Claim: c.Entry.Claim, Addrs: hostPorts(c.Entry)})
	})
	for id, addr := range spec.Static {
		parsed, err := identity.ParseID(id)
		if err != nil {
			return err
		}
		table.Set(parsed, Static, addr)
	}
	go func() {
		defer stop() // the test has gone
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var usage syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
			runtime.GC()
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			l := line{Event: "usage", CPU: (usage.Utime.Nano() + usage.Stime.Nano()) / 1000, Heap: mem.HeapAlloc, Text: in.Text()}
			entries := table.Entries()
			for _, e := range entries {
				if e.LastSeen.IsZero() {
					continue
				}
				l.Peers++
			}
			if id, err := identity.ParseID(in.Text()); err == nil {
				l.Addrs = table.Addrs(id)
			}
			print(l)
		}
	}()
	listen := netip.AddrPortFrom(netip.IPv6Unspecified(), spec.Port)
	if spec.Listen != "" {
		listen = netip.MustParseAddrPort(spec.Listen)
	}
	print(line{Event: "start"})
	err := Run(ctx, Config{Self: spec.Self, Name: spec.Name, Listen: listen, Exclude: spec.Exclude, Table: table,
		Logger: slog.New(slog.NewTextHandler(writer(func(text string) { print(line{Event: "log", Text: text}) }), nil))})
	print(line{Event: "end"})
	return err
}

type writer func(string)

func (w writer) Write(b []byte) (int, error) { w(strings.TrimSpace(string(b))); return len(b), nil }

func hostPorts(e Entry) (addrs []string) {
	for _, a := range e.Addrs {
		addrs = append(addrs, a.HostPort)
	}
	return addrs
}

var printing sync.Mutex

func print(l line) {
	l.At = time.Now()
	data, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	os.Stdout.Write(append(data, '\n'))
}

// lab is a set of namespaces.
type lab struct {
	t      testing.TB
	prefix string
	spaces []string
}

var labs, ids atomic.Int32

func newLab(t testing.TB, bridges ...string) *lab {
	l := &lab{t: t, prefix: fmt.Sprintf(labPrefix+"%d-%d-", os.Getpid(), labs.Add(1))}
	t.Cleanup(func() {
		for _, ns := range l.spaces {
			exec.Command("ip", "netns", "del", ns).Run()
		}
	})
	l.space("switch")
	for _, b := range bridges {
		l.ip("switch", "link", "add", b, "type", "bridge", "mcast_snooping", "0")
		l.ip("switch", "link", "set", b, "up")
	}
	return l
}

func (l *lab) ns(host string) string { return l.prefix + host }

func (l *lab) run(name string, args ...string) string {
	l.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *lab) ip(host string, args ...string) {
	l.t.Helper()
	l.run("ip", append([]string{"-n", l.ns(host)}, args...)...)
}

// space makes a namespace in which IPv6 addresses are usable at once.
func (l *lab) space(host string) {
	l.t.Helper()
	l.run("ip", "netns", "add", l.ns(host))
	l.spaces = append(l.spaces, l.ns(host))
	l.sysctl(host, "net/ipv6/conf/default/accept_dad", "0")
	l.sysctl(host, "net/ipv6/conf/all/accept_dad", "0")
	l.ip(host, "link", "set", "lo", "up")
}

func (l *lab) sysctl(host, key, value string) {
	l.t.Helper()
	l.run("ip", "netns", "exec", l.ns(host), "sh", "-c", "echo "+value+" > /proc/sys/"+key)
}

// wire connects a host to a bridge.
func (l *lab) wire(host, dev, bridge string, addrs ...string) {
	l.t.Helper()
	end := host + "-" + dev
	l.ip("switch", "link", "add", end, "type", "veth", "peer", "name", dev, "netns", l.ns(host))
	l.ip("switch", "link", "set", end, "master", bridge, "up")
	for _, a := range addrs {
		l.addr(host, dev, a)
	}
	l.ip(host, "link", "set", dev, "up")
}

func (l *lab) addr(host, dev, addr string) {
	l.t.Helper()
	args := []string{"addr", "add", addr, "dev", dev}
	if strings.Contains(addr, ":") {
		args = append(args, "nodad")
	}
	l.ip(host, args...)
}

// process is a host process.
type process struct {
	l       *lab
	spec    hostSpec
	cmd     *exec.Cmd
	in      io.Writer
	started time.Time

	mu    sync.Mutex // guards lines and more
	lines []line
	more  chan struct{} // closed at each new line
}

// start runs a daemon in a namespace, or the role that the spec names.
func (l *lab) start(host string, spec hostSpec) *process {
	l.t.Helper()
	if spec.Self.IsZero() {
		n := ids.Add(1)
		spec.Self = identity.ID{byte(n >> 8), byte(n), 7}
	}
	if spec.Name == "" {
		spec.Name = host
	}
	if spec.Port == 0 {
		spec.Port = 7117
	}
	text, err := json.Marshal(spec)
	if err != nil {
		l.t.Fatal(err)
	}
	p := &process{l: l, spec: spec, more: make(chan struct{})}
	p.cmd = exec.Command("ip", "netns", "exec", l.ns(host), os.Args[0])
	p.cmd.Env = append(os.Environ(), hostEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		l.t.Fatal(err)
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(out); in.Scan(); {
			var got line
			if json.Unmarshal(in.Bytes(), &got) != nil {
				continue
			}
			p.mu.Lock()
			p.lines = append(p.lines, got)
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
	}()
	l.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-read
		p.cmd.Wait()
	})
	return p
}

// await returns the first line since a time that fits, or fails the test.
func (p *process) await(since time.Time, within time.Duration, what string, fits func(line) bool) line {
	p.l.t.Helper()
	deadline := time.After(time.Until(since.Add(within)))
	for n := 0; ; {
		p.mu.Lock()
		lines, more := p.lines, p.more
		p.mu.Unlock()
		for ; n < len(lines); n++ {
			if !lines[n].At.Before(since) && fits(lines[n]) {
				return lines[n]
			}
		}
		select {
		case <-more:
		case <-deadline:
			for _, l := range lines[max(0, len(lines)-20):] {
				p.l.t.Logf("%s: %+v", p.spec.Name, l)
			}
			p.l.t.Fatalf("%s: no %s within %v", p.spec.Name, what, within)
		}
	}
}

// sees waits until the other is in the table with an address, if one is given.
func (p *process) sees(o *process, addr string, since time.Time, within time.Duration) time.Duration {
	p.l.t.Helper()
	l := p.await(since, within, "sight of "+o.spec.Name+" at "+addr, func(l line) bool {
		return (l.Event == "discovered" || l.Event == "moved") && l.ID == o.spec.Self.String() && (addr == "" || slices.Contains(l.Addrs, addr))
	})
	return l.At.Sub(since)
}

func (p *process) loses(o *process, since time.Time, within time.Duration) time.Duration {
	p.l.t.Helper()
	l := p.await(since, within, "loss of "+o.spec.Name, func(l line) bool { return l.Event == "lost" && l.ID == o.spec.Self.String() })
	return l.At.Sub(since)
}

// usage asks for the use of resources, and the addresses of an id.
func (p *process) usage(id identity.ID) line {
	p.l.t.Helper()
	since := time.Now()
	fmt.Fprintln(p.in, id)
	return p.await(since, 20*time.Second, "usage", func(l line) bool { return l.Event == "usage" })
}

// none fails the test if a line fits.
func (p *process) none(what string, fits func(line) bool) {
	p.l.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if fits(l) {
			p.l.t.Errorf("%s: unexpected %s: %+v", p.spec.Name, what, l)
		}
	}
}

func (p *process) count(fits func(line) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if fits(l) {
			n++
		}
	}
	return n
}

func isLog(l line) bool { return l.Event == "log" }

// stop ends the process as systemd would.
func (p *process) stop() time.Time {
	p.l.t.Helper()
	at := time.Now()
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.await(at, 5*time.Second, "end", func(l line) bool { return l.Event == "end" })
	return at
}

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*p/100)]
}
