package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceName is what a file with a licence, or with a notice that a licence asks for, is called.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// collectLicences returns the licences of all that is linked into the programs, Go itself
// included: whoever passes on a program has to pass on these.
func collectLicences(r *release, b *build) (file, error) {
	linked := make(map[library]bool)
	for _, info := range b.modules {
		for _, l := range listLibraries(info) {
			linked[l] = true
		}
	}
	all := slices.Collect(func(yield func(library) bool) {
		for l := range linked {
			if !yield(l) {
				return
			}
		}
	})
	slices.SortFunc(all, func(a, b library) int { return cmp.Compare(a.path, b.path) })

	var text bytes.Buffer
	text.WriteString("acpd and acpctl contain the libraries that follow, each under its licence.\n")
	root, err := r.run(nil, goCommand(), "env", "GOROOT")
	if err != nil {
		return file{}, err
	}
	if err := appendLicences(&text, "Go", strings.TrimSpace(string(root))); err != nil {
		return file{}, err
	}
	list := []string{goCommand(), "list", "-m", "-f", "{{.Dir}}"}
	for _, l := range all {
		list = append(list, l.path)
	}
	dirs, err := r.run(nil, list...)
	if err != nil {
		return file{}, err
	}
	for i, dir := range strings.Split(strings.TrimSpace(string(dirs)), "\n") {
		if err := appendLicences(&text, all[i].path+" "+all[i].version, dir); err != nil {
			return file{}, err
		}
	}
	return file{path: "third-party.txt", mode: 0o644, text: text.Bytes()}, nil
}

// appendLicences appends the licences in the folder dir.
func appendLicences(text *bytes.Buffer, name, dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licences: %w", err)
	}
	found := false
	for _, f := range all {
		if f.IsDir() || !licenceName.MatchString(f.Name()) {
			continue
		}
		found = true
		licence, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("licences: %w", err)
		}
		fmt.Fprintf(text, "\n==== %s: %s\n\n%s\n", name, f.Name(), bytes.TrimRight(licence, "\n"))
	}
	if !found {
		return fmt.Errorf("licences: %s: no licence lies in %s: look for its name, and add that to licenceName", name, dir)
	}
	return nil
}
