package run

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// leftOf returns the processes that have the mark in their environment.
func leftOf(t testing.TB, mark string) (left []string) {
	t.Helper()
	out, err := exec.Command("ps", "axeww").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, mark) {
			left = append(left, line)
		}
	}
	return left
}

// trySystem tries a system call that this system does not have.
func trySystem(what, _ string) error { return fmt.Errorf("what is %q?", what) }
