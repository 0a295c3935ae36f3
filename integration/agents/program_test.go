//go:build agents

package agents

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// person is somebody at a machine: a home, a folder to work in, and a model.
type person struct {
	t     *testing.T
	home  string
	dir   string
	model *model

	rows, columns uint16 // of a terminal

}

func newPerson(t *testing.T, rules ...rule) *person {
	t.Helper()
	p := &person{t: t, home: live.MakeTempDir(t), model: newModel(t, rules...), rows: 50, columns: 160}
	p.dir = filepath.Join(p.home, "work")
	p.makeDir(p.dir)
	return p
}

func (p *person) makeDir(dir string) {
	p.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) write(name, text string) (path string) {
	p.t.Helper()
	path = filepath.Join(p.home, name)
	p.makeDir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// environment is all that a program is told.
func (p *person) environment(more ...string) []string {
	path := "/usr/local/bin:/usr/bin:/bin"
	if node, err := exec.LookPath("node"); err == nil {
		path = filepath.Dir(node) + ":" + path
	}
	return append([]string{"PATH=" + path, "HOME=" + p.home, "LANG=C.UTF-8", "TERM=xterm-256color"}, more...)
}

// program is an agent program that runs, and what it prints.
type program struct {
	*live.Process
	t     *testing.T
	input io.Writer
}

// start starts a program in the person's folder, with pipes.
func (p *person) start(env []string, argv ...string) *program {
	p.t.Helper()
	proc := live.PrepareProcess(p.t, env, argv...)
	proc.Cmd.Dir = p.dir
	input, err := proc.Cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := proc.Start(); err != nil {
		p.t.Fatal(err)
	}
	return &program{proc, p.t, input}
}

// startInTerminal starts a program on a terminal of its own, at which nobody sits but the test.
func (p *person) startInTerminal(env []string, argv ...string) *program {
	p.t.Helper()
	master, slave, err := live.OpenTerminal(p.rows, p.columns)
	if err != nil {
		p.t.Fatal(err)
	}
	proc := live.PrepareProcess(p.t, env, argv...)
	proc.Cmd.Dir = p.dir
	proc.Cmd.Stdin, proc.Cmd.Stdout, proc.Cmd.Stderr = slave, slave, slave
	proc.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := proc.Start(); err != nil {
		p.t.Fatal(err)
	}
	slave.Close()
	t := &program{proc, p.t, master}
	var reading sync.WaitGroup
	reading.Go(func() { t.show(master) })
	p.t.Cleanup(func() {
		master.Close()
		reading.Wait()
	})
	return t
}

// terminalAnswers are what a terminal answers when a program asks it.
var terminalAnswers = map[string]string{
	"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62;c", "\x1b[?u": "\x1b[?0u",
	"\x1b]10;?": "\x1b]10;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;?": "\x1b]11;rgb:0000/0000/0000\x1b\\",
}

var terminalQuery = regexp.MustCompile(`\x1b(\[6n|\[c|\[\?u|\]1[01];\?)`)

// show keeps what is on the screen, and answers as a terminal does when it is asked.
func (p *program) show(master *os.File) {
	const longest = 6 // bytes of a query
	buf, text := make([]byte, 64<<10), ""
	for {
		n, err := master.Read(buf)
		if err != nil {
			return
		}
		p.Stdout.Write(buf[:n])
		text += string(buf[:n])
		for at := terminalQuery.FindStringIndex(text); at != nil; at = terminalQuery.FindStringIndex(text) {
			master.WriteString(terminalAnswers[text[at[0]:at[1]]])
			text = text[at[1]:]
		}
		text = text[max(0, len(text)-longest+1):] // which a query may begin
	}
}

// press types keys.
func (p *program) press(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.input, keys); err != nil {
		p.t.Fatal(err)
	}
}

// enter types a text and a return, which by itself ends the line: one that comes with text is pasted. So the
// program has to have read the text before; what it shows of it tells that, where it shows it as it is.
func (p *program) enter(text string) {
	p.t.Helper()
	before, seen := len(p.Stdout.String()), strings.ReplaceAll(text, " ", "")
	p.press(text)
	for end := time.Now().Add(await.Patience / 4); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // looks again until it is drawn
		if drawn := controls.ReplaceAllString(p.Stdout.String()[before:], ""); strings.Contains(strings.ReplaceAll(drawn, " ", ""), seen) {
			break
		}
	}
	time.Sleep(300 * time.Millisecond) // for which a program may wait for more of what is pasted
	p.press("\r")
}

// plain is what was printed, without what moves and colours it.
func (p *program) plain() string { return controls.ReplaceAllString(p.Stdout.String(), "") }

// awaitScreen waits until a text is printed. Spaces do not count: a program that draws leaves
// them out.
func (p *program) awaitScreen(text string) {
	p.t.Helper()
	text = strings.ReplaceAll(text, " ", "")
	await.Until(p.t, "on the screen: "+text, func() bool {
		return strings.Contains(strings.ReplaceAll(p.plain(), " ", ""), text)
	})
}

// countLines returns how many lines of JSON with that type were printed.
func (p *program) countLines(kind string) (n int) {
	lines := bufio.NewScanner(strings.NewReader(p.Stdout.String()))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var m struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.Type == kind {
			n++
		}
	}
	return n
}
