package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeInstaller writes the script that installs the programs of this release on any machine. It has the sums of
// the archives, so whoever serves these can only serve the same bytes.
func writeInstaller(r *release, out string, platforms []platform) error {
	text, err := os.ReadFile(filepath.Join(r.source, "packaging/install.sh"))
	if err != nil {
		return fmt.Errorf("installer: %w", err)
	}
	var sums []string
	for _, p := range platforms {
		name := r.name(p, ".tar.gz")
		sum, err := hashFile(filepath.Join(out, name))
		if err != nil {
			return err
		}
		sums = append(sums, sum+"  "+name)
	}
	filled := strings.NewReplacer("@VERSION@", r.version, "@SUMS@", strings.Join(sums, "\n")).Replace(string(text))
	return writeFile(out, "install.sh", []byte(filled))
}
