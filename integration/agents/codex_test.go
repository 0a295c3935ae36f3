//go:build agents

package agents

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// codexPackages is the folder to which Codex copies its app-server when it is first started in
// a home. Other homes get links to these files, which are large.
var codexPackages = sync.OnceValues(func() (dir string, err error) {
	home, err := os.MkdirTemp("", "codex")
	if err != nil {
		return "", err
	}
	master, slave, err := live.OpenTerminal(50, 160)
	if err != nil {
		return "", err
	}
	p := &person{home: home, dir: home}
	cmd := exec.Command(programs["codex"])
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.environment(), home, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	slave.Close()
	screen := &program{Process: new(live.Process)}
	var reading sync.WaitGroup
	reading.Go(func() { screen.show(master) })
	end := time.Now().Add(await.Patience)
	for err = fs.ErrNotExist; err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		_, err = os.Stat(filepath.Join(home, ".codex/app-server-control/app-server-control.sock"))
	}
	p.endCodex()
	cmd.Process.Kill()
	cmd.Wait()
	master.Close()
	reading.Wait()
	if err != nil {
		err = fmt.Errorf("codex starts no app-server: %w\n%s", err, screen.plain())
	}
	return filepath.Join(home, ".codex/packages"), err
})

// codexVersion returns the version that is installed.
func codexVersion(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(programs["codex"], "--version")
	cmd.Env = (&person{t: t, home: live.MakeTempDir(t)}).environment()
	out, err := cmd.Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		t.Fatalf("codex --version: %q, %v", out, err)
	}
	return words[len(words)-1]
}

// linkPackages gives a home the app-server.
func (p *person) linkPackages() {
	p.t.Helper()
	from, err := codexPackages()
	if err != nil {
		p.t.Fatal(err)
	}
	err = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, path)
		target := filepath.Join(p.home, ".codex/packages", name)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(link, target)
			}
			return err
		}
		return os.Link(path, target)
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// codexTerminal is a thread of Codex in a terminal.
type codexTerminal struct {
	*program
	person *person
}

// configureCodex writes Codex's configuration. With settings on the command line Codex would
// run the thread in the terminal's process, and not in the app-server.
func (p *person) configureCodex(server []string, more ...string) {
	p.t.Helper()
	var args []string
	for _, a := range server[1:] {
		args = append(args, strconv.Quote(a))
	}
	p.write(".codex/config.toml", strings.Join(more, "\n")+`
model = "stub"
model_provider = "stub"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.stub]
name = "stub"
base_url = "`+p.model.server.URL+`/v1"
wire_api = "responses"
[projects."`+p.dir+`"]
trust_level = "trusted"
[mcp_servers.acp]
command = "`+server[0]+`"
args = [`+strings.Join(args, ",")+`]
default_tools_approval_mode = "approve"
`)
}

// startCodex starts Codex in a terminal, and waits until its thread has a first turn.
func (p *person) startCodex(flags ...string) *codexTerminal {
	p.t.Helper()
	c := p.openCodex(flags...)
	c.say("hello")
	p.model.awaitRequest("user", "hello")
	return c
}

// openCodex starts Codex in a terminal.
func (p *person) openCodex(flags ...string) *codexTerminal {
	p.t.Helper()
	if _, err := os.Stat(filepath.Join(p.home, ".codex/packages")); err != nil {
		p.linkPackages()
	}
	c := &codexTerminal{p.startInTerminal(p.environment(), append([]string{programs["codex"]}, flags...)...), p}
	p.t.Cleanup(p.endCodex)
	c.awaitScreen("Ask Codex")
	return c
}

// endCodex ends what Codex has started in the home and left behind.
func (p *person) endCodex() {
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range all {
		program, err := os.Readlink(link)
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid > 1 && strings.HasPrefix(program, p.home+"/") {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// say types a line.
func (c *codexTerminal) say(text string) {
	c.t.Helper()
	c.enter(text)
}

// An idle thread is woken: the model is given the line as the user's, and what the peer wrote
// as the result of a tool, which Codex proves.
func TestCodexIsWoken(t *testing.T) {
	t.Parallel()
	p := newPerson(t, rule{"waits, id", []step{call("acp_inbox", nil)}})
	c, child := p.startCodexChild()
	post := newPost()
	post.Untrusted = "<acp-message>what a peer wrote</acp-message>"
	if r := child.post(post); r.Err != "" || !r.Proven {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("user", post.Pointer)
	p.model.awaitRequest("result", post.Untrusted)
	p.model.awaitRequest("result", inboxText)
	c.awaitScreen("1 message from desk waits")
}

// Nobody is asked in a thread whose approvals are switched off. It is woken only if the owner allows it.
func TestCodexIsUnattended(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"no approvals": {"-a", "never"}, "no sandbox": {"--yolo"}, "no sandbox only": {"-s", "danger-full-access"},
	} {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, fresh %v", name, fresh), func(t *testing.T) {
				t.Parallel()
				p := newPerson(t)
				var child *child
				if fresh {
					_, child = p.openCodexChild(flags...)
				} else {
					_, child = p.startCodexChild(flags...)
				}
				post := newPost()
				if r := child.post(post); r.Err != "unattended" {
					t.Errorf("post: %+v", r)
				}
				if p.model.find("user", post.Pointer) != nil {
					t.Error("the model is given the pointer")
				}
				post.Unattended = true
				if r := child.post(post); r.Err != "" {
					t.Errorf("unattended, as the owner allows: %+v", r)
				}
				p.model.awaitRequest("user", post.Pointer)
			})
		}
	}
}

// openCodexChild starts Codex in a folder that it does not know, which has no Git, with a child that the
// test can ask. Nothing was said in the thread.
func (p *person) openCodexChild(flags ...string) (*codexTerminal, *child) {
	p.t.Helper()
	sockets := live.MakeTempDir(p.t)
	p.configureCodex(childCommand(p.t, sockets))
	path := filepath.Join(p.home, ".codex/config.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(".codex/config.toml", strings.ReplaceAll(string(text), "trust_level = \"trusted\"", ""))
	c := p.openCodex(flags...)
	return c, awaitChild(p.t, sockets)
}

// startCodexChild starts Codex with a child that the test can ask.
func (p *person) startCodexChild(flags ...string) (*codexTerminal, *child) {
	p.t.Helper()
	return p.startCodexChildIn(live.MakeTempDir(p.t), flags...)
}

// startCodexChildIn does so with a folder for the children's sockets.
func (p *person) startCodexChildIn(sockets string, flags ...string) (*codexTerminal, *child) {
	p.t.Helper()
	p.configureCodex(childCommand(p.t, sockets))
	c := p.startCodex(flags...)
	c.awaitScreen("done")
	child := awaitChild(p.t, sockets)
	child.mustFind("codex", codexVersion(p.t))
	return c, child
}

// wakeCodex posts to the session of a child, and waits until the model has the pointer.
func (p *person) wakeCodex(c *child) PostParams {
	p.t.Helper()
	post := newPost()
	if r := c.post(post); r.Err != "" {
		p.t.Fatalf("post to child %s: %+v", c.pid, r)
	}
	p.model.awaitRequest("user", post.Pointer)
	return post
}

// A busy thread is woken when its turn has ended, and not before.
func TestCodexIsBusy(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startCodexChild()
	p.checkBusy(child, c.say)
}

// What the user is asked stays the user's to answer, in a turn of the user's, behind which a
// wake waits, and in the turn that the wake begins.
func TestCodexApprovalStaysTheUsers(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startCodexChild()
	make := func(name string) step {
		return call("exec_command", map[string]any{"cmd": "touch " + filepath.Join(p.home, name), "sandbox_permissions": "require_escalated", "justification": "to have " + name})
	}
	isMade := func(name string) bool {
		_, err := os.Stat(filepath.Join(p.home, name))
		return err == nil
	}
	p.model.on("make one", make("one"))
	p.model.on("waits, id", make("two"), call("acp_inbox", nil))

	c.say("make one")
	c.awaitScreen("to have one")
	post := newPost()
	posted := goPost(child, post)
	select {
	case r := <-posted:
		t.Fatalf("posted while the user is asked: %+v", r)
	case <-time.After(2 * time.Second):
	}
	if isMade("one") {
		t.Error("somebody has answered for the user")
	}
	c.press("y")
	await.Until(t, "one is made", func() bool { return isMade("one") })
	if r := await.Receive(t, "the post", posted); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}

	c.awaitScreen("to have two")
	time.Sleep(time.Second) // time for whoever would answer
	if isMade("two") || p.model.find("result", inboxText) != nil {
		t.Error("somebody has answered for the user")
	}
	c.press("y")
	await.Until(t, "two is made", func() bool { return isMade("two") })
	p.model.awaitRequest("result", inboxText)
}

// A Codex that was just started is woken, with proof. What is added to its thread for that reaches neither
// the model nor the terminal.
func TestCodexIsFresh(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.openCodexChild()
	child.awaitPresence("", "")
	post := newPost()
	post.Untrusted = "<acp-message>what a peer wrote</acp-message>"
	if r := child.post(post); r.Err != "" || !r.Proven {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("result", post.Untrusted)
	c.awaitScreen("1 message from desk waits")
	for _, role := range []string{"user", "system", "developer"} {
		if p.model.find(role, "acpd has opened") != nil {
			t.Errorf("the model has the item, as %s", role)
		}
	}
	if strings.Contains(c.plain(), "acpd has opened") {
		t.Error("the terminal shows the item")
	}
}

// What the user is asked in a turn that a post has begun ends when nobody waits for it any more, also when
// the terminal is closed. A turn of the user's own goes on.
func TestCodexIsInterrupted(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startCodexChild()
	child.giveUp(true)
	p.wakeCodex(child)
	made := filepath.Join(p.home, "made")
	escalated := call("exec_command", map[string]any{"cmd": "touch " + made, "sandbox_permissions": "require_escalated", "justification": "to have it"})
	p.model.on("make it", escalated)
	c.say("make it")
	c.awaitScreen("to have it")
	child.awaitPresence("", "Codex") // is said when it is decided that the turn goes on
	c.press("y")
	await.Until(t, "it is made", func() bool { _, err := os.Stat(made); return err == nil })
	child.awaitPresence("", "")

	if err := os.Remove(made); err != nil {
		t.Fatal(err)
	}
	child.giveUp(false)
	p.model.on("waits, id", escalated)
	p.wakeCodex(child)
	child.awaitPresence("", "Codex")
	c.Process.Stop()
	child.awaitLook()
	child.awaitPresence("", "Codex")
	child.giveUp(true)
	child.awaitPresence("its terminal is closed", "")
	if _, err := os.Stat(made); err == nil {
		t.Error("it is made")
	}
}

// What the user types into a turn that a post has begun makes the turn the user's: it goes on also if nobody
// waits any more for what the post was about.
func TestCodexUserSpeaksInAWokenTurn(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startCodexChild()
	work := make(chan struct{})
	made := filepath.Join(p.home, "made")
	p.model.on("waits, id", step{tool: "acp_inbox", pause: work})
	p.model.on("and make it", call("exec_command", map[string]any{"cmd": "touch " + made, "sandbox_permissions": "require_escalated", "justification": "to have it"}))
	child.giveUp(true)
	p.wakeCodex(child)
	c.say("and make it")
	close(work)
	c.awaitScreen("to have it")
	child.awaitPresence("", "Codex") // is said when it is decided that the turn goes on
	c.press("y")
	await.Until(t, "it is made", func() bool { _, err := os.Stat(made); return err == nil })
	child.awaitPresence("", "")
}

// Of two terminals in a directory each has its own thread woken. When one is closed, its session says so,
// and the other's goes on.
func TestCodexIsOpenedTwice(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	sockets := live.MakeTempDir(t)
	one, first := p.startCodexChildIn(sockets)
	first.awaitPresence("", "")
	two := p.openCodex()
	second := awaitOtherChild(t, sockets, first)
	second.awaitPresence("", "")
	for child, terminal := range map[*child]*codexTerminal{first: one, second: two} {
		post := p.wakeCodex(child)
		terminal.awaitScreen(post.Message.String())
	}
	one.Process.Stop()
	first.awaitPresence("its terminal is closed", "")
	if r := first.post(newPost()); r.Err != "unattended" {
		t.Errorf("post without a terminal: %+v", r)
	}
	p.wakeCodex(second)
}
