//go:build packages

package packages

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// must runs a program, which has to succeed, and returns all that it says.
func must(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// unpackArchive unpacks the archive, and returns its folder.
func unpackArchive(t *testing.T) string {
	t.Helper()
	dir := live.MakeTempDir(t)
	must(t, dir, "tar", "--extract", "--file", findFile(t, newerRelease(t), "acpd_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"))
	return findFile(t, dir, "acpd_"+newer+"_*")
}

func TestChecksums(t *testing.T) {
	out := newerRelease(t)
	must(t, out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(out); err != nil || strings.Count(string(sums), "\n") != len(files)-1 {
		t.Errorf("%d files (%v), and the sums of %d", len(files), err, strings.Count(string(sums), "\n"))
	}
}

// TestArchive: programs need no library, and say which version they are. The completions are
// those that acpctl prints.
func TestArchive(t *testing.T) {
	dir := unpackArchive(t)
	for _, name := range []string{"acpd", "acpctl"} {
		if said := must(t, dir, "./"+name, "--version"); !strings.HasPrefix(said, name+" "+newer+" (commit ") || strings.Contains(said, "unknown") {
			t.Errorf("%s --version: %q", name, said)
		}
		if said, err := exec.Command("readelf", "--program-headers", filepath.Join(dir, name)).CombinedOutput(); err == nil && strings.Contains(string(said), "INTERP") {
			t.Errorf("%s is not static", name)
		}
	}
	for shell, path := range map[string]string{"bash": "acpctl.bash", "zsh": "_acpctl", "fish": "acpctl.fish"} {
		script, err := os.ReadFile(filepath.Join(dir, "completions", path))
		if err != nil {
			t.Fatal(err)
		}
		if want := must(t, dir, "./acpctl", "completion", shell); string(script) != want {
			t.Errorf("completions/%s is not what acpctl completion %s prints", path, shell)
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "third-party.txt"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManPages: there is one for each verb that acpctl lists, and mandoc has nothing to say.
func TestManPages(t *testing.T) {
	dir := unpackArchive(t)
	pages, err := filepath.Glob(filepath.Join(dir, "man/man?/*"))
	if err != nil {
		t.Fatal(err)
	}
	if said := must(t, dir, append([]string{"mandoc", "-T", "lint", "-W", "warning"}, pages...)...); said != "" {
		t.Error(said)
	}
	help := must(t, dir, "./acpctl", "--help")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]+) {2,}\S`).FindAllStringSubmatch(help, -1) {
		if page := filepath.Join(dir, "man/man1/acpctl-"+m[1]+".1"); m[1] != "acpctl" && !slices.Contains(pages, page) {
			t.Errorf("%s has no page", m[1])
		}
	}
	shown := must(t, dir, "mandoc", "-T", "ascii", "man/man8/acpd.8")
	shown = regexp.MustCompile(`.\x08`).ReplaceAllString(shown, "")
	for _, flag := range regexp.MustCompile(`--[a-z-]+ `).FindAllString(must(t, dir, "./acpd", "--help"), -1) {
		if !strings.Contains(shown, strings.TrimSpace(flag)) {
			t.Errorf("acpd(8) does not say %s", flag)
		}
	}
}

// TestContents: the SBOM has what CycloneDX requires, both programs with their sums, and all
// that go version -m lists.
func TestContents(t *testing.T) {
	type component struct {
		Type, Name, Version, PURL string
		Ref                       string `json:"bom-ref"`
		Hashes                    []struct{ Alg, Content string }
	}
	var list struct {
		Format       string `json:"bomFormat"`
		SpecVersion  string `json:"specVersion"`
		SerialNumber string `json:"serialNumber"`
		Version      int    `json:"version"`
		Metadata     struct{ Component component }
		Components   []component
		Dependencies []struct {
			Ref       string
			DependsOn []string `json:"dependsOn"`
		}
	}
	text, err := os.ReadFile(findFile(t, newerRelease(t), "*.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if list.Format != "CycloneDX" || list.SpecVersion != "1.6" || list.Version != 1 || list.Metadata.Component.Version != newer ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString(list.SerialNumber) {
		t.Errorf("the head is %q %q %q %d %q", list.Format, list.SpecVersion, list.SerialNumber, list.Version, list.Metadata.Component.Version)
	}
	byRef := map[string]component{list.Metadata.Component.Ref: list.Metadata.Component}
	for _, c := range list.Components {
		if _, twice := byRef[c.Ref]; twice || c.Ref == "" || c.Name == "" || c.Type != "library" && c.Type != "application" {
			t.Errorf("component %+v", c)
		}
		byRef[c.Ref] = c
	}
	needs := make(map[string][]string)
	for _, d := range list.Dependencies {
		needs[d.Ref] = d.DependsOn
		for _, ref := range append(d.DependsOn, d.Ref) {
			if _, ok := byRef[ref]; !ok {
				t.Errorf("%q is needed and not listed", ref)
			}
		}
	}
	dir := unpackArchive(t)
	for _, name := range []string{"acpd", "acpctl"} {
		program, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(program)
		if h := byRef[name].Hashes; len(h) != 1 || h[0].Alg != "SHA-256" || h[0].Content != hex.EncodeToString(sum[:]) {
			t.Errorf("%s has the sums %v", name, h)
		}
		info, err := buildinfo.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Deps) < 10 || len(needs[name]) != len(info.Deps)+1 { // Go's own library besides
			t.Errorf("%s needs %d libraries, listed are %d", name, len(info.Deps), len(needs[name]))
		}
		for _, m := range info.Deps {
			if purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B"); !slices.Contains(needs[name], purl) || byRef[purl].PURL != purl {
				t.Errorf("%s: %s is not listed", name, purl)
			}
		}
	}
}

// TestDebianChecks: lintian has nothing to say, beside what the package says why.
func TestDebianChecks(t *testing.T) {
	t.Parallel()
	if said := must(t, "/", "lintian", "--allow-root", "--fail-on", "error,warning", findFile(t, newerRelease(t), "*.deb")); strings.TrimSpace(said) != "" {
		t.Error(said)
	}
}

// TestRPM: rpm takes the package into an empty root, and its scripts are shell.
func TestRPM(t *testing.T) {
	t.Parallel()
	path := findFile(t, newerRelease(t), "*.rpm")
	must(t, "/", "rpm", "--checksig", "--nosignature", path)
	list := must(t, "/", "rpm", "--query", "--list", "--package", path)
	for _, want := range []string{
		"/usr/bin/acpd", "/usr/bin/acpctl", "/usr/lib/systemd/system/acpd.service", "/usr/lib/systemd/system/acpd@.service", "/usr/lib/systemd/user/acpd.service",
		"/usr/lib/sysusers.d/acpd.conf", "/usr/lib/firewalld/services/acpd.xml", "/usr/share/man/man1/acpctl.1.gz", "/usr/share/man/man8/acpd.8.gz",
		"/usr/share/bash-completion/completions/acpctl", "/usr/share/zsh/site-functions/_acpctl", "/usr/share/fish/vendor_completions.d/acpctl.fish", "/usr/share/licenses/acpd/LICENSE",
	} {
		if !strings.Contains(list, want+"\n") {
			t.Errorf("%s is not in it", want)
		}
	}
	if host := must(t, "/", "rpm", "--query", "--queryformat", "%{BUILDHOST}", "--package", path); host != "localhost" {
		t.Errorf("it names the host %q", host)
	}
	root := live.MakeTempDir(t)
	for _, more := range [][]string{{"--test"}, nil} {
		must(t, "/", append([]string{"rpm", "--root", root, "--install", "--nodeps", "--noscripts", path}, more...)...)
	}
	if said := must(t, "/", "chroot", root, "/usr/bin/acpd", "--version"); !strings.Contains(said, newer) {
		t.Errorf("acpd --version: %q", said)
	}
	must(t, "/", "rpm", "--root", root, "--verify", "--nodeps", "--noscripts", "--nouser", "--nogroup", "acpd")
	for _, script := range []string{"post", "preun"} {
		must(t, "/", "sh", "-n", filepath.Join("/", mustAbs(t, "../../packaging/rpm/"+script)))
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// TestContainer builds the image by hand, as no engine is here: it reads the Containerfile,
// unpacks what that adds, and runs what that runs, as its user and in its root.
func TestContainer(t *testing.T) {
	t.Parallel()
	out := newerRelease(t)
	text, err := os.ReadFile(filepath.Join(out, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	steps := make(map[string]string) // the last of each kind
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if step, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && step != "#" {
			steps[step] = strings.TrimSpace(rest)
		}
	}
	if steps["FROM"] != "scratch" || steps["USER"] != "65532:65532" || steps["VOLUME"] != "/var/lib/acpd" || steps["EXPOSE"] != "7117/udp" {
		t.Errorf("steps %v", steps)
	}
	archive, target, _ := strings.Cut(strings.ReplaceAll(steps["ADD"], "${TARGETARCH}", runtime.GOARCH), " ")
	if target != "/" {
		t.Fatalf("ADD %s", steps["ADD"])
	}
	root := live.MakeTempDir(t)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	must(t, root, "tar", "--extract", "--preserve-permissions", "--numeric-owner", "--file", filepath.Join(out, archive))
	_, check, ok := strings.Cut(steps["HEALTHCHECK"], "CMD ")
	if !ok {
		t.Fatal("it has no health check")
	}
	run := func(asJSON string, more ...string) []string {
		var argv []string
		if err := json.Unmarshal([]byte(asJSON), &argv); err != nil {
			t.Fatalf("%s: %v", asJSON, err)
		}
		inside := []string{"chroot", "--userspec=" + steps["USER"], "--groups=", root, argv[0]}
		return slices.Concat(inside, argv[1:], more)
	}
	env := strings.Fields(steps["ENV"])
	must(t, "/", "ip", "link", "set", "lo", "up")
	healthy := func() bool {
		p := live.StartProcess(t, env, run(check)...)
		<-p.Ended
		return p.Cmd.ProcessState.Success()
	}
	if healthy() {
		t.Error("it is healthy without a daemon")
	}
	daemon := live.StartProcess(t, env, run(steps["ENTRYPOINT"], "--name", "desk", "--no-mdns", "--listen", "127.0.0.1:0")...)
	await.Until(t, "the container is healthy", func() bool {
		if !daemon.IsRunning() {
			t.Fatalf("acpd ended: %s", &daemon.Stderr)
		}
		return healthy()
	})
	if info, err := os.Stat(filepath.Join(root, "var/lib/acpd/identity.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("identity.key: %v, %v", info, err)
	}
	daemon.Stop()
}
