//go:build packages

package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// clean is a root directory without Go, in which the install script runs, or this machine with a PATH in which only
// the named tools are.
type clean struct {
	t      *testing.T
	root   string // "" for this machine
	home   string // outside of the root
	path   string
	script string
	base   string
}

// usedTools are the programs that the script may use besides curl or wget and sha256sum or shasum.
var usedTools = []string{"sh", "uname", "sed", "sort", "tail", "mkdir", "mktemp", "sleep", "tar", "gzip", "mv", "rm"}

// newClean makes a root: "debian" has Debian and busybox as its wget, "busybox" has only busybox, "curl" is this
// machine with the tools and curl alone.
func newClean(t *testing.T, kind string) *clean {
	t.Helper()
	c := &clean{t: t, root: live.MakeTempDir(t), path: "/usr/bin:/bin", base: serveRelease(t, nil)}
	if err := os.Chmod(c.root, 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(newerRelease(t), "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	c.script = string(script)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "debian":
		must(t, "/", "tar", "--extract", "--numeric-owner", "--file", os.Getenv("ACPD_DEBIAN"), "--directory", c.root)
		must(t, "/", "cp", busybox, c.root+"/usr/bin/wget")
	case "busybox":
		for _, dir := range []string{"/bin", "/dev", "/tmp"} {
			if err := os.Mkdir(c.root+dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		must(t, "/", "mknod", "-m", "666", c.root+"/dev/null", "c", "1", "3")
		must(t, "/", "cp", busybox, c.root+"/bin/busybox")
		must(t, "/", "chroot", c.root, "/bin/busybox", "--install", "-s", "/bin")
	case "curl":
		c.path = filepath.Join(c.root, "tools")
		if err := os.Mkdir(c.path, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, tool := range append(usedTools, "curl", "sha256sum") {
			found, err := exec.LookPath(tool)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(found, filepath.Join(c.path, tool)); err != nil {
				t.Fatal(err)
			}
		}
		c.home, c.root = c.root+"/home", ""
	}
	if c.root != "" {
		c.home = c.root + "/home"
	}
	if err := os.Mkdir(c.home, 0o755); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return c
}

// run runs the script, and returns all that it says. more are variables of its environment, and then its arguments.
func (c *clean) run(more ...string) (string, error) {
	c.t.Helper()
	home := strings.TrimPrefix(c.home, c.root)
	if err := os.WriteFile(filepath.Join(c.home, "install.sh"), []byte(c.script), 0o644); err != nil {
		c.t.Fatal(err)
	}
	argv := []string{"sh", home + "/install.sh"}
	tools, _, _ := strings.Cut(c.path, ":")
	cmd := exec.Command(filepath.Join(tools, "sh"), argv[1:]...)
	if c.root != "" {
		cmd = exec.Command("chroot", append([]string{c.root}, argv...)...)
	}
	cmd.Env = []string{"PATH=" + c.path, "HOME=" + home, "ACPD_BASE_URL=" + c.base}
	for _, word := range more {
		if strings.HasPrefix(word, "--") {
			cmd.Args = append(cmd.Args, word)
		} else {
			cmd.Env = append(cmd.Env, word)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustInstall runs the script, which has to install both programs.
func (c *clean) mustInstall(more ...string) string {
	c.t.Helper()
	said, err := c.run(more...)
	if err != nil {
		c.t.Fatalf("%v\n%s", err, said)
	}
	for _, name := range []string{"acpd", "acpctl"} {
		if got := must(c.t, "/", filepath.Join(c.home, ".local/bin", name), "--version"); !strings.HasPrefix(got, name+" "+newer+" ") {
			c.t.Errorf("installed is %q", got)
		}
	}
	if left, err := filepath.Glob(c.home + "/.local/bin/.*"); err != nil || len(left) > 0 {
		c.t.Errorf("left behind is %q, %v", left, err)
	}
	return said
}

// mustRefuse runs the script, which has to say why it installs nothing, and to leave what is there.
func (c *clean) mustRefuse(why string, more ...string) {
	c.t.Helper()
	list := func() string { return must(c.t, "/", "find", c.home, "-path", "*/.local/bin/*", "-printf", "%p %s\n") }
	before := list()
	said, err := c.run(more...)
	if err == nil || !strings.Contains(said, why) {
		c.t.Errorf("%q: %v, it says %q, want %q", more, err, said, why)
	}
	if after := list(); after != before {
		c.t.Errorf("%s: there is now\n%s", why, after)
	}
}

// serveRelease serves the release, with change in place of the bytes of an archive, and returns its URL.
func serveRelease(t *testing.T, change func([]byte) []byte) string {
	t.Helper()
	release := newerRelease(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join(release, filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if change != nil {
			text = change(text)
		}
		w.Write(text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// writeProgram writes a stand-in for an installed program.
func (c *clean) writeProgram(name, text string) {
	c.t.Helper()
	bin := filepath.Join(c.home, ".local/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
		c.t.Fatal(err)
	}
}

// TestInstall: the script installs the release where there is no Go, with curl or with any wget, and says whether
// the programs will be found.
func TestInstall(t *testing.T) {
	for _, kind := range []string{"debian", "busybox", "curl"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newClean(t, kind)
			if said := c.mustInstall(); !strings.Contains(said, "That folder is not in your PATH.") || !strings.HasSuffix(said, "\nNow: acpctl up\n") {
				t.Errorf("it says %q", said)
			}
			c.path += ":" + strings.TrimPrefix(c.home, c.root) + "/.local/bin"
			if said := c.mustInstall(); !strings.Contains(said, "That folder is in your PATH.") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestInstallAsSomebody: who may not write into the folder is told what to do.
func TestInstallAsSomebody(t *testing.T) {
	t.Parallel()
	c := newClean(t, "busybox")
	said, err := c.run("PREFIX=/dev/null")
	if err == nil || !strings.Contains(said, "cannot write to /dev/null/bin: set PREFIX to a folder in which you may write") {
		t.Errorf("%v, it says %q", err, said)
	}
	cmd := exec.Command("chroot", "--userspec=65534:65534", c.root, "sh", "/home/install.sh")
	cmd.Env = []string{"PATH=/bin", "HOME=/home", "ACPD_BASE_URL=" + c.base}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot write to /home/.local/bin") {
		t.Errorf("%v, it says %q", err, out)
	}
	for prefix, shown := range map[string]string{"/opt": "/opt/bin", "/opt/it's $(id)": `'/opt/it'\''s $(id)/bin'`} {
		said, err := c.run("PREFIX=" + prefix)
		if err != nil || !strings.Contains(said, "are installed in "+prefix+"/bin.") || !strings.Contains(said, "    export PATH="+shown+`:"$PATH"`+"\n") {
			t.Errorf("%v, it says %q", err, said)
		}
	}
}

// TestInstallOverAnother: an older version is replaced and told of; a newer one, and a program that nobody knows,
// only with --force.
func TestInstallOverAnother(t *testing.T) {
	t.Parallel()
	c := newClean(t, "busybox")
	says := func(version string) string {
		return "#!/bin/sh\necho \"acpd " + version + " (commit 0123456, protocol 1)\"\n"
	}
	for _, version := range []string{"0.0.1", "0.0.2", "0.0.2+5ce7fd7-dirty", "0.0.2+20261126151159.0123456", "v0.0.0-20261126151159-0123456789ab+dirty", newer} {
		c.writeProgram("acpd", says(version))
		if said := c.mustInstall(); !strings.Contains(said, "A daemon that is running is still version "+strings.TrimPrefix(version, "v")+": restart it (acpctl drain, then acpctl up).") {
			t.Errorf("over %s it says %q", version, said)
		}
	}
	for _, version := range []string{"0.0.10", "0.1.0", "1.0.0+5ce7fd7", "0.0.2+20261126151201.0123456.changed", "0.0.3~rc1"} {
		c.writeProgram("acpd", says(version))
		c.mustRefuse("acpd is " + version + ", which is newer than " + newer + ": use --force to replace it")
	}
	c.mustInstall("--force")
	for _, program := range []string{"exit 1", "exec sleep 600"} {
		c.writeProgram("acpctl", "#!/bin/sh\n"+program+"\n")
		c.mustRefuse("acpctl does not say its version: use --force to replace it")
	}
	c.writeProgram("acpctl", "#!/bin/sh\nexit 1\n")
	c.mustInstall("--force")
}

// TestInstallTakesNothingElse: whoever serves the archives can only serve those of the release; and nothing is
// installed where something is missing or wrong.
func TestInstallTakesNothingElse(t *testing.T) {
	t.Parallel()
	c := newClean(t, "busybox")
	c.mustRefuse("ACPD_BASE_URL is not set", "ACPD_BASE_URL=")
	for _, url := range []string{"http://192.0.2.1", "http://127.0.0.1.example.org", "http://127.0.0.1:80@example.org", "ftp://127.0.0.1", "file:///tmp", "/tmp"} {
		c.mustRefuse("ACPD_BASE_URL", "ACPD_BASE_URL="+url)
	}
	for _, path := range []string{"", "/acpd"} {
		c.mustRefuse("its port must be a number", "ACPD_BASE_URL=http://127.0.0.1:8000.example.org"+path)
	}
	c.mustRefuse("unknown argument --yes", "--yes")
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	c.mustRefuse("cannot download "+empty.URL, "ACPD_BASE_URL="+empty.URL)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	c.mustRefuse("cannot download "+endless.URL, "ACPD_BASE_URL="+endless.URL)
	for name, change := range map[string]func([]byte) []byte{
		"another byte": func(b []byte) []byte { b[len(b)-9] ^= 1; return b },
		"a byte more":  func(b []byte) []byte { return append(b, 0) },
		"half of it":   func(b []byte) []byte { return b[:len(b)/2] },
		"nothing":      func(b []byte) []byte { return nil },
	} {
		t.Log(name)
		c.mustRefuse("is not the archive of this release", "ACPD_BASE_URL="+serveRelease(t, change))
	}
	if err := os.MkdirAll(c.home+"/.local/bin/acpd", 0o755); err != nil {
		t.Fatal(err)
	}
	c.mustRefuse("acpd is a folder")
	if err := os.Remove(c.home + "/.local/bin/acpd"); err != nil {
		t.Fatal(err)
	}
	whole := c.script
	c.script = regexp.MustCompile(`[0-9a-f]{64}  acpd_`).ReplaceAllString(whole, strings.Repeat("0", 64)+"  acpd_")
	c.mustRefuse("is not the archive of this release")
	c.script = strings.Replace(whole, ".tar.gz'", ".zip'", 1)
	c.mustRefuse("this release has no programs for linux on ")
	c.script = whole
	c.mustInstall()
}

// TestInstallWithoutTools: a missing tool is named.
func TestInstallWithoutTools(t *testing.T) {
	t.Parallel()
	c := newClean(t, "curl")
	for tool, why := range map[string]string{"curl": "neither curl nor wget is here", "sha256sum": "neither sha256sum nor shasum is here"} {
		at := filepath.Join(c.path, tool)
		if err := os.Rename(at, at+".away"); err != nil {
			t.Fatal(err)
		}
		c.mustRefuse(why + ": install one of them")
		if err := os.Rename(at+".away", at); err != nil {
			t.Fatal(err)
		}
	}
	c.mustInstall()
}

// TestInstallUnpacksTwoPrograms: of an archive with other names nothing is written anywhere.
func TestInstallUnpacksTwoPrograms(t *testing.T) {
	t.Parallel()
	c := newClean(t, "busybox")
	whole := c.script
	folder := strings.TrimSuffix(filepath.Base(findFile(t, newerRelease(t), "acpd_*_linux_*.tar.gz")), ".tar.gz") + "/"
	program := "#!/bin/sh\necho 'acpd " + newer + " (x)'\n"
	for name, headers := range map[string][]tar.Header{
		"other names":    {{Name: "../../../../evil", Mode: 0o755}, {Name: "/evil", Mode: 0o755}, {Name: folder + "evil", Mode: 0o755}},
		"one of two":     {{Name: folder + "acpd", Mode: 0o755}},
		"a link":         {{Name: folder + "acpctl", Typeflag: tar.TypeSymlink, Linkname: "/home/other"}, {Name: folder + "acpd", Mode: 0o755}},
		"no programs":    {{Name: folder + "acpctl", Mode: 0o644}, {Name: folder + "acpd", Mode: 0o644}},
		"another folder": {{Name: "acpd/acpctl", Mode: 0o755}, {Name: "acpd/acpd", Mode: 0o755}},
	} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		archive := tar.NewWriter(zip)
		for _, h := range headers {
			if h.Typeflag == 0 {
				h.Typeflag, h.Size = tar.TypeReg, int64(len(program))
			}
			if err := archive.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				archive.Write([]byte(program))
			}
		}
		archive.Close()
		zip.Close()
		if err := os.WriteFile(filepath.Join(c.home, "other"), []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
		c.base = serveRelease(t, func([]byte) []byte { return packed.Bytes() })
		c.script = regexp.MustCompile(`[0-9a-f]{64}  acpd_`).ReplaceAllString(whole, fmt.Sprintf("%x  acpd_", sha256.Sum256(packed.Bytes())))
		t.Log(name)
		c.mustRefuse("install.sh: ")
		if found := must(t, "/", "find", c.root, "-name", "evil*"); found != "" {
			t.Errorf("%s: there is now %s", name, found)
		}
	}
}

// TestCutInstallScript: a script that was cut off on its way does nothing.
func TestCutInstallScript(t *testing.T) {
	t.Parallel()
	c := newClean(t, "busybox")
	whole := c.script
	last := strings.LastIndex(strings.TrimSpace(whole), "\n") + 1
	if strings.TrimSpace(whole[last:]) != `main "$@"` {
		t.Fatalf("the last line is %q", whole[last:])
	}
	for cut := 0; cut <= last; cut += 1 + last/150 {
		c.script = whole[:cut]
		if said, _ := c.run(); strings.Contains(said, "Downloading") {
			t.Errorf("cut after %d bytes it says %q", cut, said)
		}
	}
	c.script = whole[:last]
	if said, err := c.run(); said != "" || err != nil {
		t.Errorf("without its last line it says %q, %v", said, err)
	}
	if found := must(t, "/", "find", c.root, "-name", ".local"); found != "" {
		t.Errorf("there is %s", found)
	}
}
