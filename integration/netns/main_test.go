//go:build netns

// Package netns tests acpd as it runs: real daemons, typed commands and a real
// avahi, on hosts that are network namespaces joined by bridges.
//
// The tests need Linux, iproute2, avahi-daemon, avahi-utils and dbus, and either
// root or a system that lets users make namespaces. The test binary runs itself
// again in namespaces of its own, for processes, mounts and the network: so it
// changes nothing outside, and whatever ends it ends everything that it started.
package netns

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// private is a file system that ends with the tests.
const private = "/run"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(live.Built) == "" { // it is set inside the namespaces
		code, err := enter()
		if err != nil {
			fmt.Fprintln(os.Stderr, "netns:", err)
		}
		os.Exit(code)
	}
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "netns:", err)
		os.Exit(1)
	}
	// The tests wait, they do not compute.
	flag.Set("test.parallel", "64")
	os.Exit(m.Run())
}

// enter builds the programs and runs this test binary again in new namespaces.
func enter() (code int, _ error) {
	for _, need := range [][2]string{
		{"ip", "iproute2"}, {"avahi-daemon", "avahi-daemon"}, {"avahi-browse", "avahi-utils"}, {"dbus-daemon", "dbus"}, {"unshare", "util-linux"},
	} {
		if _, err := exec.LookPath(need[0]); err != nil {
			return 1, fmt.Errorf("%s is missing: install the package %s", need[0], need[1])
		}
	}
	defer live.Remove()
	if _, err := live.Build(); err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	again := exec.Command(self, os.Args[1:]...)
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the child ends with the thread that started it
	err = again.Run()
	if failure := (*exec.ExitError)(nil); errors.As(err, &failure) {
		return 1, nil // it has said why
	}
	if err != nil {
		return 1, fmt.Errorf("make namespaces: %w: run this as root, or allow users to make namespaces", err)
	}
	return 0, nil
}

// furnish makes the namespaces fit to live in.
func furnish() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	for path, kind := range map[string]string{"/proc": "proc", private: "tmpfs"} {
		if err := syscall.Mount(kind, path, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	if err := os.Mkdir(avahiRun, 0o755); err != nil {
		return err
	}
	return os.Setenv("TMPDIR", private)
}
