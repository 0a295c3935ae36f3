package main

import (
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"strings"
)

// programNames are the programs of a release.
var programNames = []string{"acpctl", "acpd"}

// buildTags are those of the Makefile: net/http without HTTP/2, which neither program speaks.
const buildTags = "nethttpomithttp2"

// build has the programs for one platform.
type build struct {
	platform platform
	dir      string                          // where the programs are, under their names
	modules  map[string]*buildinfo.BuildInfo // what the go command has written into each
}

// programPath returns the path of a program.
func (b *build) programPath(name string) string { return filepath.Join(b.dir, name) }

// buildPrograms builds the programs into dir. Nothing of this machine gets into them: no
// paths, no settings of the environment, and of git only the commit, in full.
func buildPrograms(r *release, p platform, dir string) (*build, error) {
	module, err := r.run(nil, goCommand(), "list", "-m")
	if err != nil {
		return nil, err
	}
	info := strings.TrimSpace(string(module)) + "/internal/buildinfo"
	env := []string{
		"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0",
		"GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
	}
	ldflags := "-s -w -X " + info + ".version=" + r.version + " -X " + info + ".commit=" + r.commit
	if _, err := r.run(env, goCommand(), "build", "-trimpath", "-buildvcs=false", "-tags", buildTags, "-ldflags", ldflags, "-o", dir+"/", "./cmd/acpd", "./cmd/acpctl"); err != nil {
		return nil, err
	}
	b := &build{platform: p, dir: dir, modules: make(map[string]*buildinfo.BuildInfo)}
	for _, name := range programNames {
		info, err := buildinfo.ReadFile(b.programPath(name))
		if err != nil {
			return nil, fmt.Errorf("build: %w", err)
		}
		b.modules[name] = info
	}
	return b, nil
}

// listLibraries returns the modules that are linked into a program.
func listLibraries(info *buildinfo.BuildInfo) (all []library) {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, library{m.Path, m.Version, m.Sum})
	}
	return all
}

// library is a module of a certain version. sum is that of go.sum.
type library struct{ path, version, sum string }
