package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// writeFormula writes the formula for Homebrew, if there are programs for every platform that it names and base
// is the URL from which they are downloaded.
func writeFormula(r *release, out, base string, platforms []platform) error {
	if base == "" {
		fmt.Fprintln(os.Stderr, "dist: no formula: --base does not say where the files are downloaded from")
		return nil
	}
	path := filepath.Join(r.source, "packaging/homebrew/acpd.rb.tmpl")
	formula, err := template.ParseFiles(path)
	if err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	sums := make(map[string]string) // by platform
	for _, p := range platforms {
		if sums[p.String()], err = hashFile(filepath.Join(out, r.name(p, ".tar.gz"))); err != nil {
			return err
		}
	}
	for _, p := range []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"} {
		if sums[p] == "" {
			fmt.Fprintf(os.Stderr, "dist: no formula: it needs %s\n", p)
			return nil
		}
	}
	var text bytes.Buffer
	if err := formula.Execute(&text, map[string]any{"Version": r.version, "Base": strings.TrimSuffix(base, "/"), "Sums": sums}); err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	return writeFile(out, "acpd.rb", text.Bytes())
}
