//go:build netns

package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// avahiRun is the folder in which avahi insists on its socket; it is made for all tests.
const avahiRun = live.PrivateDir + "/avahi-daemon"

// lifetime is the time for which the records of acpd may be kept.
const lifetime = 75 * time.Second

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
  <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy>
</busconfig>
`

const avahiConfig = `[server]
host-name=%s
use-ipv4=yes
use-ipv6=yes
[publish]
publish-workstation=no
publish-hinfo=no
[rlimits]
`

const avahiService = `<service-group><name>%s</name><service><type>_acp._udp</type><port>4242</port>
<txt-record>v=1</txt-record><txt-record>id=%s</txt-record><txt-record>name=%[1]s</txt-record></service></service-group>
`

// avahiScript starts avahi with the files in $0. It gives its directory to the user
// avahi, whom it finds even if root is the only user here.
const avahiScript = `
for users in passwd group; do
	sed -E 's/^(avahi:[^:]*):[0-9]+(:[0-9]+:|:)/\1:0\2/; s/^(avahi:[^:]*:0):[0-9]+:/\1:0:/' /etc/$users >"$0/$users"
	mount --bind "$0/$users" /etc/$users
done
mount --bind "$0/run" ` + avahiRun + `
mount --bind "$0/services" /etc/avahi/services
exec avahi-daemon -f "$0/avahi.conf" --no-drop-root --no-chroot --no-rlimits
`

// avahi is a real avahi-daemon on a host, with a bus of its own.
type avahi struct {
	*live.Process
	h   *host
	env []string
}

// avahi starts avahi with services, each of one id.
func (h *host) avahi(services map[string]identity.ID) *avahi {
	t := h.l.t
	t.Helper()
	dir := t.TempDir()
	bus := dir + "/bus"
	write := func(name, format string, args ...any) {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, format, args...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"run", "services"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("bus.conf", busConfig, bus)
	write("avahi.conf", avahiConfig, h.name)
	for name, id := range services {
		write("services/"+name+".service", avahiService, name, id)
	}
	h.begin(nil, "dbus-daemon", "--config-file="+dir+"/bus.conf", "--nofork", "--nopidfile")
	eventually(t, time.Now(), await.Patience, "the bus of "+h.name, func() bool { return exists(bus) })
	a := &avahi{h: h, env: []string{"DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + bus}}
	a.Process = h.begin(a.env, "unshare", "-m", "sh", "-ec", avahiScript, dir)
	eventually(t, a.Begun, await.Patience, "avahi on "+h.name, func() bool {
		log := a.Stderr.String()
		return strings.Contains(log, "Server startup complete") && strings.Count(log, "successfully established") >= len(services)
	})
	return a
}

// browse returns the services that avahi-browse resolves, one a line.
func (a *avahi) browse() (resolved []string) {
	a.h.l.t.Helper()
	// It waits for ever for a service that goes while it is resolved.
	p := a.h.begin(a.env, "timeout", "10", "avahi-browse", "-rpt", "_acp._udp")
	<-p.Ended
	for l := range strings.Lines(p.Stdout.String()) {
		if strings.HasPrefix(l, "=") {
			resolved = append(resolved, strings.TrimSpace(l))
		}
	}
	return resolved
}

// shows waits until avahi-browse shows a daemon's service over both families, with
// its TXT, resolved to one of its addresses.
func (a *avahi) shows(d *daemon, addrs ...string) {
	a.h.l.t.Helper()
	_, port, _ := strings.Cut(d.Addr, ":")
	for _, over := range []string{"IPv4", "IPv6"} {
		eventually(a.h.l.t, time.Now(), await.Patience, "avahi-browse shows "+d.Name+" over "+over, func() bool {
			return slices.ContainsFunc(a.browse(), func(line string) bool {
				has := func(text string) bool { return strings.Contains(line, text) }
				resolved := slices.ContainsFunc(addrs, func(addr string) bool { return has(";" + addr + ";" + port + ";") }) || over == "IPv6" && has(";fe80::")
				return resolved && has(";"+over+";") && has(`"v=1"`) && has(`"id=`+d.ID.String()+`"`) && has(`"name=`+d.Name+`"`) && has(`"a=`+addrs[0]+":"+port+`"`)
			})
		})
	}
}

// TestAvahi: avahi and the daemons see each other, on one host and across, and
// avahi still does when what it first heard has expired.
func TestAvahi(t *testing.T) {
	t.Parallel()
	_, h := lan(t, both, "desk", "laptop")
	services := map[string]identity.ID{"one": {0x11}, "two": {0x22}, "three three": {0x33}}
	av := h[1].avahi(services)
	desk, laptop := h[0].acpd("desk"), h[1].acpd("laptop")
	for name, id := range services {
		t.Logf("%s after %s, on the same host after %s", name, desk.sees(id, "10.77.0.2:4242", laptop.Acpd.Begun, await.Patience), laptop.sees(id, "10.77.0.2:4242", laptop.Acpd.Begun, await.Patience))
		if claim := desk.FindPeer(id).Claim; claim != name {
			t.Errorf("%q is listed as %q", name, claim)
		}
	}
	desk.sees(laptop.ID, "", laptop.Acpd.Begun, await.Patience)
	laptop.sees(desk.ID, "", laptop.Acpd.Begun, await.Patience)
	av.shows(desk, "10.77.0.1", "fd77::1")
	av.shows(laptop, "10.77.0.2", "fd77::2")
	<-time.After(time.Until(laptop.Acpd.Begun.Add(lifetime + 10*time.Second)))
	av.shows(desk, "10.77.0.1", "fd77::1")
	av.shows(laptop, "10.77.0.2", "fd77::2")
	for _, id := range services {
		if n := desk.heard(client.EventLost, id) + laptop.heard(client.EventLost, id); n != 0 {
			t.Errorf("%s was lost %d times meanwhile", id.Label(), n)
		}
	}

	at := laptop.StopDaemon()
	eventually(t, at, byeTime+await.Patience, "avahi hears the goodbye", func() bool {
		for _, l := range av.browse() {
			if strings.Contains(l, laptop.ID.String()) {
				return false
			}
		}
		return true
	})
	at = time.Now()
	av.Stop()
	for name, id := range services {
		await.CheckDuration(t, "avahi's goodbye for "+name, desk.hears(client.EventLost, id, at, await.Patience), byeTime+slack)
	}
	desk.warned(0)
	laptop.warned(0)
}

// TestAvahiMany: more than fits the packet that avahi answers to one host.
func TestAvahiMany(t *testing.T) {
	t.Parallel()
	_, h := lan(t, both, "desk", "laptop")
	const count = 100
	services := make(map[string]identity.ID)
	for i := range count {
		services[fmt.Sprint("service", i)] = invented(0x44, i)
	}
	h[1].avahi(services)
	desk := h[0].acpd("desk")
	t.Logf("all %d after %s", count, eventually(t, desk.Acpd.Begun, await.Patience, "all services", func() bool { return len(desk.ListPeers()) == count }))
}
