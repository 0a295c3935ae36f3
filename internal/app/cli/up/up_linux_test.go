package up

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
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
		return newRoot(f)
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
	writeScript(t, filepath.Join(d.user, "acpd"), "exit 3") // what it says cannot be written where the disk is full
	wantAll(t, d.RunInteractive("n\n", "up"), "acpctl up: acpd has ended (exit status 3), and has not said why: acpctl doctor says more\n")
	if entries, _ := os.ReadDir(filepath.Join(d.user, ".config")); len(entries) > 0 {
		t.Errorf("files: %v", entries)
	}
}

// A service that ends as soon as it is started is not waited for, and it is said how its log is shown.
func TestUpWithAServiceThatEnds(t *testing.T) {
	d, calls := newServiceMachine(t, `LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nUnitFileState=enabled\nMainPID=0\nExecMainExitTimestamp=now\nExecMainCode=1\nExecMainStatus=2\n`)
	socket := filepath.Join(d.Home, client.SocketName)
	if err := os.Rename(socket+".off", socket+".never"); err != nil {
		t.Fatal(err)
	}
	got := d.RunInteractive("", "up")
	if did := readText(t, calls); got.Code != frame.ExitLocal || did != "start\n" {
		t.Errorf("%q: %+v", did, got)
	}
	wantAll(t, got, "acpctl up: the service acpd-", ".service has ended (exit code 2, now): acpctl --home "+d.Home+" service logs shows its log\n")
}

// An Enter from before the question for the other machine's line makes none. A line that is being pasted then is taken.
func TestUpTakesNoEnterFromBefore(t *testing.T) {
	line := deskLine.String()
	for ahead, then := range map[string]string{"\n\n": line + "\n", "\n" + line[:40]: line[40:] + "\n", "\n" + line + "\n": ""} {
		d := newUpDaemon(t)
		d.setOpen(client.OpenInvitation{ID: "1"})
		d.handle(client.MethodInvite, func(*jsonrpc.Request) (any, error) {
			d.did = append(d.did, "invite")
			return &client.Invitation{URI: "acp://first", ID: "1", Expires: time.Now().Add(time.Hour)}, nil
		})
		master, slave, err := live.OpenTerminal(50, 300)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := master.WriteString(ahead); err != nil {
			t.Fatal(err)
		}
		s := &upTerminal{t: t, code: make(chan int, 1)}
		go func() {
			s.code <- d.RunWithoutHome(t.Context(), ui.Terminal{In: slave, Out: &s.shown, Err: &s.shown, InTTY: true, ErrTTY: true}, "--home", d.Home, "up")
		}()
		for _, step := range [][2]string{{"press Enter to make one: ", then}, {"Trust it? Type yes or no: ", "y\n"}} {
			if step[1] == "" {
				continue
			}
			await.Until(t, "up shows "+step[0], func() bool { return strings.Contains(s.shown.String(), step[0]) })
			if _, err := master.WriteString(step[1]); err != nil {
				t.Fatal(err)
			}
		}
		code := await.Receive(t, "exit code", s.code)
		if did := d.takeDone(); code != 0 || did != "join de5c" {
			t.Errorf("%q: exit code %d, %q:\n%s", ahead, code, did, s.shown.String())
		}
		master.Close()
		slave.Close()
	}
}
