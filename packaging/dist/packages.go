package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// maintainer is whom packages name. packaging/nfpm.yaml has it too.
const maintainer = "acpd maintainers <maintainers@acpd.example>"

// writePackages writes the packages for Debian and for Fedora that packaging/nfpm.yaml describes.
func writePackages(r *release, b *build, texts files, out string) error {
	stage := filepath.Join(b.dir, "package")
	if err := stagePackage(r, stage, texts); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		info, err := readPackageConfig(r, b, stage, format)
		if err != nil {
			return err
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return fmt.Errorf("package: %w", err)
		}
		var packed bytes.Buffer
		if err := packager.Package(info, &packed); err != nil {
			return fmt.Errorf("package: %s: %w", format, err)
		}
		if err := writeFile(out, packager.ConventionalFileName(info), packed.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// readPackageConfig reads packaging/nfpm.yaml for one format. It fills in values such as ${VERSION}. Paths
// are those of the checkout.
func readPackageConfig(r *release, b *build, stage, format string) (*nfpm.Info, error) {
	text, err := os.Open(filepath.Join(r.source, "packaging/nfpm.yaml"))
	if err != nil {
		return nil, fmt.Errorf("package: %w", err)
	}
	defer text.Close()
	values := map[string]string{
		"VERSION": r.version, "ARCH": b.platform.arch, "PROGRAMS": b.dir, "STAGE": stage, "SOURCE": r.source,
	}
	config, err := nfpm.ParseWithEnvMapping(text, func(name string) string { return values[name] })
	if err != nil {
		return nil, fmt.Errorf("package: %w", err)
	}
	info, err := config.Get(format)
	if err != nil {
		return nil, fmt.Errorf("package: %w", err)
	}
	info.MTime = r.time
	if format == "deb" {
		info.License = "" // Debian has no such field: the licence is in the file copyright
	}
	for _, script := range []*string{&info.Scripts.PreInstall, &info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		if *script != "" {
			*script = filepath.Join(r.source, *script)
		}
	}
	info = nfpm.WithDefaults(info)
	return info, nfpm.PrepareForPackager(info, format)
}

// stagePackage writes the files of packages that the checkout does not have: the compressed manual pages, the
// completions, and the changelogs.
func stagePackage(r *release, stage string, texts files) error {
	changes, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("package: %w", err)
	}
	all := files{
		{path: "changelog.Debian.gz", text: compress(fmt.Appendf(nil, "acpd (%s) unstable; urgency=medium\n\n  * changelog.gz says what has changed.\n\n -- %s  %s\n", r.version, maintainer, r.time.Format(time.RFC1123Z)))},
		{path: "changelog.gz", text: compress(changes)},
	}
	for _, f := range texts {
		if strings.HasPrefix(f.path, "man/") || strings.HasSuffix(f.path, ".txt") {
			f.path, f.text = f.path+".gz", compress(f.text)
		}
		all = append(all, f)
	}
	for _, f := range all {
		path := filepath.Join(stage, f.path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.text, 0o644)); err != nil {
			return fmt.Errorf("package: %w", err)
		}
	}
	return nil
}
