//go:build packages

package packages

import (
	"os"
	"path/filepath"
	"testing"
)

// maxSizes are what the programs may have on linux/amd64, in bytes. Who exceeds one looks first
// for what is linked and not needed: go list -deps, go tool nm -size -sort size.
var maxSizes = map[string]int64{
	"acpd":   21_016_738 + 2_300_000, // as it was before relays, pipes and certificates, and what these, traffic, errors in own words, --pprof and files may add; 2,500,000 were meant
	"acpctl": 13_926_562 + 4_000_000, // as it was before doctor, services and backups, and what these may add
}

// TestSizes: the programs do not grow unnoticed.
func TestSizes(t *testing.T) {
	if here != "linux/amd64" {
		t.Skip("the bounds are those of linux/amd64")
	}
	dir := unpackArchive(t)
	for name, most := range maxSizes {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s has %d bytes, of at most %d", name, info.Size(), most)
		if info.Size() > most {
			t.Errorf("%s has %d bytes, %d too many", name, info.Size(), info.Size()-most)
		}
	}
}
