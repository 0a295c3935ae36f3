package integration

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// For a system on which they do not run, the build of each program says that, in one sentence, and
// nothing else.
func TestUnsupportedSystems(t *testing.T) {
	programs := []string{"acpd", "acpctl"}
	for _, system := range []string{"windows", "freebsd"} {
		t.Run(system, func(t *testing.T) {
			var together []string
			for _, program := range programs {
				sentence := fmt.Sprintf("pattern %s runs on Linux and macOS, not on this system: no matching files found", program)
				if said := buildFor(t, system, program); len(said) != 1 || said[0] != sentence {
					t.Errorf("the build of %s says %q", program, said)
				}
				together = append(together, sentence)
			}
			if said := buildFor(t, system, programs...); !slices.Equal(said, together) {
				t.Errorf("the build says %q", said)
			}
		})
	}
}

// position is where in a file the go command has found what it prints.
var position = regexp.MustCompile(`^\S+\.go:\d+:\d+: `)

// buildFor builds programs for a system, which must fail, and returns the lines that it prints,
// without positions.
func buildFor(t *testing.T, system string, programs ...string) (said []string) {
	t.Helper()
	args := []string{"build", "-o", t.TempDir()}
	for _, program := range programs {
		args = append(args, module+"cmd/"+program)
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err == nil {
		t.Fatalf("%s can be built for %s", programs, system)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "go: downloading ") { // a module that only that system needs
			said = append(said, position.ReplaceAllString(strings.TrimSuffix(line, "\n"), ""))
		}
	}
	return said
}
