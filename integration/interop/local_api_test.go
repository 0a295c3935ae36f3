//go:build interop

package interop

import (
	"archive/zip"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/integration/scenario"
)

// installed returns the absolute path of what make interop has installed.
func installed(t *testing.T, path ...string) string {
	t.Helper()
	whole, err := filepath.Abs(filepath.Join(append([]string{venvs}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(whole); err != nil {
		t.Fatalf("not installed: run make interop (%v)", err)
	}
	return whole
}

// repository returns an absolute path in the repository.
func repository(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// What python/acpd promises, as it is installed: from its wheel, without the sources.
func TestPythonWheel(t *testing.T) {
	env := live.NewEnviron(t, live.MakeTempDir(t), "PYTHONDONTWRITEBYTECODE=1", "ACPD_WHEEL_IN="+installed(t, "acpd"), "LOCAL_API="+repository(t, "docs/local-api.json"))
	tests := live.StartProcess(t, env, installed(t, "acpd", "bin", "python"), "-X", "dev", "-m", "unittest", "discover", "-s", repository(t, "python/acpd/tests"))
	<-tests.Ended // which may be a while
	tests.AwaitExit(0)
}

// The wheel has the package with its licence, needs no other, and has nothing that does not belong there.
func TestPythonWheelContents(t *testing.T) {
	wheels, err := filepath.Glob(installed(t, "wheel") + "/acpd-*.whl")
	if err != nil || len(wheels) != 1 {
		t.Fatalf("wheels: %q, %v", wheels, err)
	}
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	defer wheel.Close()
	sources, err := filepath.Glob("../../python/acpd/acpd/*")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"LICENSE", "METADATA", "RECORD", "WHEEL"}
	for _, name := range sources {
		if base := filepath.Base(name); base != "__pycache__" {
			want = append(want, base)
		}
	}
	var got []string
	for _, f := range wheel.File {
		if dir := filepath.Dir(f.Name); dir != "acpd" && !strings.HasSuffix(strings.TrimSuffix(dir, "/licenses"), ".dist-info") {
			t.Errorf("%s does not belong there", f.Name)
		}
		base := filepath.Base(f.Name)
		got = append(got, base)
		if base != "METADATA" {
			continue
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || strings.Contains(string(text), "Requires-Dist") || !strings.Contains(string(text), "\nRequires-Python: >=3.11\n") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// check runs a program that must succeed.
func check(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPythonTypes(t *testing.T) {
	mypy := []string{installed(t, "checks", "bin", "mypy"), "--python-executable", installed(t, "acpd", "bin", "python")}
	check(t, append(mypy, "--strict", "-p", "acpd")...)
	check(t, append(mypy, "--check-untyped-defs", repository(t, "integration/scenario/scenario.py"))...)
	check(t, append(mypy, "--check-untyped-defs", repository(t, "python/acpd/tests"))...)
	for _, program := range readPythonBlocks(t) {
		check(t, append(mypy, "--check-untyped-defs", "-c", program)...)
	}
}

func TestTypeScriptTypes(t *testing.T) {
	sources, err := filepath.Glob(repository(t, "examples/node") + "/*.*ts")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(repository(t, "examples/node") + "/*.mjs")
	if err != nil || len(programs) == 0 {
		t.Fatal("no programs", err)
	}
	sources = append(sources, programs...)
	check(t, slices.Concat([]string{
		installed(t, "typescript", "node_modules", ".bin", "tsc"), "--noEmit", "--allowJs", "--checkJs", "--strict", "--skipLibCheck", "false",
		"--module", "nodenext", "--target", "es2024", "--types", "node", "--typeRoots", installed(t, "typescript", "node_modules", "@types"),
	}, sources, []string{repository(t, "integration/scenario/scenario.mjs")})...)
}

// What agents in three languages and the daemon say to each other is as docs/local-api.json
// describes it. The package of Python is the installed one.
func TestLocalAPIDescription(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", program, "../scenario/program").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	desk, laptop := live.NewFriends(t)
	scenario.StartDesk(t, desk)

	programs := scenario.Programs(t, "../scenario", program, installed(t, "acpd", "bin", "python"), node)
	description := repository(t, "docs/local-api.json")
	proxy := runBehindProxy(t, laptop, description, programs)
	seen := maps.Collect(func(yield func(string, bool) bool) {
		for line := range strings.Lines(proxy.AwaitExit(0)) {
			if !yield(strings.TrimSpace(line), true) {
				return
			}
		}
	})
	for _, method := range []string{"ack", "agent: query", "attach", "cancel", "delegate", "inbox", "notify", "query", "wait", "whoami"} {
		if !seen[method] {
			t.Errorf("%s was not seen", method)
		}
	}

	text, err := os.ReadFile(description)
	if err != nil {
		t.Fatal(err)
	}
	lie := filepath.Join(t.TempDir(), "lie.json")
	told := strings.ReplaceAll(string(text), `"uptime_secs": {`, `"uptime_secs": {"maximum": -1,`)
	for _, change := range []string{told, strings.ReplaceAll(string(text), `"question"`, `"asked"`)} {
		if change == string(text) {
			t.Fatal("nothing was changed")
		}
		if err := os.WriteFile(lie, []byte(change), 0o600); err != nil {
			t.Fatal(err)
		}
		runBehindProxy(t, laptop, lie, map[string][]string{"go": programs["go"]}).AwaitExit(1)
	}
}

// runBehindProxy runs the scenario's programs one after the other, and holds what they say to
// laptop's daemon against a description. It returns the process that does so, which ends.
func runBehindProxy(t *testing.T, laptop *live.Machine, description string, programs map[string][]string) *live.Process {
	t.Helper()
	between := filepath.Join(live.MakeTempDir(t), client.SocketName)
	proxy := live.PrepareProcess(t, os.Environ(), sdk(t), repository(t, "integration/interop/local_api_check.py"),
		description, filepath.Join(laptop.Home, client.AgentFolder, client.SocketName), between)
	finish, err := proxy.Cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the socket is there", func() bool { _, err := os.Stat(between); return err == nil || !proxy.IsRunning() })
	for name, argv := range programs {
		env := live.NewEnviron(t, live.MakeTempDir(t), "ACP_SOCKET="+between, "PYTHONDONTWRITEBYTECODE=1")
		p := live.StartProcess(t, env, append(slices.Clone(argv), name)...)
		if said, want := p.AwaitExit(0), scenario.Transcript(name); said != want {
			t.Errorf("%s: %s\nwant %s", name, said, want)
		}
	}
	finish.Close()
	return proxy
}

// readPythonBlocks returns the programs of the package's README.
func readPythonBlocks(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../python/acpd/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(text), "```python\n")[1:] {
		program, _, _ := strings.Cut(rest, "```")
		all = append(all, program)
	}
	return all
}
