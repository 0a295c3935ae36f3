package service

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ListInstalled reads back which program Install has written into each file.
func TestListInstalled(t *testing.T) {
	h := newFakeHost(t)
	dir := filepath.Join(h.UserHome, "Library/LaunchAgents")
	var want []Installed
	for program, home := range map[string]string{"/usr/bin/acpd": "", "/opt/a & b/acpd": "/b", "/opt/100% $HOME/acpd": "/c", "/opt/it's/<x>;/acpd": "/d"} {
		s := Service{Program: program, Home: home}
		for path, text := range map[string]string{systemd{h.Host}.unitPath(s): renderUnit(s), launchd{h.Host}.plistPath(s): launchd{h.Host}.renderPlist(s)} {
			if _, err := h.writeFile(path, text); err != nil {
				t.Fatal(err)
			}
			want = append(want, Installed{path, program})
		}
	}
	for name, text := range map[string]string{"dev.acpd.acpd.foreign.plist": "<plist/>", "dev.acpd.acpd.damaged.plist": "<!-- " + marker + " -->", "other.plist": "<!-- " + marker + " --><key>ProgramArguments</key><array><string>/x</string>"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	order := func(a, b Installed) int { return strings.Compare(a.File, b.File) }
	got := h.ListInstalled()
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
