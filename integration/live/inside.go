//go:build linux

package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// PrivateDir is a file system that ends with the tests which [RunInNamespaces] runs.
const PrivateDir = "/run"

// RunInNamespaces is for a TestMain: it builds the programs and runs this test binary again in
// new namespaces, for processes, for mounts and those that more names, and returns the
// code to exit with. There run is called. So the tests change nothing outside, and
// whatever ends them ends everything that they started. Who is not root gets a user
// namespace if users is set.
func RunInNamespaces(more uintptr, users bool, run func() int) (code int) {
	var err error
	if os.Getenv(Built) != "" { // it is set inside the namespaces
		if err = prepareNamespaces(); err == nil {
			return run()
		}
	} else if code, err = enterNamespaces(more, users); err == nil {
		return code
	}
	fmt.Fprintln(os.Stderr, "namespaces:", err)
	return 1
}

func enterNamespaces(more uintptr, users bool) (code int, _ error) {
	defer RemovePrograms()
	if _, err := Build(); err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	again := exec.Command(self, os.Args[1:]...)
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | more, Pdeathsig: syscall.SIGKILL}
	if users && os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the child ends with the thread that started it
	err = again.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return 1, nil // it has said why
	}
	if err != nil {
		return 1, fmt.Errorf("make namespaces: %w: run this as root, or where the tests can do without, allow users to make namespaces", err)
	}
	return 0, nil
}

// prepareNamespaces makes the namespaces fit to live in.
func prepareNamespaces() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	for path, kind := range map[string]string{"/proc": "proc", PrivateDir: "tmpfs"} {
		if err := syscall.Mount(kind, path, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	return os.Setenv("TMPDIR", PrivateDir)
}
