//go:build netns

// Package netns tests acpd as it runs: real daemons, typed commands and a real
// avahi, on hosts that are network namespaces joined by bridges.
//
// The tests need Linux, iproute2, nftables, avahi-daemon, avahi-utils and dbus, and either
// root or a system that lets users make namespaces. The test binary runs itself
// again in namespaces of its own, for processes, mounts and the network: so it
// changes nothing outside, and whatever ends it ends everything that it started.
package netns

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

func TestMain(m *testing.M) {
	flag.Parse()
	for _, need := range [][2]string{
		{"ip", "iproute2"}, {"avahi-daemon", "avahi-daemon"}, {"avahi-browse", "avahi-utils"}, {"dbus-daemon", "dbus"}, {"unshare", "util-linux"},
		{"nft", "nftables"},
	} {
		if _, err := exec.LookPath(need[0]); err != nil {
			fmt.Fprintf(os.Stderr, "netns: %s is missing: install the package %s\n", need[0], need[1])
			os.Exit(1)
		}
	}
	if os.Getenv(natsServerPath) == "" { // it is set inside the namespaces
		dir, err := buildNATSServer()
		if err != nil {
			fmt.Fprintln(os.Stderr, "netns:", err)
			os.Exit(1)
		}
		code := runTests(m)
		os.RemoveAll(dir)
		os.Exit(code)
	}
	os.Exit(runTests(m))
}

// runTests runs the tests in namespaces and returns the code to exit with.
func runTests(m *testing.M) int {
	// The tests wait, they do not compute.
	flag.Set("test.parallel", "64")
	return live.RunInNamespaces(syscall.CLONE_NEWNET, true, func() int {
		if err := os.Mkdir(avahiRun, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, "netns:", err)
			return 1
		}
		return m.Run()
	})
}
