package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// TestReadme types every command of the README on two "machines", each the home directory of a person who has
// Claude Code and Codex, and expects each to succeed. Both have no service manager, and find nobody by mDNS.
func TestReadme(t *testing.T) {
	var (
		text      = readFile(t, "../README.md")
		blocks    = regexp.MustCompile("(?s)```(sh|console)\n(.*?)```").FindAllStringSubmatch(text, -1)
		prompt    = regexp.MustCompile(`^(desk|laptop)\$ (.*)$`)
		people    = map[string]*person{"desk": newPerson(t, "desk"), "laptop": newPerson(t, "laptop")}
		line      string // that the desk's acpctl up has printed
		run, made int
	)
	if words := len(strings.Fields(text)); words > 1200 {
		t.Errorf("%d words: the README has at most 1,200", words)
	}
	for _, b := range blocks {
		for typed := range strings.Lines(b[2]) {
			typed = strings.TrimSpace(typed)
			if b[1] == "sh" {
				target, _, _ := strings.Cut(strings.TrimPrefix(typed, "make "), " ")
				switch target {
				case "test": // that is what runs this
				case "install":
					dir := t.TempDir()
					commandWithin(t, buildTime, "..", nil, "make", target, "PREFIX="+dir)
					for _, name := range []string{"acpd", "acpctl"} {
						command(t, dir, nil, filepath.Join(dir, "bin", name), "--version")
					}
				default:
					commandWithin(t, buildTime, "..", nil, "make", target)
				}
				made++
				continue
			}
			m := prompt.FindStringSubmatch(typed)
			if m == nil {
				t.Fatalf("a console line without a machine: %q", typed)
			}
			t.Log(typed)
			run++
			who := people[m[1]]
			if m[2] == "acpctl up" {
				line = who.up(line)
				continue
			}
			who.types(m[2])
		}
	}
	for _, p := range people {
		p.end()
	}
	if run < 9 || made < 3 {
		t.Errorf("%d commands and %d targets found: has the README's form changed?", run, made)
	}
}

// person is somebody who follows the README at a machine.
type person struct {
	t   *testing.T
	env []string
	end func() // ends what is typed last at a terminal
}

func newPerson(t *testing.T, name string) *person {
	t.Helper()
	home := live.MakeTempDir(t)
	bin := filepath.Join(home, ".local/bin")
	for _, dir := range []string{bin, filepath.Join(home, ".acp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]string{"acpd": live.ProgramPath(t, "acpd"), "acpctl": live.ProgramPath(t, "acpctl")}
	for _, tool := range []string{"bash", "sed"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		programs[tool] = path
	}
	for tool, path := range programs {
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		".local/bin/claude": "#!/bin/sh\necho 2.1.332\n",
		".local/bin/codex":  "#!/bin/sh\necho codex-cli 0.171.0\n",
		".acp/config.yaml":  "name: " + name + "\nlisten: 127.0.0.1:0\ndiscovery: {mdns: off}\n",
	} {
		if err := os.WriteFile(filepath.Join(home, file), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := &person{t: t, env: []string{"HOME=" + home, "PATH=" + bin, "TERM=dumb", "GORACE=atexit_sleep_ms=0"}}
	t.Cleanup(func() { // up has started a daemon that outlives it
		drain := exec.Command(filepath.Join(bin, "acpctl"), "drain", "--timeout", "1ms")
		drain.Env = p.env
		drain.Run()
	})
	return p
}

// types types a command, which succeeds.
func (p *person) types(line string) {
	p.t.Helper()
	line, background := strings.CutSuffix(line, " &")
	if !background {
		command(p.t, "/", p.env, "bash", "-c", line)
		return
	}
	live.StartProcess(p.t, p.env, "bash", "-c", "exec "+line)
	name := `"` + regexp.MustCompile(`--name (\S+)`).FindStringSubmatch(line)[1] + `"`
	await.Until(p.t, name+" is attached", func() bool {
		return strings.Contains(command(p.t, "/", p.env, "bash", "-c", "acpctl agents --json"), name)
	})
}

// upAnswers is what both say when acpctl up asks, but for the line of the other machine.
var upAnswers = map[string]*regexp.Regexp{
	"y\n": regexp.MustCompile(`Type yes(, ask)? or no: `),
}

// up types acpctl up and answers its questions. Without a line it makes one and returns it while up goes on;
// with one it pastes that, and up ends.
func (p *person) up(line string) (made string) {
	p.t.Helper()
	keys, screen, err := live.OpenTerminal(50, 300)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", "exec acpctl up")
	cmd.Path = filepath.Join(strings.TrimPrefix(p.env[1], "PATH="), "bash")
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	screen.Close()
	p.t.Cleanup(func() { cmd.Process.Kill() })
	var seen strings.Builder
	lines, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		asked, rest := regexp.MustCompile(`press Enter to make one: `), ""
		for b := make([]byte, 4096); ; {
			n, readErr := keys.Read(b)
			seen.Write(b[:n])
			rest += string(b[:n])
			for reply, question := range upAnswers {
				if at := question.FindStringIndex(rest); at != nil {
					rest = rest[at[1]:]
					keys.WriteString(reply)
				}
			}
			if at := asked.FindStringIndex(rest); at != nil {
				rest = rest[at[1]:]
				keys.WriteString(line + "\n")
			}
			if uri := regexp.MustCompile(`acp://\S+\r`).FindString(rest); uri != "" && line == "" {
				rest = ""
				lines <- strings.TrimSpace(uri)
			}
			if readErr != nil { // the terminal is closed
				ended <- cmd.Wait()
				return
			}
		}
	}()
	p.end = func() {
		p.t.Helper()
		select {
		case err := <-ended:
			if err != nil {
				p.t.Errorf("acpctl up: %v\n%s", err, seen.String())
			}
		case <-time.After(await.Patience):
			p.t.Fatal("acpctl up does not end")
		}
	}
	if line != "" {
		p.end()
		p.end = func() {}
		return line
	}
	select {
	case made = <-lines:
	case err := <-ended:
		p.t.Fatalf("acpctl up: %v\n%s", err, seen.String())
	case <-time.After(await.Patience):
		p.t.Fatal("acpctl up makes no line")
	}
	return made
}
