package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestVersionsAscend: dpkg puts what is made between two releases between them, in its order.
func TestVersionsAscend(t *testing.T) {
	first := time.Date(2026, 11, 26, 15, 12, 0, 0, time.UTC)
	ascending := []string{
		nameVersion("0.1.0", "ffffffffff", first, true, false),
		nameVersion("0.1.0", "ffffffffff", first, false, false),
		nameVersion("0.1.0", "ffffffffff", first, true, true),
		nameVersion("0.1.0", "0000000000", first.Add(time.Second), false, false),
		nameVersion("0.1.1", "0000000000", first.Add(time.Hour), true, false),
	}
	if ascending[0] != "0.1.0" || ascending[1] != "0.1.0+20261126151200.fffffff" {
		t.Errorf("versions %q", ascending)
	}
	for i, v := range ascending {
		if !versionForm.MatchString(v) {
			t.Errorf("%q is no version", v)
		}
		if i == 0 {
			continue
		}
		if err := exec.Command("dpkg", "--compare-versions", ascending[i-1], "lt", v).Run(); err != nil {
			t.Errorf("%s is not less than %s: %v", ascending[i-1], v, err)
		}
	}
}

// TestReadRelease: without git it takes SOURCE_DATE_EPOCH, and nothing else.
func TestReadRelease(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", dir)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if _, err := readRelease(dir, "0.1.0", ""); err == nil || !strings.Contains(err.Error(), "set SOURCE_DATE_EPOCH") {
		t.Errorf("without a time: %v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1795705920")
	r, err := readRelease(dir, "0.1.0", "")
	if err != nil || r.version != "0.1.0+20261126151200" || r.commit != "" || r.time.Unix() != 1795705920 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"0.1.0-1", "v0.1.0", "0.1 0", ""} {
		if r, err := readRelease(dir, bad, bad); err == nil {
			t.Errorf("version %q is taken, as %q", bad, r.version)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := readRelease(dir, "0.1.0", ""); err == nil {
		t.Error("a time that is none is taken")
	}
}

// TestEarlierRelease: a new release takes the place of an earlier one, and of nothing else.
func TestEarlierRelease(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	if err := removeEarlierRelease(out); err != nil {
		t.Errorf("where nothing is: %v", err)
	}
	release := func(name string) {
		t.Helper()
		made := t.TempDir()
		if err := writeFile(made, name, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := writeChecksums(made); err != nil {
			t.Fatal(err)
		}
		if err := removeEarlierRelease(out); err != nil {
			t.Fatal(err)
		}
		if err := moveFiles(made, out); err != nil {
			t.Fatal(err)
		}
	}
	release("old")
	release("new")
	if files, err := filepath.Glob(out + "/*"); err != nil || len(files) != 2 {
		t.Errorf("%q, %v", files, err)
	}
	if err := os.WriteFile(filepath.Join(out, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeEarlierRelease(out); err == nil || !strings.Contains(err.Error(), "mine") {
		t.Errorf("beside a file of somebody: %v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "mine")); err != nil {
		t.Error(err)
	}
	outside := filepath.Join(filepath.Dir(out), "outside")
	for path, text := range map[string]string{outside: "", filepath.Join(out, checksums): "00  ../outside\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeEarlierRelease(out); err == nil {
		t.Error("a file outside of the folder is taken for one of the release")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// TestPages: what a man page says is what the verb says, whatever is in it.
func TestPages(t *testing.T) {
	r := &release{version: "0.1.0", time: time.Unix(1795705920, 0).UTC()}
	verb := &cobra.Command{
		Use: "odd PEER", Short: `A "verb" with \ and -- and 'quotes'`, Run: func(*cobra.Command, []string) {},
		Long:    ".ends with a request\n'and another\n\n  kept   as it\n  stands\n\nlast",
		Example: "  acpctl odd 'a' --b ^ ~ `c`",
	}
	verb.Flags().StringP("file", "f", "-", "read `FILE`\n.and more")
	(&cobra.Command{Use: "acpctl"}).AddCommand(verb)
	page := filepath.Join(t.TempDir(), "acpctl-odd.1")
	if err := os.WriteFile(page, r.renderVerbPage(verb), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", page).CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("mandoc: %v\n%s", err, said)
	}
	printed, err := exec.Command("mandoc", "-T", "ascii", page).Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`.\x08`).ReplaceAllString(string(printed), "") // no bold
	for _, want := range []string{
		`acpctl-odd - A "verb" with \ and -- and 'quotes'`, "acpctl odd PEER", ".ends with a request 'and another\n", "  kept   as it\n", "  stands\n",
		"acpctl odd 'a' --b ^ ~ `c`\n", "-f, --file FILE\n", "read FILE .and more", "acpctl(1), acpd(8)",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
}

// TestFormula: there is a formula only if somebody has said where the archives are, and it names no other place.
func TestFormula(t *testing.T) {
	r, platforms := &release{source: "../..", version: "0.1.0"}, []platform{}
	out := t.TempDir()
	for _, os := range []string{"linux", "darwin"} {
		for _, arch := range []string{"amd64", "arm64"} {
			p := platform{os, arch}
			platforms = append(platforms, p)
			if err := writeFile(out, r.name(p, ".tar.gz"), []byte(p.String())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writeFormula(r, out, "", platforms); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "acpd.rb")); !os.IsNotExist(err) {
		t.Errorf("without a place there is a formula: %v", err)
	}
	if err := writeFormula(r, out, "https://files.example.org/0.1.0/", platforms); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "acpd.rb"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`https?://[^"]+`).FindAllString(string(text), -1)
	for _, url := range named {
		if !strings.HasPrefix(url+"/", "https://files.example.org/0.1.0/") {
			t.Errorf("it names %s", url)
		}
	}
	if len(named) != 5 {
		t.Errorf("it names %q", named)
	}
}
