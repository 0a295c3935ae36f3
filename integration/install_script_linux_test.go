package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

const releases = "https://releases.example"

// runInstallScript runs the script that installs a release, into prefix. In tools are programs that it finds,
// besides those of the machine that it needs for anything else than a download. The script has to fail, and what it says is returned.
func runInstallScript(t *testing.T, prefix string, tools map[string]string) string {
	t.Helper()
	text, err := os.ReadFile("../packaging/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := live.MakeTempDir(t)
	sum := strings.Repeat("0", 64) + "  acpd_0.0.2_linux_amd64.tar.gz"
	script := filepath.Join(dir, "install.sh")
	for _, tool := range []string{"sed", "sort", "tail", "mkdir", "mktemp", "sleep", "rm", "ln"} {
		if path, err := exec.LookPath(tool); err != nil {
			t.Fatal(err)
		} else if tools[tool] == "" {
			tools[tool] = `exec '` + path + `' "$@"`
		}
	}
	tools["uname"] = `[ "$1" = -s ] && echo Linux || echo x86_64`
	for name, program := range tools {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(script, []byte(strings.NewReplacer("@VERSION@", "0.0.2", "@SUMS@", sum).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", script)
	cmd.Env = []string{"PATH=" + dir, "PREFIX=" + prefix, "ACPD_BASE_URL=" + releases}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("it does not fail: %s", out)
	}
	if left, _ := filepath.Glob(prefix + "/bin/.acpd*"); len(left) > 0 {
		t.Errorf("left behind is %q", left)
	}
	return string(out)
}

// TestInstallScriptGivesUp: a server that sends nothing, or almost nothing, does not hold the script for ever.
func TestInstallScriptGivesUp(t *testing.T) {
	for tool, want := range map[string]string{
		"curl": " --connect-timeout 20 --speed-limit 1000 --speed-time 60 ",
		"wget": " --timeout=60 --tries=2 ",
	} {
		said := runInstallScript(t, live.MakeTempDir(t), map[string]string{tool: `[ "$*" = --version ] || { echo "asked $*" >&2; exit 1; }`})
		if !strings.Contains(said, want) || !strings.Contains(said, "cannot download "+releases+"/acpd_0.0.2_linux_amd64.tar.gz") {
			t.Errorf("%s: it says %q", tool, said)
		}
	}
}

// TestInstallScriptNamesAFullDisk: where the disk is full, the script says so, and not that the program there is odd.
func TestInstallScriptNamesAFullDisk(t *testing.T) {
	prefix := live.MakeTempDir(t)
	if err := os.Mkdir(prefix+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prefix+"/bin/acpd", []byte("#!/bin/sh\necho 'acpd 0.0.1 (commit 0123456, protocol 1)'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	full := `new=$(PATH=/usr/bin:/bin mktemp "$@") && ln -s /dev/full "$new/version" && echo "$new"`
	said := runInstallScript(t, prefix, map[string]string{"mktemp": full, "curl": "exit 1"})
	if want := "install.sh: the disk of " + prefix + "/bin is full: make room there, or set PREFIX to a folder on another disk\n"; said != want {
		t.Errorf("it says %q, want %q", said, want)
	}
}
