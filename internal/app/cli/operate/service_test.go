package operate

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// newServiceDaemon returns a daemon whose command lines run on a machine with systemd, where
// systemctl does what a script says.
func newServiceDaemon(t *testing.T, systemctl string) (f *clitest.FakeDaemon, user string) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is the manager of Linux alone")
	}
	user = t.TempDir()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"systemctl": systemctl, "acpd": "", "loginctl": ""} {
		if err := os.WriteFile(filepath.Join(user, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"HOME": user, "PATH": user, "ACP_HOME": "", "XDG_CONFIG_HOME": ""} {
		t.Setenv(name, value)
	}
	return clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		f.MachineRoot = root
		cmd := &cobra.Command{Use: "acpctl"}
		f.SetUpRoot(cmd, NewCmds(f, "")...)
		return cmd
	}), user
}

// What runs is shown, and the exit code tells a script
// whether it runs.
func TestServiceStatus(t *testing.T) {
	const show = `case "$*" in *StatusText*) echo "LoadState=loaded
ActiveState=$STATE
SubState=running
Result=success
UnitFileState=enabled
MainPID=7";; esac`
	f, _ := newServiceDaemon(t, show)
	t.Setenv("STATE", "active")
	want := "unit\t" + findHomeUnit(f.Home) + "\ninstalled\tyes, enabled\nstate\tactive (running)\npid\t7\nhome\t" + f.Home + "\n"
	f.WantResult(f.Run("service", "status"), 0, want, "")
	var shown serviceStatus
	if got := f.Run("service", "status", "--json"); got.Code != 0 || json.Unmarshal([]byte(got.Out), &shown) != nil || !shown.Running || shown.Home != f.Home {
		t.Errorf("%+v", got)
	}
	t.Setenv("STATE", "inactive")
	if got := f.Run("service", "status"); got.Code != frame.ExitNoDaemon || got.Err != "" || !strings.Contains(got.Out, "state\tinactive (running)\n") {
		t.Errorf("of one that does not run: %+v", got)
	}
}

// findHomeUnit returns the name of the unit of a home, which is a folder with a plain name.
func findHomeUnit(home string) string {
	return fmt.Sprintf("acpd-%s-%.4x.service", strings.TrimPrefix(filepath.Base(home), "."), sha256.Sum256([]byte(home)))
}

// install says what it wrote and ran.
func TestServiceInstall(t *testing.T) {
	f, user := newServiceDaemon(t, "")
	unit := findHomeUnit(f.Home)
	path := filepath.Join(user, ".config/systemd/user", unit)
	f.WantResult(f.Run("service", "install", "--name", "desk"), 0, "wrote  "+path+"\nran    systemctl --user daemon-reload\nran    systemctl --user enable "+unit+"\nran    systemctl --user restart "+unit+"\n", "")
	text, err := os.ReadFile(path)
	if start := "\nExecStart=" + user + "/acpd --home " + f.Home + " --name desk\n"; err != nil || !strings.Contains(string(text), start) {
		t.Errorf("%v, %s, want %s", err, text, start)
	}
	f.WantResult(f.Run("service", "install", "--name", "desk", "--json"), 0, `{"done":"kept","what":"`+path+`"}`+"\n"+`{"done":"ran","what":"systemctl --user enable `+unit+`"}`+"\n"+`{"done":"ran","what":"systemctl --user start `+unit+`"}`+"\n", "")
	f.WantResult(f.Run("service", "uninstall", "--json"), 0, `{"done":"ran","what":"systemctl --user disable --now `+unit+`"}`+"\n"+`{"done":"removed","what":"`+path+`"}`+"\n"+`{"done":"ran","what":"systemctl --user daemon-reload"}`+"\n", "")
}

// The service starts acpd by the path that a package manager keeps, if PATH has it: not by that of
// one version, which the next update removes.
func TestServiceStartsALastingPath(t *testing.T) {
	dir := t.TempDir()
	version, bin, other := filepath.Join(dir, "Cellar/acpd/0.1/bin"), filepath.Join(dir, "bin"), filepath.Join(dir, "other")
	for _, dir := range []string{version, bin, other} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(version, "acpd"), filepath.Join(other, "acpd")} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../Cellar/acpd/0.1/bin/acpd", filepath.Join(bin, "acpd")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ own, path, want string }{
		{version, bin, bin}, // of Homebrew: the link
		{version, version, version},
		{version, other, version}, // another acpd is in PATH
		{version, dir, version},   // none is
		{dir, other, other},       // none is beside acpctl
	} {
		t.Setenv("PATH", c.path)
		if got, err := findDaemonProgram(filepath.Join(c.own, "acpctl")); err != nil || got != filepath.Join(c.want, "acpd") {
			t.Errorf("acpctl in %s with PATH=%s: %s, %v", c.own, c.path, got, err)
		}
	}
}

// A tilde that the shell has left is the home directory: of --home and of ACP_HOME.
func TestServiceHomeWithATilde(t *testing.T) {
	f, user := newServiceDaemon(t, "")
	t.Setenv("ACP_HOME", "~/.acp-x")
	for _, args := range [][]string{{"--home=~/.acp-x", "service", "install"}, {"service", "install"}} {
		var out strings.Builder
		code := f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: &out, Err: &out}, args...)
		text, err := os.ReadFile(filepath.Join(user, ".config/systemd/user", findHomeUnit(user+"/.acp-x")))
		if want := "/acpd --home " + user + "/.acp-x\n"; code != 0 || err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%q: exit code %d, %v, want %q in:\n%s\n%s", args, code, err, want, text, &out)
		}
	}
}

func TestServiceUsage(t *testing.T) {
	f, _ := newServiceDaemon(t, "")
	for args, want := range map[string]string{
		"install --system":       "the flag --system was removed\nType: sudo systemctl enable --now acpd",
		"status --instance desk": "the flag --instance was removed\nType: acpctl service install --home",
		"install --name Desk!":   "--name: name",
		"install --name=":        "--name: empty",
		"status --name x":        "--name",
		"logs -n -1":             "--lines",
		"logs --json":            "--json: the log",
		"":                       "name a verb",
	} {
		if got := f.Run(append([]string{"service"}, strings.Fields(args)...)...); got.Code != frame.ExitUsage || !strings.Contains(got.Out+got.Err, want) {
			t.Errorf("service %s: %+v", args, got)
		}
	}
}
