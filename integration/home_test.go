package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// downloads match a place from which a text would have acpd downloaded.
var downloads = []*regexp.Regexp{
	regexp.MustCompile(`(?i)https?://[^\s/"'<>]*\.[^\s"'<>)]*acpd`),
	regexp.MustCompile(`\bghcr\.io/\S*acpd|\bdocker pull \S*acpd|\bbrew (install|tap) \S*acpd|\bgo install \S*acpd|\b(pip|pip3|pipx|uv|npm|npx) (install |i )?[a-z@/]*acpd\b`),
}

// importSpec matches what a Go file, or an example in a document, writes to import a package.
var importSpec = regexp.MustCompile(`^\s*(import )?([\w.]+ )?"[^"]+"(\s*//.*)?$`)

// TestNoPlaceToDownloadIsNamed: as long as the project has no home on the network, no text names one, and the
// module's path stands only where the language needs it: in go.mod, and where a package is imported. So to name
// the home is one change.
func TestNoPlaceToDownloadIsNamed(t *testing.T) {
	for _, text := range []string{
		"curl https://dl.example.org/acpd.tar.gz", "homepage https://github.com/acpd/acpd", "pip install acpd", "npx acpd", "brew install acpd/tap/acpd", "go install example.org/acpd/cmd/acpd@latest",
	} {
		if !slices.ContainsFunc(downloads, func(re *regexp.Regexp) bool { return re.MatchString(text) }) {
			t.Errorf("%q is not found", text)
		}
	}
	modules := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			hidden := strings.HasPrefix(name, ".") && !slices.Contains([]string{"..", ".ci", ".github"}, name)
			if hidden || slices.Contains([]string{"node_modules", "testdata", "vectors"}, name) || path == "../bin" || path == "../dist" {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 || name == "home_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.Contains(line, "acpd") {
				continue
			}
			for _, re := range downloads {
				if found := re.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: there is no such place yet", path, i+1, found)
				}
			}
			switch {
			case !strings.Contains(line, live.Module):
			case name == "go.mod":
				modules++
			case importSpec.MatchString(line), strings.Contains(line, "go mod edit -replace "):
			default:
				t.Errorf("%s:%d: the module's path: take it from go.mod or live.Module", path, i+1)
			}
		}
		return nil
	})
	if err != nil || modules < 4 {
		t.Errorf("%d lines of go.mod read: %v", modules, err)
	}
}
