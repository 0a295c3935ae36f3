//go:build agents

// Package agents tests acpd with the agent programs that people use: Claude Code, Codex and
// OpenCode, in the versions that install.sh pins or in the newest ones (newest.sh), with a model that
// does what the test says.
//
// The tests need Linux, the programs (make agents installs them), and either root or a system
// that lets users make namespaces. The test binary runs itself again in namespaces of its own,
// for processes, mounts and the network, in which there is loopback and nothing else. The
// programs get an empty environment, a fresh home and a key that is none: nothing of the
// caller's reaches them, and nothing that they do reaches beyond.
package agents

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/live"
)

// installed is an environment variable: the folder into which install.sh has put the programs.
const installed = "ACPD_AGENTS"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childMode {
		os.Exit(runChild(os.Args[2]))
	}
	flag.Parse()
	if err := findPrograms(); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
	os.Exit(live.RunInNamespaces(syscall.CLONE_NEWNET, true, func() int {
		if err := startLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "agents:", err)
			return 1
		}
		return m.Run()
	}))
}

// programs are the paths of the agent programs, by name.
var programs = map[string]string{"claude": "", "codex": "", "opencode": ""}

func findPrograms() error {
	dir := os.Getenv(installed)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(cache, "acpd-agents")
	}
	for name := range programs {
		path := filepath.Join(dir, name, "node_modules", ".bin", name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is missing: run make agents, which installs it: %w", name, err)
		}
		programs[name] = path
	}
	if _, err := exec.LookPath("rg"); err != nil {
		return fmt.Errorf("rg is missing, without which OpenCode looks for no files: install ripgrep: %w", err)
	}
	return nil
}

// findVersion returns the version of an agent program, as its package says.
func findVersion(t *testing.T, program string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(programs[program])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "..", "package.json"))
	var about struct {
		Version string `json:"version"`
	}
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if err != nil || about.Version == "" {
		t.Fatalf("the package of %s has no version: %v", program, err)
	}
	return about.Version
}

// startLoopback makes 127.0.0.1 usable in this network.
func startLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	return nil
}
