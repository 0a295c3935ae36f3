//go:build packages

// Package packages tests what make dist makes as its users get it: the packages in a clean
// Debian root, the script that installs, the image's root directory, the archive, and that all of
// it is the same if it is made twice.
//
// The tests need Linux, root, git, iproute2, rpm, lintian, mandoc, util-linux, curl and a static busybox, and in
// ACPD_DEBIAN a root that debian.sh has made. They run in namespaces of their own. No systemd
// runs there: the tests start daemons by what the unit says, and a stand-in for systemctl
// notes what the package's scripts ask of it, and ends daemons.
package packages

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

func TestMain(m *testing.M) {
	flag.Parse()
	for _, need := range [][2]string{
		{"git", "git"}, {"ip", "iproute2"}, {"dpkg-deb", "dpkg"}, {"lintian", "lintian"}, {"rpm", "rpm"}, {"mandoc", "mandoc"}, {"setpriv", "util-linux"},
		{"busybox", "busybox-static"}, {"curl", "curl"},
	} {
		if _, err := exec.LookPath(need[0]); err != nil {
			fmt.Fprintf(os.Stderr, "packages: %s is missing: install the package %s\n", need[0], need[1])
			os.Exit(1)
		}
	}
	if _, err := os.Stat(os.Getenv("ACPD_DEBIAN")); err != nil || os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "packages: a root of Debian is missing, or the right to use it: run make packages as root")
		os.Exit(1)
	}
	os.Exit(live.RunInNamespaces(syscall.CLONE_NEWNET|syscall.CLONE_NEWUTS, false, func() int {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "packages: ip link set lo up: %v: %s\n", err, out)
			return 1
		}
		return m.Run()
	}))
}

// here is the platform of the tests, the only one for which they make a release.
const here = runtime.GOOS + "/" + runtime.GOARCH
