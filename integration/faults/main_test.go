//go:build faults

// Package faults breaks what real daemons stand on, one kind of fault a file, and
// looks each time whether what they promise holds: see check. It needs Linux and
// root: this test binary runs itself again in namespaces of its own, for processes and
// mounts, and changes nothing outside.
package faults

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
			fmt.Fprintln(os.Stderr, "faults:", err)
		}
		os.Exit(code)
	}
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enter builds the programs and runs this test binary again in new namespaces.
func enter() (code int, _ error) {
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
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the child ends with the thread that started it
	err = again.Run()
	if failure := (*exec.ExitError)(nil); errors.As(err, &failure) {
		return 1, nil // it has said why
	}
	if err != nil {
		return 1, fmt.Errorf("make namespaces: %w: run this as root", err)
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
	return os.Setenv("TMPDIR", private)
}
