package commandenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Of a script that cannot be started, the system reports only that it is missing, or nothing of use.
func TestDescribeStartError(t *testing.T) {
	script := filepath.Join(t.TempDir(), "answer.sh")
	for text, want := range map[string]string{
		"#!/bin/sh\r\necho hi\r\n": script + ": its first line ends in CR",
		"#!/no/such/shell\n":       script + ": its first line names an interpreter that is not there: /no/such/shell: install it",
		"echo hi\n":                script + ": it is no program, and its first line is no #!/bin/sh",
	} {
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := DescribeStartError(script, exec.Command(script).Run()); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	missing := script + ".none"
	if got := DescribeStartError(missing, exec.Command(missing).Run()); !strings.Contains(got, "no such file") {
		t.Errorf("without a file: %s", got)
	}
}
