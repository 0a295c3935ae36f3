package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// writeFormula writes the formula for Homebrew, if there are programs for macOS.
func writeFormula(r *release, out string, platforms []platform) error {
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
	if err := formula.Execute(&text, map[string]any{"Version": r.version, "Sums": sums}); err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	return writeFile(out, "acpd.rb", text.Bytes())
}
