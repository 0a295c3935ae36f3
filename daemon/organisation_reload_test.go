package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// A certificate that cannot be read, as one that is being written, leaves the one before in its place:
// connections stay, and the owner is told.
func TestACertificateThatCannotBeReadLeavesTheOneBefore(t *testing.T) {
	t.Parallel()
	a, desk, build := fleet(t, "", "")
	desk.dial().reach("build-7.corp")
	good := a.SignFile(build.ID(), 300*24*time.Hour, "acp:build-8")
	l := build.dial()
	for name, text := range map[string]string{"half": good[:len(good)/2], "empty": "", "of another key": a.SignFile(desk.ID(), time.Hour, "acp:desk")} {
		build.write("acpd-cert.pub", text)
		r := get[client.Reloaded](l, "reload", nil)
		if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, "organisation.certificate: acpd-cert.pub: certificate") || !strings.Contains(all, "until then the one before is shown") {
			t.Errorf("%s: %q", name, all)
		}
	}
	desk.dial().reach("build-7.corp")
	var c client.Certificates
	if l.must("certificate", nil, &c); c.Certificate == nil || c.Certificate.Name != "build-7.corp" || !strings.Contains(c.Problem, "the one before is shown") {
		t.Errorf("%+v", c)
	}
	if err := os.Remove(filepath.Join(build.dir, "acpd-cert.pub")); err != nil {
		t.Fatal(err)
	}
	l.must("reload", nil, nil)
	build.write("acpd-cert.pub", good)
	l.must("reload", nil, nil)
	await.Until(t, "renewed", func() bool { p, _ := desk.trust.FindPeer(build.ID()); return p.Name == "build-8.corp" })

	// Without the setting it shows none.
	build.write("config.yaml", strings.Replace(build.read("config.yaml"), "  certificate: acpd-cert.pub\n", "", 1))
	l.must("reload", nil, nil)
	await.Until(t, "withdrawn", func() bool { _, ok := desk.trust.FindPeer(build.ID()); return !ok })
}

// While a file of revocations is damaged, the last good one counts, and a daemon without one does not
// start: nothing that was revoked counts again.
// holds: security.md#fleets
func TestRevocationsThatCannotBeReadOpenNothing(t *testing.T) {
	t.Parallel()
	_, desk, build := fleet(t, "", "")
	l := desk.dial()
	l.reach("build-7.corp")
	desk.write("revoked.txt", "serial 7\n")
	l.must("reload", nil, nil)
	file := filepath.Join(desk.dir, "revoked.txt")
	for name, spoil := range map[string]func() error{
		"missing":     func() error { return nil },
		"no file":     func() error { return os.Mkdir(file, 0o700) },
		"half a line": func() error { desk.write("revoked.txt", "seri"); return nil },
		"too long": func() error {
			desk.write("revoked.txt", strings.Repeat("#", identity.MaxRevocationFile+1))
			return nil
		},
	} {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := l.call("reload", nil, nil); err == nil {
			t.Errorf("%s: reload takes it", name)
		}
		if err := l.call("ping", client.PingParams{To: build.ID().String()}, nil); err == nil {
			t.Errorf("%s: what was revoked counts", name)
		}
		if d, err := OpenDaemon(t.Context(), Options{Home: stateDirOf(t, desk.dir), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true}); err == nil {
			t.Errorf("%s: a daemon starts", name)
			_ = d.Close()
		}
	}
}

func (d *running) read(name string) string {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(data)
}

// stateDirOf returns a state directory with the configuration, and what that names, of another.
func stateDirOf(t *testing.T, dir string) string {
	t.Helper()
	to := stateDir(t)
	for _, name := range []string{"config.yaml", "acpd-cert.pub", "revoked.txt"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to
}

// A key that shows a certificate and takes it back again and again writes no more into the log than
// another peer does.
// holds: security.md#fleets
func TestCertificatesThatEndFillNoLog(t *testing.T) {
	t.Parallel()
	log := new(await.Output)
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: log})
	for range 1000 {
		desk.handlePeerEvent(peer.Event{Type: peer.EventDecertified, Peer: identity.ID{1}})
	}
	if n := strings.Count(log.String(), "certificate ended"); n == 0 || n > 10 {
		t.Errorf("%d lines", n)
	}
	for i := range 5000 {
		desk.handlePeerEvent(peer.Event{Type: peer.EventDecertified, Peer: identity.ID{2, byte(i), byte(i >> 8)}})
	}
	if n := strings.Count(log.String(), "certificate ended"); n > 600 {
		t.Errorf("%d lines of 5000 keys", n)
	}
}

// An authority that changes its key keeps its names and its rules, and no connection ends.
// holds: security.md#fleets
func TestAnAuthorityChangesItsKey(t *testing.T) {
	t.Parallel()
	old, desk, build := fleet(t, "", "")
	next := authority.New(t, "corp")
	l := desk.dial()
	l.reach("build-7.corp")
	before, _ := desk.node.Peer(build.ID())
	both := []*running{desk, build}
	for _, d := range both {
		d.write("config.yaml", strings.Replace(d.read("config.yaml"), "      key: "+old.Line()+"\n", "      key: "+old.Line()+"\n      next_key: "+next.Line()+"\n", 1))
		d.dial().must("reload", nil, nil)
	}
	var c client.Certificates
	if l.must("certificate", nil, &c); len(c.Authorities) != 1 || c.Authorities[0].Peers != 1 {
		t.Errorf("%+v", c.Authorities)
	}
	for i, d := range both {
		d.write("acpd-cert.pub", next.SignFile(d.ID(), 200*24*time.Hour, []string{"acp:desk", "acp:build-7"}[i]))
		d.dial().must("reload", nil, nil)
	}
	hasNext := func(d, of *running) bool {
		p, ok := d.trust.FindPeer(of.ID())
		return ok && p.Certificate.NotAfter.Before(time.Now().Add(201*24*time.Hour))
	}
	await.Until(t, "renewed", func() bool { return hasNext(desk, build) && hasNext(build, desk) })
	for _, d := range both {
		d.write("config.yaml", strings.Replace(d.read("config.yaml"), "      key: "+old.Line()+"\n      next_key: ", "      key: ", 1))
		d.dial().must("reload", nil, nil)
	}
	l.reach("build-7.corp")
	if after, _ := desk.node.Peer(build.ID()); after.Boot != before.Boot || after.Addr != before.Addr {
		t.Errorf("%+v before, %+v after", before, after)
	}
	if e := l.refused(kinds.Invalid, "certificate", client.CertificateParams{File: "x"}); e == nil {
		t.Error("x is a certificate")
	}
	l.must("certificate", client.CertificateParams{File: old.SignFile(desk.ID(), time.Hour, "acp:desk")}, &c)
	if !strings.Contains(c.Problem, "no authority that is configured here") {
		t.Errorf("the old key counts: %+v", c)
	}
}

// A reload says what it has taken over from the files of the daemon's certificate and of revocations, once.
func TestReloadTellsOfFilesOfCertificates(t *testing.T) {
	t.Parallel()
	a, desk, build := fleet(t, "", "")
	reload := func(r *running, setting, from, to string) {
		t.Helper()
		var got client.Reloaded
		if r.dial().must("reload", nil, &got); len(got.Changed) != 1 || got.Changed[0].Setting != setting || got.Changed[0].From != from || !strings.HasPrefix(got.Changed[0].To, to) || got.Changed[0].Deferred {
			t.Errorf("%+v", got.Changed)
		}
		if r.dial().must("reload", nil, &got); len(got.Changed) > 0 {
			t.Errorf("again: %+v", got.Changed)
		}
	}
	desk.dial().must("reload", nil, nil)
	desk.write("revoked.txt", "serial 7\nname build-9\n")
	reload(desk, "organisation.authorities.corp.revoked", "0 revoked", "2 revoked")
	_, before := build.organisation.Certificate()
	build.write("acpd-cert.pub", a.SignFile(build.ID(), 300*24*time.Hour, "acp:build-8"))
	reload(build, "organisation.certificate", "build-7, until "+before.NotAfter.Format(time.RFC3339), "build-8, until 2")
}

// Pins that came while the last ones were written, or after the saver had ended, are on disk when the daemon is.
func TestPinsOfTheLastMomentAreSaved(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	addTables(t, dir)
	d, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", Version: "test", NoMDNS: true, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	corp, build, hash := authority.New(t, "corp"), identity.ID{1}, identity.HashPQ([]byte("a post-quantum key"))
	d.trust.SetAuthorities([]identity.Authority{corp.Authority})
	if _, err := d.trust.Certify(corp.Sign(build, time.Hour, "acp:build-7"), build, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	if err := d.trust.PinPQ(build, hash); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	pins, err := readPins(start(t, dir, "desk"))
	if err != nil || len(pins) != 1 || pins[0].ID != build || pins[0].PQ != hash {
		t.Errorf("%+v, %v", pins, err)
	}
}
