package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Built is an environment variable: the directory of acpd and acpctl. Build sets it,
// so that processes which this one starts do not build them again.
const Built = "ACPD_BUILT"

// Module is the path of acpd's module.
var Module = strings.TrimSuffix(reflect.TypeFor[Process]().PkgPath(), "/integration/live")

// Tags are the build tags of acpd and acpctl: those of the Makefile, to which a package of tests
// may add its own before anything is built.
var Tags = "nethttpomithttp2"

// Dir is the folder in which acpd and acpctl are built, for tests of another module; "": where the tests run.
var Dir string

// raced are the flags of programs that the race detector watches: those of make race.
var raced = []string{"-race", "-pgo=off", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc/...=-race=false"}

// Build builds acpd and acpctl, once, and returns their directory, which any user may
// read; see RemovePrograms. Where the race detector watches the tests it watches them too: then they
// are compiled as the tests are, and share with them what is compiled.
var Build = sync.OnceValues(func() (dir string, _ error) {
	if dir = os.Getenv(Built); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "acpd-built")
	if err != nil {
		return "", err
	}
	os.Setenv(Built, dir)
	how, cgo := []string{"-trimpath"}, "CGO_ENABLED=0"
	if IsRaceEnabled() {
		how, cgo = raced, "CGO_ENABLED=1"
	}
	args := append([]string{"build"}, how...)
	args = append(args, "-tags", Tags, "-o", dir+"/", Module+"/cmd/acpd", Module+"/cmd/acpctl")
	cmd := exec.Command("go", args...)
	cmd.Dir = Dir
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build acpd and acpctl: %w\n%s", err, out)
	}
	return dir, os.Chmod(dir, 0o755)
})

// IsRaceEnabled tells whether the race detector watches this process.
func IsRaceEnabled() bool {
	this, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(this.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// RemovePrograms removes what Build has built. Who set Built for this process removes it itself.
func RemovePrograms() { os.RemoveAll(os.Getenv(Built)) }

// ProgramPath is the path of acpd or acpctl.
func ProgramPath(t *testing.T, name string) string {
	t.Helper()
	dir, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// NewEnviron is the environment of a process: the programs come first in PATH, and
// nothing of the caller's own daemon is in it.
func NewEnviron(t *testing.T, home string, more ...string) []string {
	t.Helper()
	path := filepath.Dir(ProgramPath(t, "acpd")) + ":" + os.Getenv("PATH")
	return append([]string{"PATH=" + path, "HOME=" + home, "GORACE=atexit_sleep_ms=0"}, more...)
}
