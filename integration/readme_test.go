package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// TestReadme types every command of the README, on two "machines" that differ in
// their home directory, and expects each to succeed. They find each other as the
// README says, over loopback if there is no network; so that no other daemon of this
// host or network is meant, their names get an ending.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var (
		blocks    = regexp.MustCompile("(?s)```(sh|console)\n(.*?)```").FindAllSubmatch(text, -1)
		ending    = "-" + strings.ToLower(rand.Text()[:8])
		roles     = regexp.MustCompile(`(--name|trust|ping|query|delegate|notify|allow) (desk|laptop)\b`)
		prompt    = regexp.MustCompile(`^(desk|laptop)\$ (.*)$`)
		homes     = map[string]string{"desk": live.MakeTempDir(t), "laptop": live.MakeTempDir(t)}
		uri       string
		run, made int
	)
	for _, b := range blocks {
		for line := range strings.Lines(string(b[2])) {
			line = strings.TrimSpace(line)
			if string(b[1]) == "sh" {
				target, _, _ := strings.Cut(strings.TrimPrefix(line, "make "), " ")
				if target != "test" { // that is what runs this
					commandWithin(t, buildTime, "..", nil, "make", target)
				}
				made++
				continue
			}
			m := prompt.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("a console line without a machine: %q", line)
			}
			env := append(os.Environ(), live.NewEnviron(t, homes[m[1]])...)
			typed := roles.ReplaceAllString(strings.Replace(m[2], "'acp://…'", uri, 1), "$1 $2"+ending)
			t.Log(line)
			run++
			if daemon, ok := strings.CutSuffix(typed, " &"); ok {
				background(t, env, daemon)
				continue
			}
			if name, ok := strings.CutPrefix(typed, "acpctl trust "); ok {
				await.Until(t, name+" is found", func() bool {
					return strings.Contains(command(t, homes[m[1]], env, "bash", "-c", "acpctl peers"), name)
				})
				typed = "echo yes | " + typed
			}
			out := command(t, homes[m[1]], env, "bash", "-c", typed)
			if strings.HasPrefix(typed, "acpctl invite") {
				uri = "'" + strings.TrimSpace(out) + "'"
			}
		}
	}
	if run < 10 || made < 2 {
		t.Errorf("%d commands and %d targets found: has the README's form changed?", run, made)
	}
}

// TestInstall runs what the README says in passing.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	commandWithin(t, buildTime, "..", nil, "make", "install", "PREFIX="+dir)
	for _, name := range []string{"acpd", "acpctl"} {
		command(t, dir, nil, filepath.Join(dir, "bin", name), "--version")
	}
}

// background starts a daemon or an agent and waits until it is there.
func background(t *testing.T, env []string, typed string) {
	t.Helper()
	live.StartProcess(t, env, "bash", "-c", "exec "+typed)
	home := ""
	if _, after, ok := strings.Cut(typed, "--home "); ok {
		home = "--home " + strings.Fields(after)[0]
	}
	if strings.HasPrefix(typed, "acpd") {
		command(t, "/", env, "bash", "-c", "acpctl "+home+" status --wait 10s")
		return
	}
	await.Until(t, typed+" attached", func() bool {
		return strings.Contains(command(t, "/", env, "bash", "-c", "acpctl "+home+" status --json"), `"reviewer"`)
	})
}

// buildTime bounds how long a busy machine builds the programs and all that they use.
const buildTime = 5 * time.Minute

// command runs a command that must succeed within a minute and returns what it
// printed on standard output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	return commandWithin(t, time.Minute, dir, env, name, args...)
}

func commandWithin(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}
