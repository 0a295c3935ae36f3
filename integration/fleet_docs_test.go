package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheFleetOfReach types what docs/reach.md says of fleets, up to the call, and writes the configuration
// where that stands: each command succeeds.
func TestTheFleetOfReach(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ssh-keygen (Debian: openssh-client) is not installed: nothing is left out here")
		}
		t.Skip("ssh-keygen (Debian: openssh-client) is not installed")
	}
	_, section, _ := strings.Cut(readFile(t, "../docs/reach.md"), "\n## Fleets\n")
	section, _, _ = strings.Cut(section, "\n**Call it.**\n")
	build, dir := running(t, "build"), t.TempDir()
	// What a reader's shell finds is named by its path, and a passphrase is not asked for.
	own := strings.NewReplacer("~/.acp/", build.Home+"/", "acpctl", build.ProgramPath("acpctl")+" --home "+build.Home, "ssh-keygen -t", "ssh-keygen -N '' -t")
	var said string
	for _, block := range regexp.MustCompile("(?s)```(console|yaml)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		if block[1] == "yaml" {
			config := strings.Replace(block[2], "ssh-ed25519 AAAA…", strings.TrimSpace(readFile(t, filepath.Join(dir, "corp.pub"))), 1)
			if err := os.WriteFile(filepath.Join(build.Home, "config.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for line := range strings.Lines(block[2]) {
			_, command, ok := strings.Cut(strings.TrimSpace(line), "$ ")
			if !ok {
				t.Fatalf("a line without a prompt: %q", line)
			}
			said = build.StartProcess("bash", "-c", fmt.Sprintf("cd '%s' && %s", dir, own.Replace(command))).AwaitExit(0)
		}
	}
	if !strings.Contains(said, "build-7.corp") || strings.Contains(said, "problem") {
		t.Errorf("at the end of the setup: %q", said)
	}
}
