// Command dist makes what is released of acpd: for each platform an archive with static
// programs, man pages and completions, and a list of what is in the programs (SBOM); for
// Linux also packages for Debian and Fedora and the files of a container image; a script
// that installs the programs, a formula for Homebrew, checksums of everything, and the Containerfile.
//
// The same commit gives the same bytes, wherever and whenever it is built with the same
// version of Go: every time in every file is that of the commit, or SOURCE_DATE_EPOCH.
//
// It is a module of its own, so what it needs is not in acpd's go.mod.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := pflag.NewFlagSet("dist", pflag.ContinueOnError)
	source := f.String("source", "../..", "the checkout of acpd")
	out := f.String("out", "../../dist", "the folder to write; what an earlier run wrote there is replaced")
	number := f.String("release", "", "number of the release that this is, or that comes before it")
	version := f.String("version", "", "version of everything (default: --release, and the time and digits of a commit that is not tagged so)")
	base := f.String("base", "", "URL of the folder from which the files are downloaded (without it there is no formula for Homebrew)")
	names := f.StringSlice("platforms", []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}, "GOOS/GOARCH of each platform")
	if err := f.Parse(args); err != nil {
		return err
	}
	platforms, err := parsePlatforms(*names)
	if err != nil {
		return err
	}
	r, err := readRelease(*source, *number, *version)
	if err != nil {
		return err
	}
	return makeRelease(r, *out, *base, platforms)
}

// platform is what programs are built for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

func parsePlatforms(names []string) (all []platform, err error) {
	for _, name := range names {
		os, arch, ok := strings.Cut(name, "/")
		if !ok || (os != "linux" && os != "darwin") {
			return nil, fmt.Errorf("--platforms: %q: write linux/ARCH or darwin/ARCH", name)
		}
		all = append(all, platform{os, arch})
	}
	return all, nil
}

// makeRelease writes all files of a release, and then puts them into out in place of an earlier
// release.
func makeRelease(r *release, out, base string, platforms []platform) error {
	stage, err := os.MkdirTemp("", "acpd-dist")
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	defer os.RemoveAll(stage)
	made, err := os.MkdirTemp(filepath.Dir(out), ".acpd-dist")
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	defer os.RemoveAll(made)
	fmt.Printf("acpd %s, of %s\n", r.version, r.time.Format("2006-01-02 15:04:05"))
	manual, err := renderManual(r)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		b, err := buildPrograms(r, p, filepath.Join(stage, p.String()))
		if err != nil {
			return err
		}
		if err := writePlatform(r, b, manual, made); err != nil {
			return err
		}
	}
	if err := writeContainerfile(r, made); err != nil {
		return err
	}
	if err := writeFormula(r, made, base, platforms); err != nil {
		return err
	}
	if err := writeInstaller(r, made, platforms); err != nil {
		return err
	}
	if err := writeChecksums(made); err != nil {
		return err
	}
	if err := removeEarlierRelease(out); err != nil {
		return err
	}
	return moveFiles(made, out)
}

// writePlatform writes what is released for one platform.
func writePlatform(r *release, b *build, manual files, out string) error {
	licences, err := collectLicences(r, b)
	if err != nil {
		return err
	}
	if err := writeArchive(r, b, append(manual, licences), out); err != nil {
		return err
	}
	if err := writeSBOM(r, b, out); err != nil {
		return err
	}
	if b.platform.os != "linux" {
		return nil
	}
	if err := writeContainerRoot(r, b, licences, out); err != nil {
		return err
	}
	return writePackages(r, b, append(manual, licences), out)
}
