package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
)

// newServiceMachine returns a daemon that answers only after systemctl has started it, and the calls of systemctl and
// loginctl as a file.
func newServiceMachine(t *testing.T, state string) (d *upDaemon, calls string) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	d = newUpDaemon(t)
	d.FakeDaemon.SetTree(func(f *frame.Frame) *cobra.Command {
		f.MachineRoot = root
		return NewRootCmd(f, "")
	})
	socket := filepath.Join(d.Home, client.SocketName)
	if err := os.Rename(socket, socket+".off"); err != nil {
		t.Fatal(err)
	}
	calls = filepath.Join(root, "calls")
	writeScript(t, filepath.Join(d.user, "systemctl"), `case "$*" in *Version*) ;; *show*) printf '`+state+`' ;; *) echo "$2" >>'`+calls+`' ;; esac
case "$2" in start|restart) [ ! -S '`+socket+`.off' ] || /bin/mv '`+socket+`.off' '`+socket+`' ;; esac`)
	writeScript(t, filepath.Join(d.user, "loginctl"), `case "$1" in show-user) echo no ;; *) echo "$1" >>'`+calls+`' ;; esac`)
	writeScript(t, filepath.Join(d.user, "acpd"), "echo it is started without a manager >&2; exit 1")
	d.setState([]client.Peer{desk})
	return d, calls
}

// Where systemd runs, acpd is made a service if the person wants that, and lingers if they want that too; a service
// that is there is started as it is, and one that runs is left alone.
func TestUpWithSystemd(t *testing.T) {
	const none = `LoadState=not-found\n`
	for _, c := range []struct{ state, typed, flags, calls string }{
		{none, "y\ny\n", "", "daemon-reload enable restart enable-linger"},
		{none, "\ny\nn\n", "--name desk", "daemon-reload enable restart"},
		{none, "", "--yes", "daemon-reload enable restart enable-linger"},
		{`LoadState=loaded\nActiveState=inactive\nUnitFileState=enabled\n`, "", "", "start"},
		{`LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n`, "y\nn\n", "", "daemon-reload enable restart"},
	} {
		d, calls := newServiceMachine(t, c.state)
		for range 2 { // the second one finds it there
			got := d.RunInteractive(c.typed, append([]string{"up"}, strings.Fields(c.flags)...)...)
			if did := strings.Join(strings.Fields(readText(t, calls)), " "); got.Code != 0 || did != c.calls {
				t.Errorf("%+v: %q: %+v", c, did, got)
			}
			wantAll(t, got, "acpd runs, and this machine is laptop")
		}
	}
}

// Whoever wants no service gets acpd without one, and hears how it ended if it does not start.
func TestUpWithoutAService(t *testing.T) {
	d, calls := newServiceMachine(t, `LoadState=not-found\n`)
	for _, typed := range []string{"n\n", ""} {
		got := d.RunInteractive(typed, "up")
		if did := readText(t, calls); got.Code != frame.ExitLocal || did != "" {
			t.Errorf("%q: %q: %+v", typed, did, got)
		}
		wantAll(t, got, "acpd has ended: it is started without a manager")
	}
	if entries, _ := os.ReadDir(filepath.Join(d.user, ".config")); len(entries) > 0 {
		t.Errorf("files: %v", entries)
	}
}
