//go:build netns

package discovery

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
)

const avahiScript = `set -e
mkdir -p /run/avahi-daemon
mount -t tmpfs tmpfs /run/avahi-daemon
mount -t tmpfs tmpfs /etc/avahi/services
cp "$DIR"/*.service /etc/avahi/services/ 2>/dev/null || true
dbus-daemon --system --nofork --nopidfile --address="$DBUS_SYSTEM_BUS_ADDRESS" &
bus=$!
trap 'kill -TERM $avahi; wait $avahi; kill $bus; wait' TERM
while ! [ -S "$DIR/bus" ]; do sleep 0.05; done
avahi-daemon -f "$DIR/avahi.conf" --no-drop-root --no-chroot --no-rlimits >"$DIR/log" 2>&1 &
avahi=$!
wait
`

// avahi is a real avahi-daemon in a namespace.
type avahi struct {
	l   *lab
	ns  string
	dir string
	cmd *exec.Cmd
}

// startAvahi starts avahi with services, each of one id.
func (l *lab) startAvahi(host string, services map[string]identity.ID) *avahi {
	l.t.Helper()
	dir := l.t.TempDir()
	os.WriteFile(filepath.Join(dir, "avahi.conf"), []byte("[server]\nhost-name="+host+"\nuse-ipv4=yes\nuse-ipv6=yes\nallow-interfaces=eth0\n[publish]\npublish-workstation=no\npublish-hinfo=no\n"), 0o644)
	for name, id := range services {
		xml := fmt.Sprintf(`<?xml version="1.0"?><!DOCTYPE service-group SYSTEM "avahi-service.dtd"><service-group><name>%s</name><service><type>_acp._udp</type><port>7117</port><txt-record>v=1</txt-record><txt-record>id=%s</txt-record><txt-record>name=%[1]s</txt-record></service></service-group>`, name, id)
		os.WriteFile(filepath.Join(dir, name+".service"), []byte(xml), 0o644)
	}
	a := &avahi{l: l, ns: l.ns(host), dir: dir}
	a.cmd = exec.Command("ip", "netns", "exec", a.ns, "unshare", "-m", "sh", "-c", avahiScript)
	a.cmd.Env = a.env()
	a.cmd.Stderr = os.Stderr
	if err := a.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { a.stop() })
	deadline := time.After(15 * time.Second)
	for log := ""; !strings.Contains(log, "Server startup complete") || strings.Count(log, "successfully established") < len(services); {
		select {
		case <-deadline:
			l.t.Fatalf("avahi did not start:\n%s", log)
		case <-time.After(50 * time.Millisecond):
		}
		data, _ := os.ReadFile(filepath.Join(dir, "log"))
		log = string(data)
	}
	return a
}

func (a *avahi) env() []string {
	return append(os.Environ(), "DIR="+a.dir, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+a.dir+"/bus")
}

func (a *avahi) stop() {
	if a.cmd.ProcessState == nil {
		a.cmd.Process.Signal(syscall.SIGTERM)
		a.cmd.Wait()
	}
}

// browse returns what avahi-browse shows: the resolved services, one a line.
func (a *avahi) browse() []string {
	a.l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", a.ns, "avahi-browse", "-rpt", "_acp._udp")
	cmd.Env = a.env()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		a.l.t.Logf("avahi-browse did not end:\n%s", out)
	} else if err != nil {
		a.l.t.Fatalf("avahi-browse: %v\n%s", err, out)
	}
	var resolved []string
	for l := range strings.Lines(string(out)) {
		if strings.HasPrefix(l, "=") {
			resolved = append(resolved, strings.TrimSpace(l))
		}
	}
	return resolved
}

// shows waits until avahi-browse shows the service of a daemon, heard over a family
// and resolved to one of its addresses.
func (a *avahi) shows(p *process, family string, addrs ...string) {
	a.l.t.Helper()
	var lines []string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		lines = a.browse()
		for _, l := range lines {
			resolved := slices.ContainsFunc(addrs, func(addr string) bool { return strings.Contains(l, fmt.Sprintf(";%s;%d;", addr, p.spec.Port)) })
			if resolved && strings.Contains(l, ";"+family+";") && strings.Contains(l, `"name=`+p.spec.Name+`"`) && strings.Contains(l, `"id=`+p.spec.Self.String()+`"`) {
				return
			}
		}
	}
	a.l.t.Errorf("avahi-browse does not show %s at %s over %s:\n%s", p.spec.Name, addrs, family, strings.Join(lines, "\n"))
}

// Avahi and the daemons see each other, on one host and across, and avahi still does
// when what it first heard has expired.
func TestAvahi(t *testing.T) {
	t.Parallel()
	l := threeHosts(t, "both")
	services := map[string]identity.ID{"one": {0x11}, "two": {0x22}, "three three": {0x33}}
	av := l.startAvahi("c", services)
	a := l.start("a", hostSpec{})
	b := l.start("c", hostSpec{Port: 7118, Name: "beside avahi"})
	for name, id := range services {
		other := &process{spec: hostSpec{Self: id, Name: name}}
		t.Logf("%s after %v, on the same host after %v", name, a.sees(other, "10.77.0.3:7117", a.started, 5*time.Second), b.sees(other, "10.77.0.3:7117", b.started, 5*time.Second))
	}
	a.sees(b, "", b.started, 3*time.Second)
	for _, wait := range []time.Duration{0, (lifetime + 10) * time.Second} {
		<-time.After(wait)
		for _, family := range []string{"IPv4", "IPv6"} {
			av.shows(a, family, "10.77.0.1", "fd77::1")
			av.shows(b, family, "10.77.0.3", "fd77::3")
		}
	}
	// One that starts now hears the answer to its question.
	late := l.startAvahi("a", nil)
	at := time.Now()
	late.shows(a, "IPv4", "10.77.0.1", "fd77::1")
	late.shows(b, "IPv4", "10.77.0.3", "fd77::3")
	t.Logf("a new avahi sees both after %v", time.Since(at))
	at = time.Now()
	b.stop()
	gone := func() bool { return !strings.Contains(strings.Join(av.browse(), "\n"), b.spec.Self.String()) }
	for !gone() && time.Since(at) < 5*time.Second {
	}
	t.Logf("avahi lost the daemon after %v", time.Since(at))
	if !gone() {
		t.Error("avahi did not hear the goodbye")
	}
	at = time.Now()
	av.stop()
	for name, id := range services {
		t.Logf("%s lost after %v", name, a.loses(&process{spec: hostSpec{Self: id, Name: name}}, at, 3*time.Second))
	}
}

// More than fits the one packet that avahi answers to one host.
func TestAvahiMany(t *testing.T) {
	l := threeHosts(t, "both")
	const count = 100
	services := make(map[string]identity.ID)
	for i := range count {
		services[fmt.Sprint("service", i)] = invented(0x44, i)
	}
	l.startAvahi("c", services)
	a := l.start("a", hostSpec{})
	seen := 0
	all := a.await(a.started, 5*time.Second, "all services", func(l line) bool {
		if l.Event == "discovered" {
			seen++
		}
		return seen == count
	})
	t.Logf("all %d after %v", count, all.At.Sub(a.started))
}
