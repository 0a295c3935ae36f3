//go:build packages

package packages

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// debian is a clean Debian root, with a network of its own.
type debian struct {
	t      *testing.T
	dir    string
	netns  string
	daemon *live.Process
}

// The ends of the link (RFC 5737).
const (
	outside = "192.0.2.1"
	inside  = "192.0.2.2"
)

// systemctl stands in for systemctl: it notes what is asked of it, and ends the daemon whose pid
// the test has written down where that would.
const systemctl = `#!/bin/sh
echo "$*" >>/run/systemctl.log
case " $* " in
*" stop "*|*" try-restart "*) [ ! -f /run/acpd.pid ] || kill "$(cat /run/acpd.pid)" ;;
esac
`

// newDebian unpacks a root. It looks as if systemd ran there, if told so. Its link to the tests
// needs joinNetwork.
func newDebian(t *testing.T, name string, systemd bool) *debian {
	t.Helper()
	d := &debian{t: t, dir: live.MakeTempDir(t), netns: name}
	must(t, "/", "tar", "--extract", "--numeric-owner", "--file", os.Getenv("ACPD_DEBIAN"), "--directory", d.dir)
	must(t, "/", "mount", "-t", "proc", "proc", d.path("/proc"))
	t.Cleanup(func() { must(t, "/", "umount", "--lazy", d.path("/proc")) })
	if systemd {
		d.write("/usr/bin/systemctl", systemctl, 0o755)
		if err := os.MkdirAll(d.path("/run/systemd/system"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "/", "ip", "netns", "add", name)
	t.Cleanup(func() { must(t, "/", "ip", "netns", "del", name) })
	must(t, "/", "ip", "-n", name, "link", "set", "lo", "up")
	return d
}

// joinNetwork joins the root and the tests.
func (d *debian) joinNetwork() {
	d.t.Helper()
	for _, line := range []string{
		"link add " + d.netns + " type veth peer name eth0 netns " + d.netns,
		"address add " + outside + "/24 dev " + d.netns,
		"link set " + d.netns + " up",
		"-n " + d.netns + " address add " + inside + "/24 dev eth0",
		"-n " + d.netns + " link set eth0 up",
	} {
		must(d.t, "/", append([]string{"ip"}, strings.Fields(line)...)...)
	}
}

// path returns where a path of the root is for the test.
func (d *debian) path(path string) string { return filepath.Join(d.dir, path) }

func (d *debian) write(path, text string, mode fs.FileMode) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(d.path(path)), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(d.path(path), []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
}

// exists tells whether a path is there. A symbolic link counts.
func (d *debian) exists(path string) bool {
	d.t.Helper()
	_, err := os.Lstat(d.path(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Fatal(err)
	}
	return err == nil
}

// command returns the command line of a program in the root.
func (d *debian) command(argv ...string) []string {
	return append([]string{"ip", "netns", "exec", d.netns, "chroot", d.dir}, argv...)
}

// environ is the environment of all programs in the root.
var environ = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"}

// try runs a program in the root as root, and returns all that it says.
func (d *debian) try(argv ...string) (string, error) {
	argv = d.command(argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = environ
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try for what has to succeed.
func (d *debian) run(argv ...string) string {
	d.t.Helper()
	out, err := d.try(argv...)
	if err != nil {
		d.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return out
}

// install installs the package of a release, as dpkg does for apt.
func (d *debian) install(release string) string {
	d.t.Helper()
	deb := findFile(d.t, release, "*.deb")
	text, err := os.ReadFile(deb)
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("/tmp/"+filepath.Base(deb), string(text), 0o644)
	return d.run("dpkg", "--install", "/tmp/"+filepath.Base(deb))
}

// asked returns what was asked of systemctl since the last call.
func (d *debian) asked() string {
	d.t.Helper()
	text, err := os.ReadFile(d.path("/run/systemctl.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Fatal(err)
	}
	os.Remove(d.path("/run/systemctl.log"))
	return string(text)
}

// startUnit starts the daemon as the installed unit says, with its user and its umask, and
// waits until it answers.
func (d *debian) startUnit() {
	d.t.Helper()
	unit, err := os.ReadFile(d.path("/usr/lib/systemd/system/acpd.service"))
	if err != nil {
		d.t.Fatal(err)
	}
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindSubmatch(unit)
		if m == nil {
			d.t.Fatalf("acpd.service: no %s", name)
		}
		return string(m[1])
	}
	if mode := setting("UMask"); mode != "0077" {
		d.t.Errorf("umask %s", mode)
	}
	argv := append(d.asUser(setting("User")), strings.Fields(setting("ExecStart"))...)
	d.daemon = live.StartProcess(d.t, environ, d.command(argv...)...)
	d.acpctl("status", "--wait", "2m")
	if !d.daemon.IsRunning() {
		d.t.Fatalf("acpd ended: %s", &d.daemon.Stderr)
	}
	// ip, chroot and setpriv have become it.
	d.write("/run/acpd.pid", strconv.Itoa(d.daemon.Cmd.Process.Pid), 0o644)
}

// asUser is the beginning of a command line that another user runs, without any privilege, in
// the environment that systemd gives its services.
func (d *debian) asUser(name string) []string {
	return []string{"setpriv", "--reuid=" + name, "--regid=" + name, "--clear-groups", "--reset-env", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"}
}

// acpctl runs acpctl for the daemon of the unit, as its user.
func (d *debian) acpctl(args ...string) string {
	d.t.Helper()
	return d.run(d.acpctlCommand(args...)...)
}

func (d *debian) acpctlCommand(args ...string) []string {
	return append(append(d.asUser("acpd"), "acpctl", "--home", "/var/lib/acpd"), args...)
}

// awaitDaemonEnd waits until the daemon has ended, as it was asked to.
func (d *debian) awaitDaemonEnd() {
	d.t.Helper()
	d.daemon.AwaitExit(0)
	if err := os.Remove(d.path("/run/acpd.pid")); err != nil {
		d.t.Fatal(err)
	}
}

// TestDebianPackage is the life of the package on one machine: installed, started, asked by a
// daemon on another machine, upgraded under load, removed, purged.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	old, err := makeRelease("../..", older, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newDebian(t, "laptop", true)
	d.joinNetwork()
	d.write("/home/owner/.acp/identity.key", "mine", 0o600)

	// Installed: there is a user, and a folder of its own. Nothing runs, nothing will by itself.
	said := d.install(old)
	if !strings.Contains(said, "systemctl enable --now acpd") {
		t.Errorf("installing says %q", said)
	}
	if asked := d.asked(); asked != "--system daemon-reload\n" {
		t.Errorf("installing asks systemd for %q", asked)
	}
	if got := d.run("stat", "--format=%U %G %a", "/var/lib/acpd"); got != "acpd acpd 700\n" {
		t.Errorf("/var/lib/acpd is %q", got)
	}
	if got := d.run("getent", "passwd", "acpd"); !strings.HasSuffix(got, ":/var/lib/acpd:/usr/sbin/nologin\n") {
		t.Errorf("the user is %q", got)
	}
	d.run("dpkg", "--verify", "acpd")
	d.startUnit()
	if got := d.run("find", "/var/lib/acpd", "-perm", "/077", "!", "-type", "s"); got != "" {
		t.Errorf("open to others: %s", got)
	}

	// Asked from another machine.
	desk := live.NewMachine(t, "desk")
	desk.Flags = []string{"--no-mdns", "--listen", outside + ":0"}
	desk.StartDaemon()
	desk.MustOutput("join", strings.TrimSpace(d.acpctl("invite")))
	laptop := strings.TrimSpace(strings.Split(desk.MustOutput("peers"), "\t")[0])
	answering := live.StartProcess(t, environ, d.command(d.acpctlCommand("serve", "--name", "reviewer", "--prompt", "--", "sed", "s/^/You asked: /")...)...)
	await.Until(t, "the reviewer is attached", func() bool { return strings.Contains(d.acpctl("status"), "reviewer") })
	if got := desk.MustOutput("query", laptop, "Is the parser safe?"); got != "You asked: Is the parser safe?\n" {
		t.Errorf("the answer is %q", got)
	}

	// A notice, a delegation that goes on, a channel, and mail.
	if got := desk.MustOutput("notify", laptop, "build.done", `{"commit": "4f2a"}`); !strings.Contains(got, "held") {
		t.Errorf("the notice is %q", got)
	}
	done := filepath.Join(desk.Home, "done")
	desk.StartAcpctl("serve", "--name", "worker", "--prompt", "--", "sh", "-c", "until [ -e "+done+" ]; do sleep 0.05; done; echo The parser is safe.")
	await.Until(t, "the worker is attached", func() bool { return strings.Contains(desk.MustOutput("status"), "worker") })
	task := strings.TrimSpace(d.acpctl("delegate", "desk", "Review the parser."))
	d.acpctl("channel", "create", "questions", "--title", "Research", "--as", "planner")
	d.acpctl("channel", "send", "questions", "Which schema?", "--as", "planner")
	desk.MustOutput("oacp", "init", "demo", "--agents", "planner")
	desk.MustOutput("oacp", "bind", "demo", "reviewer", laptop)
	d.acpctl("oacp", "init", "demo", "--agents", "reviewer")
	d.acpctl("oacp", "bind", "demo", "planner", "desk")
	mail := func(subject string) {
		t.Helper()
		desk.MustOutput("oacp", "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", subject, "--body", "Say when.", "--wait-delivered")
		if got := d.acpctl("oacp", "inbox", "demo", "--agent", "reviewer"); !strings.Contains(got, subject) {
			t.Errorf("the mailbox has %q, not %q", got, subject)
		}
	}
	mail("Ready?")

	check := func() {
		t.Helper()
		if got := d.acpctl("inbox"); !strings.Contains(got, "build.done") {
			t.Errorf("the inbox is %q", got)
		}
		if got := d.acpctl("tasks"); !strings.Contains(got, task) {
			t.Errorf("the tasks are %q", got)
		}
		if got := d.acpctl("channel", "tail", "questions", "--as", "planner"); !strings.Contains(got, "Which schema?") {
			t.Errorf("the channel has %q", got)
		}
		if got := d.acpctl("oacp", "inbox", "demo", "--agent", "reviewer"); !strings.Contains(got, "Ready?") {
			t.Errorf("the mailbox has %q", got)
		}
	}
	check()
	id := d.acpctl("whoami", "--json")

	// Upgraded while it runs: systemd is asked to start what runs anew, and nothing else.
	d.install(newerRelease(t))
	if asked := d.asked(); asked != "--system daemon-reload\ntry-restart acpd.service acpd@*.service\n" {
		t.Errorf("upgrading asks systemd for %q", asked)
	}
	d.awaitDaemonEnd()
	d.startUnit()
	if got := d.acpctl("whoami", "--json"); !strings.Contains(got, `"version":"`+newer+`"`) || field(t, got, "id") != field(t, id, "id") {
		t.Errorf("after the upgrade it is %s, was %s", got, id)
	}
	check()
	await.Until(t, "the reviewer is attached again", func() bool { return strings.Contains(d.acpctl("status"), "reviewer") })
	if got := desk.MustOutput("query", laptop, "--wait-for-peer", "2m", "Still there?"); got != "You asked: Still there?\n" {
		t.Errorf("the answer is %q", got)
	}
	mail("Still there?")
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.acpctl("wait", task); got != "The parser is safe.\n" {
		t.Errorf("the result is %q", got)
	}

	// Removed: the daemon ends, the program goes, the state stays.
	answering.Stop()
	d.run("dpkg", "--remove", "acpd")
	if asked := d.asked(); asked != "stop acpd.service acpd@*.service\n--system daemon-reload\n" {
		t.Errorf("removing asks systemd for %q", asked)
	}
	d.awaitDaemonEnd()
	for path, want := range map[string]bool{"/usr/bin/acpd": false, "/usr/lib/systemd/system/acpd.service": false, "/var/lib/acpd/identity.key": true, "/var/lib/acpd/state.db": true} {
		if d.exists(path) != want {
			t.Errorf("after removing: %s: %v", path, !want)
		}
	}

	// Purged: the state goes, after it was saved.
	saved := d.purge()
	if list := d.run("tar", "--list", "--file", saved); !strings.Contains(list, "var/lib/acpd/identity.key\n") || !strings.Contains(list, "var/lib/acpd/state.db\n") {
		t.Errorf("saved are\n%s", list)
	}
	if d.exists("/var/lib/acpd") || d.exists("/etc/ufw/applications.d/acpd") {
		t.Error("the state or the configuration is still there")
	}
	if key, err := os.ReadFile(d.path("/home/owner/.acp/identity.key")); err != nil || string(key) != "mine" {
		t.Errorf("the owner's own key is %q (%v)", key, err)
	}
	if got, err := d.try("dpkg-query", "--show", "acpd"); err == nil {
		t.Errorf("dpkg still knows %s", got)
	}

	// Who unpacks the archive and installs again has everything again.
	d.install(newerRelease(t))
	d.run("tar", "--extract", "--file", saved, "--directory", "/")
	d.startUnit()
	if got := d.acpctl("whoami", "--json"); field(t, got, "id") != field(t, id, "id") {
		t.Errorf("restored it is %s, was %s", got, id)
	}
	d.daemon.Stop()
}

// purge purges the package, which must work, and returns the path that it prints.
func (d *debian) purge() string {
	d.t.Helper()
	said := d.run("dpkg", "--purge", "acpd")
	m := regexp.MustCompile(`(?m)^acpd: purge: the state, with the private key, is saved as (/var/backups/acpd-\d{4}-\d\d-\d\d\.\w+\.tar\.gz)$`).FindStringSubmatch(said)
	if m == nil {
		d.t.Fatalf("purging says %q", said)
	}
	if got := d.run("stat", "--format=%U %G %a", m[1]); got != "root root 600\n" {
		d.t.Errorf("the backup is %q", got)
	}
	return m[1]
}

// refusePurge purges the package, which must fail, say why, and remove nothing.
func (d *debian) refusePurge(why string) {
	d.t.Helper()
	said, err := d.try("dpkg", "--purge", "acpd")
	if err == nil || !strings.Contains(said, why) {
		d.t.Errorf("purging (%v) says %q, want %q", err, said, why)
	}
	if !d.exists("/var/lib/acpd/identity.key") {
		d.t.Error("the key is gone")
	}
	if left, err := filepath.Glob(d.path("/var/backups/acpd-*")); err != nil || len(left) > 0 {
		d.t.Errorf("left is %q (%v)", left, err)
	}
}

// TestPurge: what stands in the way of a purge, and what must never be touched by one. There is
// no systemd here: the package gets along without it.
func TestPurge(t *testing.T) {
	t.Parallel()
	d := newDebian(t, "reviewer", false)
	d.install(newerRelease(t))
	d.startUnit()
	d.daemon.Stop()
	d.write("/home/owner/.acp/identity.key", "mine", 0o600)
	d.run(append(d.asUser("acpd"), "ln", "-s", "/home/owner", "/var/lib/acpd/out")...)
	d.run(append(d.asUser("acpd"), "mkfifo", "/var/lib/acpd/pipe")...)
	d.write("/var/lib/private/acpd-planner/identity.key", "an instance", 0o600)
	d.write("/var/lib/private/acpd-else/notes", "not ours", 0o600)
	d.run("ln", "-s", "private/acpd-planner", "/var/lib/acpd-planner")
	d.run("ln", "-s", "/home/owner", "/var/lib/acpd-else")
	d.write("/etc/systemd/system/multi-user.target.wants/acpd@planner.service", "", 0o644)

	lock, err := os.Open(d.path("/var/lib/acpd/lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d.run("dpkg", "--remove", "acpd")
	d.refusePurge("a daemon runs on /var/lib/acpd, and nothing was removed: stop it, then purge again")
	lock.Close()

	d.run("mkdir", "/var/lib/acpd/mail")
	must(t, "/", "mount", "--bind", d.path("/home/owner"), d.path("/var/lib/acpd/mail"))
	d.refusePurge("something is mounted below /var/lib/acpd, and nothing was removed: unmount it, then purge again")
	must(t, "/", "umount", d.path("/var/lib/acpd/mail"))

	must(t, "/", "mount", "-t", "tmpfs", "-o", "size=4k", "full", d.path("/var/backups"))
	d.refusePurge("the state could not be saved to /var/backups, and nothing was removed: free some space there, then purge again")
	must(t, "/", "mount", "-o", "remount,ro", d.path("/var/backups"))
	d.refusePurge("/var/backups cannot be written, and nothing was removed: mend that, then purge again")
	must(t, "/", "umount", d.path("/var/backups"))

	saved := d.purge()
	list := d.run("tar", "--list", "--file", saved)
	for _, want := range []string{"var/lib/acpd/identity.key\n", "var/lib/acpd/out\n", "var/lib/private/acpd-planner/identity.key\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("saved are\n%swithout %s", list, want)
		}
	}
	if strings.Contains(list, "owner") || strings.Contains(list, "else") {
		t.Errorf("saved are\n%s", list)
	}
	for path, want := range map[string]bool{
		"/var/lib/acpd": false, "/var/lib/private/acpd-planner": false, "/var/lib/acpd-planner": false,
		"/etc/systemd/system/multi-user.target.wants/acpd@planner.service": false,
		"/var/lib/private/acpd-else/notes":                                 true, "/var/lib/acpd-else": true, "/home/owner/.acp/identity.key": true,
	} {
		if d.exists(path) != want {
			t.Errorf("after purging: %s is there: %v", path, !want)
		}
	}

	// The state directory may be elsewhere: then it stays.
	d.install(newerRelease(t))
	d.run("rmdir", "/var/lib/acpd")
	d.run("ln", "-s", "/home/owner/.acp", "/var/lib/acpd")
	d.install(newerRelease(t))
	if said := d.run("dpkg", "--purge", "acpd"); !strings.Contains(said, "/var/lib/acpd is a symbolic link to /home/owner/.acp: what is there stays") {
		t.Errorf("purging says %q", said)
	}
	if key, err := os.ReadFile(d.path("/home/owner/.acp/identity.key")); err != nil || !bytes.Equal(key, []byte("mine")) {
		t.Errorf("the owner's own key is %q (%v)", key, err)
	}
}

// field returns a string in a line of JSON.
func field(t *testing.T, line, name string) string {
	t.Helper()
	m := regexp.MustCompile(`"` + name + `":"([^"]*)"`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no %s in %s", name, line)
	}
	return m[1]
}
