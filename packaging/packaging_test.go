package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxExposure is what systemd-analyze security may say of a unit of the machine.
const maxExposure = 2.0

// stated is what a drop-in says of its exposure.
var stated = regexp.MustCompile(`(?m)^# systemd-analyze security says ([0-9.]+) with it`)

// needSystemdAnalyze skips the test where there is none, but not in continuous integration.
func needSystemdAnalyze(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// systemd itself finds nothing wrong with a unit of the packages.
func TestVerify(t *testing.T) {
	needSystemdAnalyze(t)
	dir := t.TempDir()
	for name, flag := range map[string]string{"system/acpd.service": "--system", "system/acpd@.service": "--system", "user/acpd@.service": "--user"} {
		unit := filepath.Join(dir, strings.Replace(filepath.Base(name), "@", "@desk", 1))
		text := strings.ReplaceAll(string(ReadFile("systemd/"+name)), "/usr/bin/acpd", "/bin/sh") // a program that is there
		if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("systemd-analyze", flag, "verify", "--man=no", "--recursive-errors=no", unit)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// measureExposure returns what systemd-analyze security says of a unit with drop-ins.
func measureExposure(t *testing.T, unit string, content []byte, dropIns ...string) float64 {
	t.Helper()
	needSystemdAnalyze(t)
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
