//go:build faults

// Package faults breaks what real daemons stand on, one kind of fault a file, and
// looks each time whether what they promise holds: see check. It needs Linux and
// root: this test binary runs itself again in namespaces of its own, for processes and
// mounts, and changes nothing outside.
package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

func TestMain(m *testing.M) {
	if os.Getenv(stepped) != "" {
		fmt.Fprintln(os.Stderr, "faults:", becomeStepped())
		os.Exit(1)
	}
	flag.Parse()
	live.Tags += ",faults"
	flag.Set("test.parallel", "8") // the tests wait more than they compute
	os.Exit(live.RunInNamespaces(0, false, m.Run))
}
