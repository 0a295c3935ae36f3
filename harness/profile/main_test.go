package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/kinds"
)

// This binary is also the helper of runs, and the agent program of the profiles under test.
func TestMain(m *testing.M) {
	run.ServeHelper()
	if len(os.Args) > 2 && os.Args[1] == "fake-agent" {
		fake(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// record is what the program "record" says it was given.
type record struct {
	Args  []string `json:"args"`
	Env   []string `json:"env"`
	Dir   string   `json:"dir"`
	Stdin string   `json:"stdin"`
	Home  []string `json:"home"` // files in its home
}

// get returns a variable of its environment.
func (r *record) get(name string) string {
	for _, v := range r.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// fake is an agent program: the last word of its prompt says what it does.
func fake(mode string, args []string) {
	text, _ := io.ReadAll(os.Stdin)
	prompt := strings.Fields(string(text))
	session := "session-1"
	for _, a := range args {
		if id, ok := strings.CutPrefix(a, "--resume="); ok {
			session = id
			// As the real ones, it knows its conversations by files in its home.
			if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), id)); err != nil {
				fmt.Fprintln(os.Stderr, "no such conversation")
				os.Exit(1)
			}
		}
	}
	say := func(v any) {
		line, _ := json.Marshal(v)
		fmt.Printf("%s\n", line)
	}
	what := mode
	if mode == "prompted" {
		what = prompt[len(prompt)-1]
	}
	say(map[string]any{"type": "begin", "session": session})
	os.WriteFile(filepath.Join(os.Getenv("HOME"), session), nil, 0o600)
	switch what {
	case "record":
		dir, _ := os.Getwd()
		r := record{Args: args, Env: os.Environ(), Dir: dir, Stdin: string(text)}
		filepath.WalkDir(os.Getenv("HOME"), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				content, _ := os.ReadFile(path)
				r.Home = append(r.Home, strings.TrimPrefix(path, os.Getenv("HOME"))+"="+string(content))
			}
			return nil
		})
		out, _ := json.Marshal(&r)
		say(map[string]any{"type": "end", "text": string(out), "cost": 0.25, "tokens": 100})
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		say(map[string]any{"type": "speech", "text": "ready"})
		time.Sleep(time.Hour)
	case "fork":
		for range 3 {
			cmd := exec.Command("sleep", "3600")
			cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
			cmd.Start()
		}
		say(map[string]any{"type": "speech", "text": "ready"})
		time.Sleep(time.Hour)
	case "flood":
		for {
			say(map[string]any{"type": "noise", "text": strings.Repeat("x", 1<<16)})
		}
	case "long":
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	case "break-off": // after an answer of which it does not say that it is whole
		say(map[string]any{"type": "speech", "text": "half an answer"})
	case "half":
		fmt.Print(`{"type": "end", "text": "half an ans`)
	case "mute":
		say(map[string]any{"type": "end", "text": " ", "tokens": 1, "cost": 0})
	case "failed":
		say(map[string]any{"type": "end", "subtype": "success", "failed": true, "text": "the model is away: /secret/path", "cost": 0.5, "tokens": 5})
		os.Exit(1)
	case "failed-quietly":
		say(map[string]any{"type": "end", "subtype": "success", "failed": true, "text": "the model is away", "cost": 0.5, "tokens": 5})
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit":
		say(map[string]any{"type": "end", "text": "an answer all the same"})
		os.Exit(3)
	case "denied":
		say(map[string]any{"type": "end", "text": "I could not", "denials": []any{map[string]any{"tool": "Bash"}, map[string]any{"tool": "Read"}, map[string]any{"tool": "Bash"}}, "tokens": 1, "cost": 0.1})
	case "talk":
		for i := range 3 {
			say(map[string]any{"type": "speech", "text": fmt.Sprint("step ", i)})
		}
		say(map[string]any{"type": "end", "text": "done", "tokens": 1, "cost": 0.1})
	case "large":
		os.WriteFile(filepath.Join(os.Getenv("HOME"), "large"), make([]byte, 3<<20), 0o600)
		say(map[string]any{"type": "end", "text": "done", "tokens": 1, "cost": 0.1})
	case "replace-home": // by a link, as a run under Seatbelt can: prompt: … PATH replace-home
		home := os.Getenv("HOME")
		os.Rename(home, home+".old")
		os.Symlink(prompt[len(prompt)-2], home)
		say(map[string]any{"type": "end", "text": "done", "tokens": 1, "cost": 0.1})
	case "pipe": // puts one where a file of the profile was
		path := filepath.Join(os.Getenv("HOME"), ".config", "settings")
		os.Remove(path)
		syscall.Mkfifo(path, 0o600)
		say(map[string]any{"type": "end", "text": "done", "tokens": 1, "cost": 0.1})
	case "read": // prompt: … PATH read
		content, err := os.ReadFile(prompt[len(prompt)-2])
		say(map[string]any{"type": "end", "text": fmt.Sprintf("%q, %v", content, err), "tokens": 1, "cost": 0.1})
	case "dial": // prompt: … ADDR dial
		c, err := net.Dial("tcp", prompt[len(prompt)-2])
		if err == nil {
			c.Close()
		}
		say(map[string]any{"type": "end", "text": fmt.Sprint("dialled: ", err), "tokens": 1, "cost": 0.1})
	case "rename":
		err := os.Rename(prompt[len(prompt)-3], prompt[len(prompt)-2])
		say(map[string]any{"type": "end", "text": fmt.Sprint("renamed: ", err), "tokens": 1, "cost": 0.1})
	case "write":
		err := os.WriteFile(prompt[len(prompt)-2], []byte("written"), 0o600)
		say(map[string]any{"type": "end", "text": fmt.Sprint("wrote: ", err), "tokens": 1, "cost": 0.1})
	}
}

// newFake returns a profile of the program.
func newFake(t testing.TB) *Profile {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Profile{Name: "fake", Program: exe, Pass: []string{"PASSED", "NOT_THERE"}, Limits: newLimits(1, 1000)}
	p.Limits.Disk = 2 << 20
	p.args = func(v *values) []string {
		args := []string{"fake-agent", "prompted", "--tools=" + string(v.tools)}
		if v.model != "" {
			args = append(args, "--model", v.model)
		}
		if v.session != "" {
			args = append(args, "--resume="+v.session)
		}
		return append(args, p.More...)
	}
	p.env = func(v *values) map[string]string {
		return map[string]string{"FIXED": "in " + v.home, "GORACE": "atexit_sleep_ms=0"}
	}
	p.files = func(v *values) map[string]string {
		return map[string]string{".config/settings": "tools " + string(v.tools)}
	}
	p.read = func(r *reading, event any) {
		switch firstText(event, "type") {
		case "begin":
			r.setSession(event, "session")
		case "speech":
			r.say(event, "text")
		case "end":
			r.done = true
			r.setText(event, "text")
			r.failed = r.failed || firstText(event, "failed") == "true"
			r.setCost(event, "cost")
			r.setTokens(event, "tokens")
			r.addDenials(event, "denials.*.tool")
		}
	}
	return p
}

// budget is one that a test looks into.
type budget struct {
	mu           sync.Mutex
	refuse       error
	failSettling error
	trust        string
	reserved     []client.ReserveParams
	settled      []client.SettleParams
}

func (b *budget) ReserveRun(_ context.Context, p client.ReserveParams) (*client.Reserved, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved = append(b.reserved, p)
	if b.refuse != nil {
		return nil, b.refuse
	}
	return &client.Reserved{ID: fmt.Sprint(len(b.reserved)), Trust: b.trust}, nil
}

func (b *budget) SettleRun(_ context.Context, p client.SettleParams) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = append(b.settled, p)
	return b.failSettling
}

// newRunner returns a runner of the fake program, and its budget.
func newRunner(t testing.TB, c run.Confinement) (*Runner, *budget) {
	t.Helper()
	p := newFake(t)
	program, err := p.FindProgram()
	if err != nil {
		t.Fatal(err)
	}
	conversations, err := OpenConversations(realDir(t), p.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conversations.Close() })
	b := &budget{trust: "1"}
	return &Runner{Profile: p, Program: program, Conversations: conversations, Budget: b, Confinement: c, Tools: ToolsRead, Log: t.Logf}, b
}

func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func makeDir(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// writeFile writes a file, in folders that it makes.
func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	makeDir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// wantCode fails unless err has a code and none of the words.
func wantCode(t testing.TB, err error, code kinds.Code, never ...string) {
	t.Helper()
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != code {
		t.Errorf("err = %v, want %s", err, code)
		return
	}
	if i := slices.IndexFunc(never, func(w string) bool { return strings.Contains(e.Message, w) }); i >= 0 {
		t.Errorf("a peer hears %q: %s", never[i], e.Message)
	}
}
