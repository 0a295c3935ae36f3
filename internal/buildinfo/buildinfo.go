// Package buildinfo describes the build of the running program: its version, commit, compiler and platform.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/acpd/acpd/identity"
)

// The linker sets these if the build knows better than the module (-ldflags -X).
var (
	version string
	commit  string // in full
)

// Info is what a program says of its build.
type Info struct {
	Version  string `json:"version"`         // "(devel)" if it is not known
	Commit   string `json:"commit,omitzero"` // hexadecimal, in full if the build knows it so; "" if it is not known
	Protocol string `json:"protocol"`        // that daemons of this build speak with each other
	Go       string `json:"go"`              // version of the compiler
	Platform string `json:"platform"`        // GOOS/GOARCH
}

// Read describes the running program. A value set by the linker takes precedence over the one that the go
// command has written into the program.
func Read() Info {
	module, _ := debug.ReadBuildInfo()
	return describe(module, version, commit)
}

// describe is Read for any program. module is nil if it was built without modules.
func describe(module *debug.BuildInfo, version, commit string) Info {
	if module == nil {
		module = &debug.BuildInfo{}
	}
	var revision string
	for _, s := range module.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return Info{
		Version:  cmp.Or(version, module.Main.Version, "(devel)"),
		Commit:   cmp.Or(commit, revision, findPseudoRevision(module.Main.Version)),
		Protocol: identity.ALPN,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// findPseudoRevision returns the 12 digits of the commit in a pseudo-version of a module,
// such as v0.1.1-0.20261126151200-ecc12d2f3b4a, or "" for any other version
// (https://go.dev/ref/mod#pseudo-versions).
func findPseudoRevision(version string) string {
	version, _, _ = strings.Cut(version, "+")
	parts := strings.Split(version, "-")
	last := parts[len(parts)-1]
	if len(parts) < 3 || len(last) != 12 || strings.Trim(last, "0123456789abcdef") != "" {
		return ""
	}
	return last
}

// String returns all of it in one line, without the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, protocol %s, %s, %s)", i.Version, cmp.Or(i.Commit, "unknown"), i.Protocol, i.Go, i.Platform)
}
