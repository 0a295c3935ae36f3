package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeHost is a machine whose systemctl, loginctl and the rest write down how they are called.
type fakeHost struct {
	Host
	t     *testing.T
	bin   string
	said  []string
	calls string // file
}

func newFakeHost(t *testing.T) *fakeHost {
	root := t.TempDir()
	h := &fakeHost{t: t, bin: filepath.Join(root, "bin"), calls: filepath.Join(root, "calls")}
	h.Host = Host{Root: root, UserHome: filepath.Join(root, "home/desk"), Config: filepath.Join(root, "home/desk/.config"), User: "desk",
		Say: func(done, what string) { h.said = append(h.said, fmt.Sprintf("%-6s %s", done, what)) }}
	for _, dir := range []string{h.bin, filepath.Join(root, "run/systemd/system")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"systemctl", "loginctl", "journalctl", "launchctl", "tail"} {
		h.answer(name, "")
	}
	t.Setenv("PATH", h.bin)
	return h
}

// answer has a program do this after it has written down its arguments.
func (h *fakeHost) answer(name, script string) {
	h.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>'%s'\n%s\n", name, h.calls, script)
	if err := os.WriteFile(filepath.Join(h.bin, name), []byte(text), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// takeCalls returns what was called since it was last called, without the questions.
func (h *fakeHost) takeCalls() (calls []string) {
	h.t.Helper()
	data, err := os.ReadFile(h.calls)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	os.Remove(h.calls)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); !strings.Contains(line, " show ") {
			calls = append(calls, line)
		}
	}
	return calls
}

func (h *fakeHost) want(what string, calls ...string) {
	h.t.Helper()
	if diff := cmp.Diff(calls, h.takeCalls()); diff != "" {
		h.t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

func (h *fakeHost) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// write makes a file of the machine.
func (h *fakeHost) write(path, content string) {
	h.t.Helper()
	h.must(os.MkdirAll(filepath.Dir(path), 0o755))
	h.must(os.WriteFile(path, []byte(content), 0o644))
}

var ctx = context.Background()

// What is installed twice is installed once. A change is written and takes effect. What is
// uninstalled is gone, twice.
func TestInstallTwice(t *testing.T) {
	h := newFakeHost(t)
	m, s := systemd{h.Host}, Service{Program: "/usr/local/bin/acpd"}
	path := filepath.Join(h.Config, "systemd/user/acpd.service")
	h.must(m.Install(ctx, s))
	h.want("first", "systemctl --user daemon-reload", "systemctl --user enable acpd.service", "systemctl --user restart acpd.service")
	if !slices.Contains(h.said, "wrote  "+path) {
		t.Errorf("it says %q", h.said)
	}
	if unit, err := os.ReadFile(path); err != nil || !strings.Contains(string(unit), "\nExecStart=/usr/local/bin/acpd --home %h/.acp\n") {
		t.Errorf("the unit: %v\n%s", err, unit)
	}
	h.must(m.Install(ctx, s))
	h.want("again", "systemctl --user enable acpd.service", "systemctl --user start acpd.service")
	h.said, s.Name = nil, "planner"
	h.must(m.Install(ctx, s))
	h.want("changed", "systemctl --user daemon-reload", "systemctl --user enable acpd.service", "systemctl --user restart acpd.service")
	h.must(m.Uninstall(ctx, s))
	h.want("uninstall", "systemctl --user disable --now acpd.service", "systemctl --user reset-failed acpd.service", "systemctl --user daemon-reload")
	if exists(path) {
		t.Error("the unit is still there")
	}
	h.must(m.Uninstall(ctx, s))
	h.want("uninstall again")
}

// A unit that acpctl has not written stays, whatever is asked, and nothing is run.
func TestForeignUnitStays(t *testing.T) {
	h := newFakeHost(t)
	m, s := systemd{h.Host}, Service{Program: "/usr/bin/acpd"}
	path := m.unitPath(s)
	const foreign = "[Service]\nExecStart=/opt/acpd\n"
	h.write(path, foreign)
	if err := m.Install(ctx, s); err == nil || !strings.Contains(err.Error(), "stays as it is") {
		t.Errorf("install: %v", err)
	}
	if err := m.Uninstall(ctx, s); err == nil || !strings.Contains(err.Error(), "not written by acpctl") {
		t.Errorf("uninstall: %v", err)
	}
	if unit, err := os.ReadFile(path); err != nil || string(unit) != foreign {
		t.Errorf("%v\n%s", err, unit)
	}
	h.want("calls")
}

// Where a package has installed the unit that is meant, nothing is written, and the unit stays
// when the service goes.
func TestPackagedUnit(t *testing.T) {
	h := newFakeHost(t)
	m, s := systemd{h.Host}, Service{Program: "/usr/bin/acpd"}
	h.write(filepath.Join(h.Root, "usr/lib/systemd/user/acpd.service"), renderUnit(s))
	h.must(m.Install(ctx, s))
	h.want("install", "systemctl --user enable acpd.service", "systemctl --user start acpd.service")
	h.must(m.Uninstall(ctx, s))
	h.want("uninstall", "systemctl --user disable --now acpd.service", "systemctl --user reset-failed acpd.service")
	s.Program = "/usr/local/bin/acpd" // not that of the package
	h.must(m.Install(ctx, s))
	if !exists(m.unitPath(s)) {
		t.Error("a unit for another program was not written")
	}
}

// Each home has a service of its own, which no other one's verbs touch, and whose name none has.
func TestEachHomeHasAService(t *testing.T) {
	h := newFakeHost(t)
	all := []Service{{}, {Home: "/srv/acp"}, {Home: "/opt/acp"}, {Home: "/srv/ÄCP 😀"}, {Home: "/"}}
	names := make(map[string]Service)
	for _, m := range []Manager{systemd{h.Host}, launchd{h.Host}} {
		for _, s := range all {
			s.Program = "/usr/bin/acpd"
			st, err := m.Inspect(ctx, s)
			h.must(err)
			if other, clashes := names[st.Unit]; clashes {
				t.Errorf("%T: %s is the name of %+v and %+v", m, st.Unit, s, other)
			}
			if names[st.Unit] = s; strings.ContainsFunc(st.Unit, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
				t.Errorf("%T: %q is no name of a unit", m, st.Unit)
			}
		}
	}
	m, first, second := systemd{h.Host}, Service{Program: "/usr/bin/acpd", Home: "/srv/acp"}, Service{Program: "/usr/bin/acpd", Home: "/opt/acp"}
	h.takeCalls()
	const unit, other = "acpd-acp-dbd0fcab.service", "acpd-acp-3e620855.service"
	h.must(m.Install(ctx, first))
	h.want("first", "systemctl --user daemon-reload", "systemctl --user enable "+unit, "systemctl --user restart "+unit)
	h.must(m.Install(ctx, second))
	h.want("second", "systemctl --user daemon-reload", "systemctl --user enable "+other, "systemctl --user restart "+other)
	if text, err := os.ReadFile(m.unitPath(first)); err != nil || !strings.Contains(string(text), "\nExecStart=/usr/bin/acpd --home /srv/acp\n") {
		t.Errorf("%v\n%s", err, text)
	}
	h.must(m.Logs(ctx, first, 5, false))
	h.want("logs", "journalctl --user --unit "+unit+" --lines 5 --output short-iso --no-hostname --no-pager")
	h.must(m.Uninstall(ctx, first))
	h.want("uninstall", "systemctl --user disable --now "+unit, "systemctl --user reset-failed "+unit, "systemctl --user daemon-reload")
	if exists(m.unitPath(first)) || !exists(m.unitPath(second)) {
		t.Error("another unit was removed than that of the home")
	}
}

// Without systemd an error says what to do, and nothing is written.
func TestNoSystemd(t *testing.T) {
	for what, take := range map[string]func(h *fakeHost){
		"systemctl":                         func(h *fakeHost) { os.Remove(filepath.Join(h.bin, "systemctl")) },
		"/run/systemd/system":               func(h *fakeHost) { os.Remove(filepath.Join(h.Root, "run/systemd/system")) },
		"Failed to connect to bus): log in": func(h *fakeHost) { h.answer("systemctl", "echo Failed to connect to bus >&2; exit 1") },
	} {
		h := newFakeHost(t)
		take(h)
		_, err := systemd{h.Host}.Inspect(ctx, Service{})
		for _, err := range []error{err, systemd{h.Host}.Install(ctx, Service{Program: "/usr/bin/acpd"})} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if exists(h.Config) {
			t.Errorf("%s: something was written", what)
		}
	}
}

// A start that fails is an error with systemctl's words.
func TestStartFails(t *testing.T) {
	h := newFakeHost(t)
	h.answer("systemctl", `[ "$2" != restart ] || { echo 'Job for acpd.service failed.' >&2; exit 1; }`)
	err := systemd{h.Host}.Install(ctx, Service{Program: "/usr/bin/acpd"})
	if err == nil || !strings.Contains(err.Error(), "Job for acpd.service failed.") || !strings.Contains(err.Error(), "acpctl service logs") {
		t.Errorf("%v", err)
	}
}

func TestCheck(t *testing.T) {
	for want, s := range map[string]Service{
		"--name": {Name: "../x"},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, path := range []string{"/x\nExecStartPre=/bin/touch /y", "/x\rExecStartPre=/bin/touch /y", "/x\x00", "/x\x1b[2J", "/x\xff", "/x\u0085"} {
		for what, s := range map[string]Service{"--home": {Home: path}, "the path of acpd": {Program: path}} {
			if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), what) {
				t.Errorf("%q: %v", path, err)
			}
			h := newFakeHost(t)
			for _, m := range []Manager{systemd{h.Host}, launchd{h.Host}} {
				if err := m.Install(t.Context(), s); err == nil || !strings.Contains(err.Error(), what) {
					t.Errorf("%T: %q: %v", m, path, err)
				}
			}
			if calls := h.takeCalls(); len(calls) > 0 {
				t.Errorf("%q: calls: %q", path, calls)
			}
		}
	}
}

func TestInspect(t *testing.T) {
	h := newFakeHost(t)
	h.answer("systemctl", `case "$*" in *--property=LoadState*) echo 'MainPID=1022
StatusText=2 peers connected; UDP [::]:7117
Result=success
NRestarts=1
ExecMainExitTimestamp=Thu 2026-11-26 16:03:02 UTC
ExecMainCode=2
ExecMainStatus=9
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/etc/systemd/system/acpd.service
UnitFileState=enabled
ActiveEnterTimestamp=Thu 2026-11-26 16:03:09 UTC
InactiveEnterTimestamp=Thu 2026-11-26 16:03:08 UTC';; esac`)
	got, err := systemd{h.Host}.Inspect(ctx, Service{})
	if err != nil {
		t.Fatal(err)
	}
	want := &State{Unit: "acpd.service", Installed: true, File: "/etc/systemd/system/acpd.service", Enabled: "enabled",
		Running: true, Active: "active (running)", Since: "Thu 2026-11-26 16:03:09 UTC", PID: 1022, LastExit: "signal 9, Thu 2026-11-26 16:03:02 UTC", Restarts: 1,
		Says: "2 peers connected; UDP [::]:7117"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	got = parseShown("acpd.service", "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=watchdog\nMainPID=0\nExecMainExitTimestamp=now\nExecMainCode=1\nExecMainStatus=2\nInactiveEnterTimestamp=now\n")
	if got.Running || got.Active != "failed (failed), watchdog" || got.LastExit != "exit code 2, now" || !got.Ended || got.Since != "now" {
		t.Errorf("a failed one: %+v", got)
	}
	if got = parseShown("acpd.service", "LoadState=not-found\nActiveState=inactive\n"); got.Installed {
		t.Errorf("none: %+v", got)
	}
}

func TestLogs(t *testing.T) {
	h := newFakeHost(t)
	h.must(systemd{h.Host}.Logs(ctx, Service{}, 20, true))
	h.want("logs", "journalctl --user --unit acpd.service --lines 20 --output short-iso --no-hostname --no-pager --follow")
}

func TestLinger(t *testing.T) {
	h := newFakeHost(t)
	h.answer("loginctl", `case "$1" in show-user) echo no;; esac`)
	if lingers, known := (systemd{h.Host}).IsLingering(ctx); lingers || !known {
		t.Errorf("%v, %v", lingers, known)
	}
	h.takeCalls()
	h.must(systemd{h.Host}.EnableLinger(ctx))
	h.want("linger", "loginctl enable-linger desk")
}

// needSystemdAnalyze skips the test where there is none, but not in continuous integration.
func needSystemdAnalyze(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// systemd itself finds nothing wrong with any unit that is rendered, whatever the paths are.
func TestVerify(t *testing.T) {
	needSystemdAnalyze(t)
	dir := t.TempDir()
	runtime := filepath.Join(dir, "runtime")
	if err := os.Mkdir(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "a program; of $HOME", "100% sure")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Service{
		{Program: program}, {Program: program, Name: "desk", Home: "/srv/my %h $HOME \"acp\""},
	} {
		folder, err := os.MkdirTemp(dir, "units")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, unitName(s))
		if err := os.WriteFile(path, []byte(renderUnit(s)), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("systemd-analyze", "--user", "verify", "--man=no", "--recursive-errors=no", path)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtime)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%+v: %v\n%s", s, err, out)
		}
	}
}
