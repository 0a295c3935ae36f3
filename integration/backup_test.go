package integration

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/statedir"
)

// TestVersionsOfTheStateDirectory: acpctl, which reads no tables, knows the versions that acpd
// writes. Whoever adds a migration changes statedir.StateVersion.
func TestVersionsOfTheStateDirectory(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.MustOutput("wake", "allow", laptop.Name)
	await.Until(t, "the rules are on disk", func() bool {
		_, err := os.Stat(filepath.Join(desk.Home, statedir.RulesName))
		return err == nil
	})
	desk.StopDaemon()
	f, err := os.Open(filepath.Join(desk.Home, statedir.StateName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if version, err := statedir.ReadStateVersion(f); err != nil || version != statedir.StateVersion {
		t.Errorf("state.db has version %d, %v; statedir.StateVersion is %d", version, err, statedir.StateVersion)
	}
	for name, want := range map[string]int{
		statedir.TrustName: statedir.TrustVersion, statedir.TrustCopyName: statedir.TrustVersion,
		statedir.RulesName: statedir.RulesVersion, statedir.RulesCopyName: statedir.RulesVersion,
	} {
		if text := content(t, filepath.Join(desk.Home, name)); !strings.Contains("\n"+text, fmt.Sprintf("\nversion: %d\n", want)) {
			t.Errorf("%s has another version than %d:\n%s", name, want, text)
		}
	}
}

const messages = 10

// fillInbox gives desk an inbox of some megabytes, so that a backup takes time.
func fillInbox(t *testing.T, desk, laptop *machine) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, bytes.Repeat([]byte("x"), 700_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for range messages {
		if said := laptop.MustOutput("notify", "desk", "log", "@"+data); said != "held\n" {
			t.Fatalf("notify says %q", said)
		}
	}
}

// restoreElsewhere restores a backup into a new directory, starts a daemon there, and returns it.
func restoreElsewhere(t *testing.T, from *machine, file string) *live.Machine {
	t.Helper()
	m := live.NewMachine(t, from.Name)
	m.RunAcpctl(0, "restore", file)
	m.StartDaemon()
	return m
}

// startBackupIntoPipe starts a backup whose output is a pipe, and returns the end of it that is read.
func startBackupIntoPipe(t *testing.T, m *machine) (*live.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	defer w.Close()
	p := m.PrepareProcess(live.ProgramPath(t, "acpctl"), "--home", m.Home, "backup", "-")
	p.Cmd.Stdout = w
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p, r
}

// TestBackupSurvivesKills: whatever is killed while a backup is made, its file is whole or not there,
// nothing stays on the disk, and the next backup works.
func TestBackupSurvivesKills(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	fillInbox(t, desk, laptop)
	copied := filepath.Join(desk.Home, statedir.CopyName)
	isThere := func(path string) bool { _, err := os.Lstat(path); return err == nil }

	// acpctl, which waits for the reader of its output.
	stalled, reader := startBackupIntoPipe(t, desk)
	first := make([]byte, 512)
	if _, err := io.ReadFull(reader, first); err != nil || !bytes.HasPrefix(first, []byte("manifest.json")) || !isThere(copied) {
		t.Fatalf("the backup begins with %.20q, %v", first, err)
	}
	desk.RunAcpctl(1, "backup", filepath.Join(t.TempDir(), "second.tar"))
	stalled.Cmd.Process.Kill()
	stalled.AwaitEnd()
	await.Until(t, "the copy goes with acpctl", func() bool { return !isThere(copied) })

	// acpctl, while it writes the file.
	file := filepath.Join(t.TempDir(), "desk.tar")
	killed := desk.StartAcpctl("backup", file)
	await.Until(t, "the file is begun", func() bool { return isThere(file+".part") || !killed.IsRunning() })
	killed.Cmd.Process.Kill()
	killed.AwaitEnd()
	if isThere(file) {
		restoreElsewhere(t, desk, file).StopDaemon()
	}
	await.Until(t, "the copy goes with acpctl again", func() bool { return !isThere(copied) })
	desk.RunAcpctl(0, "backup", file, "--force")
	if isThere(file + ".part") {
		t.Error("the file of the killed backup stays")
	}

	// The daemon, when it has made the copy.
	stalled, reader = startBackupIntoPipe(t, desk)
	if _, err := io.ReadFull(reader, first); err != nil {
		t.Fatal(err)
	}
	desk.KillDaemon()
	rest, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	stalled.AwaitExit(0)
	out := filepath.Join(t.TempDir(), "out.tar")
	if err := os.WriteFile(out, slices.Concat(first, rest), 0o600); err != nil {
		t.Fatal(err)
	}
	restored := restoreElsewhere(t, desk, out)
	held := 0
	for more := -1; more != 0; held += more { // a page at a time
		more = strings.Count(restored.MustOutput("inbox"), "\tlaptop\t")
		restored.MustOutput("inbox", "--ack", "99")
	}
	if held != messages {
		t.Errorf("%d messages are restored, of %d", held, messages)
	}
	restored.StopDaemon() // it has the port of the backup
	desk.StartDaemon()
	if isThere(copied) {
		t.Error("the copy outlives the next start")
	}
}

// TestRestoreSurvivesAKill: one that is killed before it was whole changes nothing.
func TestRestoreSurvivesAKill(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	fillInbox(t, desk, laptop)
	file := filepath.Join(t.TempDir(), "desk.tar")
	desk.MustOutput("backup", file)
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	other := live.NewMachine(t, "other")
	half := other.PrepareProcess(live.ProgramPath(t, "acpctl"), "--home", other.Home, "restore", "-")
	half.Cmd.Stdin = r
	err = half.Start()
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(archive[:len(archive)/2]); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "half of it is written", func() bool {
		info, err := os.Stat(filepath.Join(other.Home, statedir.StagingName, statedir.StateName))
		return err == nil && info.Size() > 1<<20
	})
	half.Cmd.Process.Kill()
	half.AwaitEnd()
	other.StartDaemon()
	if other.ID == desk.ID || len(other.ListPeers()) > 0 {
		t.Error("half a backup is restored")
	}
	if left, _ := filepath.Glob(filepath.Join(other.Home, "restore*")); left != nil {
		t.Errorf("a daemon starts, and %v stays", left)
	}
}
