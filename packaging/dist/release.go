package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// release describes the source of a release.
type release struct {
	source  string    // the checkout, as an absolute path
	version string    // without a v
	commit  string    // in full; "" if it is not known
	time    time.Time // of every file, in UTC
}

// versionForm is what Debian and RPM both take as a version. A hyphen would begin a revision.
var versionForm = regexp.MustCompile(`^[0-9][0-9A-Za-z.+~]*$`)

// readRelease finds out what is released. number is that of the release which is made, or was
// made last; version, unless it is "", is what everything is called. The time is
// SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), else that of
// the commit.
func readRelease(source, number, version string) (*release, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	r := &release{source: source, version: version}
	var tagged, changed bool
	if head, err := r.git("show", "--no-patch", "--format=%H %ct", "HEAD"); err == nil {
		hash, seconds, _ := strings.Cut(head, " ")
		if r.time, err = parseEpoch(seconds); err != nil {
			return nil, err
		}
		r.commit = hash
		_, err = r.git("describe", "--exact-match", "--tags", "--match", "v"+number, "HEAD")
		tagged = err == nil
		changes, err := r.git("status", "--porcelain")
		changed = err != nil || changes != ""
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		if r.time, err = parseEpoch(epoch); err != nil {
			return nil, err
		}
	}
	if r.time.IsZero() {
		return nil, errors.New("release: no git repository tells when this source was written: set SOURCE_DATE_EPOCH")
	}
	if r.version == "" {
		r.version = nameVersion(number, r.commit, r.time, tagged, changed)
	}
	if !versionForm.MatchString(r.version) {
		return nil, fmt.Errorf("release: version %q: expected digits first, then letters, digits, dots, + and ~: give another with --version or --release", r.version)
	}
	return r, nil
}

// nameVersion returns number for the commit that is tagged so and has no changes. Any other is
// newer than number and older than what is tagged next, and a later commit is newer than an
// earlier one, for Debian and RPM too.
func nameVersion(number, commit string, at time.Time, tagged, changed bool) string {
	if tagged && !changed {
		return number
	}
	name := number + "+" + at.Format("20060102150405")
	if commit != "" {
		name += "." + commit[:min(len(commit), 7)]
	}
	if changed {
		name += ".changed"
	}
	return name
}

func parseEpoch(seconds string) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, fmt.Errorf("release: %q is no time: SOURCE_DATE_EPOCH has seconds since 1970", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// git runs git in the source.
func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.source}, args...)...)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// name returns the name of a file of the release.
func (r *release) name(p platform, extension string) string {
	return "acpd_" + r.version + "_" + p.String() + extension
}

// run runs a program in the source, and returns its output. The error has what it said.
func (r *release) run(env []string, argv ...string) ([]byte, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = r.source, append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(argv[:min(len(argv), 2)], " "), err)
	}
	return out, nil
}

// goCommand is the program that builds.
func goCommand() string { return cmp.Or(os.Getenv("GO"), "go") }
