package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	const full = "ecc12d2f3b4a5c6d7e8f90112233445566778899"
	stamped := func(version, revision string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		if revision != "" {
			b.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision}}
		}
		return b
	}
	for _, c := range []struct {
		how             string
		module          *debug.BuildInfo
		linked, linkedC string
		version, commit string
	}{
		{"make build", stamped("(devel)", ""), "0.1.0+ecc12d2", full, "0.1.0+ecc12d2", full},
		{"make build, without git", stamped("(devel)", ""), "0.1.0", "", "0.1.0", ""},
		{"go build in a checkout", stamped("v0.1.1-0.20261126151200-ecc12d2f3b4a+dirty", full), "", "", "v0.1.1-0.20261126151200-ecc12d2f3b4a+dirty", full},
		{"go install of a commit", stamped("v0.1.1-0.20261126151200-ecc12d2f3b4a", ""), "", "", "v0.1.1-0.20261126151200-ecc12d2f3b4a", "ecc12d2f3b4a"},
		{"go install of a release", stamped("v0.1.0", ""), "", "", "v0.1.0", ""},
		{"go install of a pre-release", stamped("v0.1.0-rc-1", ""), "", "", "v0.1.0-rc-1", ""},
		{"no module", nil, "", "", "(devel)", ""},
	} {
		got := describe(c.module, c.linked, c.linkedC)
		if got.Version != c.version || got.Commit != c.commit {
			t.Errorf("%s: version %q and commit %q, want %q and %q", c.how, got.Version, got.Commit, c.version, c.commit)
		}
		if got.Protocol != "acp/1" || !strings.HasPrefix(got.Go, "go") || !strings.Contains(got.Platform, "/") {
			t.Errorf("%s: %+v", c.how, got)
		}
		for _, want := range []string{c.version + " (commit ", "protocol acp/1", got.Go, got.Platform} {
			if !strings.Contains(got.String(), want) {
				t.Errorf("%s: %q without %q", c.how, got, want)
			}
		}
	}
}
