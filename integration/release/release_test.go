//go:build interop

// Package release holds this version against the release before it: their daemons talk with each
// other, each one's acpctl with the other's daemon, and this version goes on with the release's
// state. `make interop` runs it. The release is built from its commit, once, into .interop.
package release

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/live"
)

// repository is the folder of the repository, and builds the one for what is built of releases.
const (
	repository = "../.."
	builds     = repository + "/.interop"
)

// released finds the newest release and its commit in CHANGELOG.md.
var released = regexp.MustCompile(`(?m)^## ([0-9.]+), .*\n\n.*commit is ([0-9a-f]{40})\.$`)

// buildRelease returns the folder of the release's acpd and acpctl, and its version.
var buildRelease = sync.OnceValues(func() (built struct{ folder, version string }, _ error) {
	changes, err := os.ReadFile(filepath.Join(repository, "CHANGELOG.md"))
	if err != nil {
		return built, err
	}
	entry := released.FindStringSubmatch(string(changes))
	if entry == nil {
		return built, errors.New("CHANGELOG.md names no release with its commit")
	}
	version, commit := entry[1], entry[2]
	built.version = version
	if built.folder, err = filepath.Abs(filepath.Join(builds, "acpd-"+commit)); err != nil {
		return built, err
	}
	if _, err := os.Stat(built.folder); err == nil {
		return built, nil
	}
	if err := fetchCommit(commit); err != nil {
		return built, fmt.Errorf("the release %s cannot be built: this clone does not have its commit %s: git fetch --unshallow gets the history (%w)", version, commit, err)
	}
	if err := os.MkdirAll(builds, 0o755); err != nil {
		return built, err
	}
	temp, err := os.MkdirTemp(builds, "building-")
	if err != nil {
		return built, err
	}
	defer os.RemoveAll(temp)
	bin := filepath.Join(temp, "bin")
	if err := buildCommit(commit, version, filepath.Join(temp, "sources"), bin); err != nil {
		return built, err
	}
	if err := os.Rename(bin, built.folder); err != nil && !errors.Is(err, os.ErrExist) { // another test was faster
		return built, err
	}
	return built, nil
})

// fetchCommit makes sure that the repository has a commit, which a shallow clone may not.
func fetchCommit(commit string) error {
	if run(repository, "git", "cat-file", "-e", commit+"^{commit}") == nil {
		return nil
	}
	return retry(func() error { return run(repository, "git", "fetch", "--quiet", "--depth=1", "origin", commit) })
}

// retry calls what fetches something until it succeeds, three times at most: a network may fail for a moment.
func retry(fetch func() error) (err error) {
	for n := range 3 {
		time.Sleep(time.Duration(n) * 5 * time.Second)
		if err = fetch(); err == nil {
			return nil
		}
	}
	return err
}

// buildCommit builds acpd and acpctl of a commit into the folder bin.
func buildCommit(commit, version, sources, bin string) error {
	for _, folder := range []string{sources, bin} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	archive, err := filepath.Abs(filepath.Join(sources, "../sources.tar"))
	if err != nil {
		return err
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if err := run(repository, "git", "archive", "--output="+archive, commit); err != nil {
		return err
	}
	if err := run(sources, "tar", "-xf", archive); err != nil {
		return err
	}
	if err := retry(func() error { return run(sources, "go", "mod", "download") }); err != nil {
		return err
	}
	// Without the compiler's profile, so that what both versions import is compiled once.
	return run(sources, "go", "build", "-trimpath", "-pgo=off", "-tags", live.Tags, "-ldflags", "-s -w -X main.version="+version, "-o", bin+"/", "./cmd/acpd", "./cmd/acpctl")
}

// run runs a program in a folder. Its error has what the program said.
func run(folder string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GIT_TERMINAL_PROMPT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// version says whose programs are meant.
type version string

const (
	older version = "the release"
	newer version = "this version"
)

// programPath is the path of a version's acpd or acpctl.
func (v version) programPath(t *testing.T, name string) string {
	t.Helper()
	if v == newer {
		return live.ProgramPath(t, name)
	}
	built, err := buildRelease()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(built.folder, name)
}

func TestMain(m *testing.M) {
	code := m.Run()
	live.RemovePrograms()
	os.Exit(code)
}
