package operate

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// newOwner returns a daemon that answers doctor, and whose command lines have the verbs of this
// package.
func newOwner(t *testing.T) *clitest.FakeDaemon {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("PATH", user)
	t.Setenv("OACP_HOME", user)
	d := clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		root := &cobra.Command{Use: "acpctl"}
		f.SetUpRoot(root, NewCmds(f, "1.0.0")...)
		return root
	})
	if err := os.Chmod(d.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	d.SetAnswer(client.MethodStatus, &client.Status{Whoami: client.Whoami{ID: clitest.MyID, Name: "desk", Version: "1.0.0", Listen: []string{"127.0.0.1:7117"}}})
	d.SetAnswer(client.MethodPeers, &client.Peers{})
	d.SetHTTPAnswers(map[string]string{"GET unsent": "[]"})
	return d
}

// TestDoctorOfAPeerNeedsADaemon: without one, and for a stranger, it is an error with its code.
func TestDoctorOfAPeerNeedsADaemon(t *testing.T) {
	d := newOwner(t)
	d.SetAnswer(client.MethodProbe, kinds.Errorf(kinds.UnknownPeer, "probe: no peer %q", "x"))
	if got := d.Run("doctor", "nobody"); got.Code != 5 {
		t.Errorf("a stranger: %+v", got)
	}
	d.RemoveSocket(client.SocketName)
	if got := d.Run("doctor", "laptop"); got.Code != 1 || !strings.Contains(got.Err, "no daemon answers") {
		t.Errorf("no daemon: %+v", got)
	}
}

// TestDoctorOnAFullDisk: a report that cannot be written is no success.
func TestDoctorOnAFullDisk(t *testing.T) { newOwner(t).WantDiskFull("", "doctor") }

// TestDoctorFlags: flags that contradict each other are usage errors.
func TestDoctorFlags(t *testing.T) {
	d := newOwner(t)
	for _, args := range [][]string{
		{"laptop", "--fix"}, {"laptop", "--bundle", "x"}, {"--fix", "--bundle", "x"}, {"laptop", "desk"},
	} {
		if got := d.Run(append([]string{"doctor"}, args...)...); got.Code != frame.ExitUsage {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// clockTime matches a time of the clock, which goes on between two runs.
var clockTime = regexp.MustCompile(`\d\d:\d\d:\d\dZ`)

// What is fine is counted, not shown, unless -v asks for it; what has a remedy is always shown.
func TestDoctorShowsWhatIsNotFine(t *testing.T) {
	d := newOwner(t)
	few, all, json := d.Run("doctor"), d.Run("doctor", "-v"), d.Run("doctor", "--json")
	if strings.Contains(few.Out, "[+]") || strings.Contains(few.Out, "[-]") || !strings.Contains(few.Out, " findings are fine (-v shows them)\n") {
		t.Errorf("%+v", few)
	}
	if n := strings.Count(json.Out, "\n"); strings.Count(all.Out, "\n[")+1 != n || !strings.HasPrefix(all.Out, "[+] ") {
		t.Errorf("%d findings, of which -v shows\n%s", n, all.Out)
	}
	few.Out = clockTime.ReplaceAllString(few.Out, "")
	for line := range strings.Lines(clockTime.ReplaceAllString(json.Out, "")) {
		_, what, _ := strings.Cut(line, `"what":"`)
		what, _, _ = strings.Cut(what, `"`)
		if needsWork := !strings.Contains(line, `"remedy":""`); needsWork && !strings.Contains(few.Out, what) {
			t.Errorf("%s is not shown in\n%s", line, few.Out)
		}
	}
}
