package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// maxExposure is what systemd-analyze security may say of a unit of the machine.
const maxExposure = 2.0

// stated is what a drop-in says of its exposure.
var stated = regexp.MustCompile(`(?m)^# systemd-analyze security says ([0-9.]+) with it`)

// measureExposure returns what systemd-analyze security says of a unit with drop-ins.
func measureExposure(t *testing.T, unit string, content []byte, dropIns ...string) float64 {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	root := t.TempDir()
	units := filepath.Join(root, "etc/systemd/system")
	write := func(path string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(units, unit), content)
	for _, name := range dropIns {
		write(filepath.Join(units, unit+".d", name), ReadFile("systemd/drop-ins/"+name))
	}
	for _, program := range []string{"usr/bin/acpd", "usr/bin/acpctl", "bin/kill"} {
		write(filepath.Join(root, program), []byte("#!/bin/sh\n"))
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--root="+root, "--no-pager", unit).CombinedOutput()
	found := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("%s: %v\n%s", unit, err, out)
	}
	level, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return level
}

// The units of the machine are as closed as they can be, and each drop-in says how closed they
// are with it.
func TestExposure(t *testing.T) {
	for _, unit := range []string{"acpd.service", "acpd@.service"} {
		if level := measureExposure(t, unit, ReadFile("systemd/system/"+unit)); level > maxExposure {
			t.Errorf("%s: %.1f, want at most %.1f", unit, level, maxExposure)
		}
	}
	for name, unit := range map[string][]byte{
		"oacp.conf":    ReadFile("systemd/system/acpd.service"),
		"harness.conf": []byte("[Service]\nUser=desk\nExecStart=/usr/bin/acpctl serve --profile claude\n"),
	} {
		says := stated.FindSubmatch(ReadFile("systemd/drop-ins/" + name))
		if says == nil {
			t.Errorf("%s does not say how exposed the unit is with it", name)
			continue
		}
		if level := strconv.FormatFloat(measureExposure(t, "a.service", unit, name), 'f', 1, 64); level != string(says[1]) {
			t.Errorf("%s: %s, and it says %s", name, level, says[1])
		}
	}
}
