package doctor

import (
	"strings"
	"testing"
)

// A program that is newer than those that were tested is fine, and is named as such.
func TestAProgramNewerThanTested(t *testing.T) {
	f := findCode(program("codex-cli 999.0.0", setUp, "program.ok").find(t), "program.ok")
	if !strings.HasPrefix(f.What, "Codex 999.0.0 is connected by ") || !strings.Contains(f.What, "; this version is newer than tested (0.") {
		t.Errorf("%+v", f)
	}
}
