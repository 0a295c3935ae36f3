package integration

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !live.IsRaceEnabled() {
		// Most tests wait for time to pass: more of them fit than there are processors.
		flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
	code := m.Run()
	live.RemovePrograms()
	os.Exit(code)
}
