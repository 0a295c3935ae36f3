package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var desk, laptop = identity.ID{1}, identity.ID{2}

// What a run is given: the prompt on standard input alone, arguments and environment of the
// profile, a home of its own.
func TestWhatARunIsGiven(t *testing.T) {
	t.Setenv("PASSED", "on")
	t.Setenv("SECRET", "kept")
	r, b := newRunner(t, run.None, "")
	r.Model = "large"
	prompt := "--resume=x $(id) {home} \x1b[31m\n\"quoted\" record"
	id := wire.NewMessageID()
	a, err := r.Run(t.Context(), Request{Peer: desk, ID: id, Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal([]byte(a.Text), &got); err != nil {
		t.Fatal(err)
	}
	if want := []string{"--turns=30", "--no-tools", "--model", "large"}; !slices.Equal(got.Args, want) || got.Stdin != prompt {
		t.Errorf("args %q, stdin %q", got.Args, got.Stdin)
	}
	home := got.get("HOME")
	folder := filepath.Dir(home)
	want := []string{"FIXED=in " + home, "GORACE=atexit_sleep_ms=0", "HOME=" + home, "LANG=C.UTF-8", "PASSED=on", "PATH=" + run.SystemPath, "TERM=dumb", "TMPDIR=" + folder + "/tmp"}
	if !slices.Equal(got.Env, want) || got.Dir != folder+"/dir" || !slices.Contains(got.Home, "/.config/settings=turns 30") {
		t.Errorf("env %q, dir %s, home %q", got.Env, got.Dir, got.Home)
	}
	if len(b.settled) != 1 || b.settled[0] != (client.SettleParams{ID: "1", Cost: 0.25, Tokens: 100}) || len(b.reserved) != 1 ||
		b.reserved[0] != (client.ReserveParams{Profile: "fake", Peer: desk, Ref: id, MaxCost: 1, MaxTokens: 1000}) {
		t.Errorf("reserved %+v, settled %+v", b.reserved, b.settled)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("something is left of a run without a thread")
	}
}

// Each way in which a program can fail ends as an error that says no more than a peer may
// hear, and what it may have cost counts if it did not say.
func TestProgramsThatFail(t *testing.T) {
	for _, c := range []struct {
		what    string
		code    kinds.Code
		settled bool
	}{
		{"flood", kinds.Internal, false}, {"long", kinds.Internal, false}, {"half", kinds.Internal, false}, {"mute", kinds.Internal, true},
		{"failed", kinds.Internal, true}, {"failed-quietly", kinds.Internal, true}, {"killed", kinds.Internal, false}, {"exit", kinds.Internal, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, b := newRunner(t, run.None, "")
			r.Profile.Limits.Output = 8 << 20
			_, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: c.what})
			wantCode(t, err, c.code, "secret", r.Conversations.root, "away")
			if settled := len(b.settled) == 1; settled != c.settled {
				t.Errorf("settled: %+v", b.settled)
			}
			r.Tell = true
			if _, err := r.Run(t.Context(), Request{Peer: desk, Prompt: c.what}); c.what == "failed" && !strings.Contains(err.Error(), "away") {
				t.Errorf("with --stderr=last: %v", err)
			}
		})
	}
}

// A deadline, a cancelled delegation and the end of serving end every process of a run.
func TestRunsThatAreEnded(t *testing.T) {
	for _, what := range []string{"stubborn", "fork"} {
		t.Run(what, func(t *testing.T) {
			r, b := newRunner(t, run.None, "")
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("called off")
			_, err := r.Run(ctx, Request{Peer: desk, Thread: "t", Prompt: what, Progress: func(string) { cancel(why) }})
			if !errors.Is(err, why) || len(b.settled) != 0 {
				t.Errorf("%v, settled %+v", err, b.settled)
			}
			r.Profile.Limits.Timeout = 300 * time.Millisecond
			_, err = r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: what})
			wantCode(t, err, kinds.Timeout)
			left := r.Conversations.listPeer(desk.String())
			if len(left) != 0 {
				t.Errorf("conversations are left: %+v", left)
			}
		})
	}
}

func TestWhatIsToldBesideTheText(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "denied"})
	if err != nil || a.Text != "I could not" || string(a.Data) != `{"permission_denials":["Bash","Read"]}` {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "long-denial"}); err != nil || a.Text != "I could not" {
		t.Errorf("%+v, %v", a, err)
	}
	r.Profile.Schema = `{"type":"object"}`
	a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "denied"})
	if err != nil || string(a.Data) != `{"schema":"unmet","permission_denials":["Bash","Read"]}` {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"}) // its text is an object
	if err != nil || !strings.HasPrefix(string(a.Data), `{"structured":{"args":`) {
		t.Errorf("%+v, %v", a, err)
	}
	var said []string
	if _, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "talk", Progress: func(s string) { said = append(said, s) }}); err != nil || !slices.Equal(said, []string{"step 0", "step 1", "step 2"}) {
		t.Errorf("said %q, %v", said, err)
	}
}

func TestNoBudget(t *testing.T) {
	r, b := newRunner(t, run.None, "")
	b.refuse = kinds.Errorf(kinds.Overloaded, "%s: 50 runs a day: raise spending in config.yaml", client.MethodBudgetReserve).WithReason(kinds.ReasonBudgetUsed)
	_, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Overloaded, "config.yaml", "50")
	b.refuse = kinds.Errorf(kinds.Overloaded, "%s: the disk of /home/somebody is full", client.MethodBudgetReserve)
	_, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Overloaded, "home", "today", "used up") // that would not be true
	b.refuse = errors.New("the daemon is away: /home/somebody")
	_, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Internal, "home")
	if len(b.settled) != 0 {
		t.Errorf("%+v", b.settled)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	r, b := newRunner(t, run.None, "")
	r.Program.Path = "/nowhere/agent"
	_, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Internal, "nowhere")
	if len(b.settled) != 1 || b.settled[0] != (client.SettleParams{ID: "1", NotBegun: true}) {
		t.Errorf("a run that did not begin costs: %+v", b.settled)
	}
}

// resumed runs the program for a request and returns the id of the conversation that it resumed, ""
// if it began one.
func resumed(t *testing.T, r *Runner, q Request) string {
	t.Helper()
	q.Prompt = "record"
	a, err := r.Run(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal([]byte(a.Text), &got); err != nil {
		t.Fatal(err)
	}
	for _, arg := range got.Args {
		if id, ok := strings.CutPrefix(arg, "--resume="); ok {
			return id + " in " + got.get("HOME")
		}
	}
	return ""
}

// A conversation goes on for the same peer, agent and thread, and for nobody else.
func TestConversations(t *testing.T) {
	r, b := newRunner(t, run.None, "")
	q := Request{Peer: desk, Agent: "planner", Thread: "parser"}
	if id := resumed(t, r, q); id != "" {
		t.Errorf("the first one resumed %s", id)
	}
	first := resumed(t, r, q)
	if first == "" || resumed(t, r, q) != first {
		t.Error("it did not go on")
	}
	for _, other := range []Request{
		{Peer: laptop, Agent: "planner", Thread: "parser"}, {Peer: desk, Agent: "reviewer", Thread: "parser"}, {Peer: desk, Thread: "parser"},
		{Peer: desk, Agent: "planner", Thread: "parser "}, {Peer: desk, Agent: "planner"}, {Peer: desk, Agent: "plannerparser"}, {Peer: desk, Agent: "planner", Thread: "../" + desk.String()},
	} {
		if id := resumed(t, r, other); id != "" {
			t.Errorf("%+v resumed %s", other, id)
		}
	}
	if id := resumed(t, r, Request{Peer: desk, Agent: "planner"}); id != "" {
		t.Errorf("without a thread it resumed %s", id)
	}
	if resumed(t, r, Request{Peer: laptop, Agent: "planner", Thread: "parser"}) == first {
		t.Error("two peers met")
	}
	b.trust = "2" // desk was untrusted, and trusted again
	if id := resumed(t, r, q); id != "" {
		t.Errorf("after an untrust it resumed %s", id)
	}
	if len(r.Conversations.listPeer(desk.String())) != 1 {
		t.Error("other conversations of the peer outlive the untrust")
	}
}

// A program that has forgotten a conversation begins a new one.
func TestAConversationIsGone(t *testing.T) {
	r, b := newRunner(t, run.None, "")
	q := Request{Peer: desk, Thread: "parser"}
	resumed(t, r, q)
	home := filepath.Join(r.Conversations.listPeer(desk.String())[0].folder, "home", "session-1")
	if err := os.Remove(home); err != nil {
		t.Fatal(err)
	}
	if id := resumed(t, r, q); id != "" {
		t.Errorf("resumed %s", id)
	}
	if resumed(t, r, q) == "" || len(b.reserved) != 3 || len(b.settled) != 3 {
		t.Errorf("reserved %d, settled %d", len(b.reserved), len(b.settled))
	}
}

// Of a program that counts for the whole conversation, each run costs the difference.
func TestCumulativeTokens(t *testing.T) {
	r, b := newRunner(t, run.None, "")
	r.Profile.Output.Cumulative, r.Profile.Limits.Cost = true, 0
	q := Request{Peer: desk, Thread: "parser"}
	resumed(t, r, q)
	resumed(t, r, q)
	if len(b.settled) != 2 || b.settled[0].Tokens != 100 || b.settled[1].Tokens != 0 {
		t.Errorf("%+v", b.settled)
	}
}

// A program whose count has become less counts anew; one that says nothing changes nothing.
func TestTokensOfOneRun(t *testing.T) {
	for _, test := range []struct {
		cumulative, said   bool
		before, read       uint64
		want, wantToBeKept uint64
	}{
		{false, true, 5, 100, 100, 5},
		{true, true, 60, 100, 40, 100},
		{true, true, 100, 60, 60, 60},
		{true, false, 100, 0, 0, 100},
	} {
		r := &Runner{Profile: &Profile{Output: Output{Cumulative: test.cumulative}}}
		c := &conversation{conversationState: conversationState{Tokens: test.before}}
		got := r.takeTokens(c, &reading{tokens: test.read, hasTokens: test.said})
		if got != test.want || c.Tokens != test.wantToBeKept {
			t.Errorf("%+v: %d, %d are kept", test, got, c.Tokens)
		}
	}
}

func TestAConversationThatIsTooLarge(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	if _, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "large"}); err != nil {
		t.Fatal(err)
	}
	if left := r.Conversations.listPeer(desk.String()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// What a run hides from measuring, by depth, counts as too large.
func TestATreeThatHidesFiles(t *testing.T) {
	root := realDir(t)
	write := func(dir string, size int64) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "a"), 1000)
	write(filepath.Join(root, "b"), 2000)
	if err := os.Symlink("/", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if got := measureTree(root, 1<<20); got != 3000+5*entrySize {
		t.Errorf("%d bytes", got)
	}
	if got := measureTree(root, 100); got <= 100 {
		t.Errorf("%d bytes, over 100", got)
	}
	write(filepath.Join(root, strings.Repeat("d/", maxDepth-1)), 1)
	if got := measureTree(root, 1<<20); got > 1<<20 {
		t.Errorf("%d folders in each other count as too large", maxDepth)
	}
	deep := filepath.Join(root, strings.Repeat("d/", maxDepth))
	write(deep, 1)
	if got := measureTree(root, 1<<20); got <= 1<<20 {
		t.Errorf("%d bytes, with a folder that is too deep", got)
	}
	os.RemoveAll(deep)
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(root, "a"), 0o700) // so that it can be removed
	if got := measureTree(root, 1<<20); got <= 1<<20 && os.Geteuid() != 0 {
		t.Errorf("%d bytes, with a folder that may not be read", got)
	}
	if got := measureTree(filepath.Join(root, "missing"), 1<<20); got <= 1<<20 {
		t.Errorf("%d bytes of nothing", got)
	}
}

// What a run leaves in its home neither stops the next one nor leads it elsewhere.
func TestHomesThatARunHasChanged(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	elsewhere := realDir(t)
	q := Request{Peer: desk, Thread: "t", Prompt: "pipe"}
	for _, q.Prompt = range []string{"pipe", "pipe", "record", elsewhere + " replace-home", "record"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := r.Run(ctx, q)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", q.Prompt, err)
		}
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 0 {
		t.Errorf("a run without confinement was led to another folder: %v, %v", entries, err)
	}
}

// Under each confinement that is here, the program reads its folder, and no canary: in the
// home, above the folder, behind a symbolic link, in another conversation.
func TestConfinedRuns(t *testing.T) {
	user := realDir(t)
	t.Setenv("HOME", user)
	project := filepath.Join(user, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"canary": "canary", "project/file": "own"} {
		if err := os.WriteFile(filepath.Join(user, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(user, "canary"), filepath.Join(project, "link")); err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, c := range []run.Confinement{run.Bubblewrap, run.Landlock, run.Seatbelt} {
		if err := run.CheckConfinement(t.Context(), c); err != nil {
			t.Logf("not tested: %v", err)
			continue
		}
		tested++
		t.Run(string(c), func(t *testing.T) {
			r, _ := newRunner(t, c, "")
			var err error
			if r.Dir, err = CheckDir("~/project", filepath.Join(user, ".acp")); err != nil {
				t.Fatal(err)
			}
			resumed(t, r, Request{Peer: laptop, Thread: "t"})
			other := filepath.Join(r.Conversations.listPeer(laptop.String())[0].folder, "home", "session-1")
			read := func(path string) string {
				t.Helper()
				a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: path + " read"})
				if err != nil {
					t.Fatal(err)
				}
				return a.Text
			}
			for _, path := range []string{filepath.Join(user, "canary"), "../canary", "link", other, filepath.Dir(other) + "/../conversation.json", filepath.Join(r.Conversations.root, "lock")} {
				if got := read(path); strings.Contains(got, "canary\"") || strings.HasSuffix(got, "<nil>") {
					t.Errorf("%s: %s", path, got)
				}
			}
			if got := read("file"); got != `"own", <nil>` {
				t.Errorf("its own file: %s", got)
			}
			for _, tools := range []Tools{ToolsNone, ToolsRead, ToolsWork} {
				r.Tools = tools
				a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "new write"})
				if err != nil || (a.Text == "wrote: <nil>") != (tools == ToolsWork) {
					t.Errorf("%s: %+v, %v", tools, a, err)
				}
			}
		})
	}
	if tested == 0 && os.Getenv("CI") != "" {
		t.Error("this machine has no confinement to test")
	}
}

// The program is told that it has no tools where nothing confines, whatever the owner wants.
func TestNoToolsWithoutConfinement(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	r.Tools = ToolsWork
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	if err != nil || !strings.Contains(a.Text, `"--no-tools"`) {
		t.Errorf("%+v, %v", a, err)
	}
	r.Confinement = run.Outside
	a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	if err != nil || !strings.Contains(a.Text, `"--work"`) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestCheckDir(t *testing.T) {
	home := realDir(t)
	t.Setenv("HOME", home)
	state := filepath.Join(home, ".acp")
	for _, dir := range []string{"project", ".acp/agent"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(home, "project", "up")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/", home, filepath.Dir(home), "~/.acp", "~/.acp/agent", "~/missing", "~/project/up", "~/project/up/.acp"} {
		if got, err := CheckDir(dir, state); err == nil {
			t.Errorf("%s: %s", dir, got)
		}
	}
	for _, dir := range []string{"~/project", filepath.Join(home, "project", "up", "project")} {
		if got, err := CheckDir(dir, state); err != nil || got != filepath.Join(home, "project") {
			t.Errorf("%s: %s, %v", dir, got, err)
		}
	}
	if got, err := CheckDir("", state); err != nil || got != "" {
		t.Error(got, err)
	}
}

// A folder that has what the program would obey is refused, also if it has got it since the last
// run, and also if the repository has it in which the folder lies. What lies above that is the
// user's.
func TestCheckFolder(t *testing.T) {
	r, b := newRunner(t, run.None, "forbid: [.agent, agent.json, file/agent]")
	home := realDir(t)
	r.Dir = filepath.Join(home, "repository", "parser", "src")
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "file"), nil, 0o600); err != nil { // which has nothing in it
		t.Fatal(err)
	}
	isRefused := func() bool {
		_, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
		if (err != nil) != (r.Profile.CheckFolder(r.Dir) != nil) {
			t.Errorf("a run: %v", err)
		}
		if err != nil {
			wantCode(t, err, kinds.Internal, home)
		}
		return err != nil
	}
	for _, c := range []struct {
		path      string
		isRefused bool
	}{
		{"agent.json", false}, {"repository/.agent/plugin", false}, {"repository/parser/agent.json", false}, // there is no repository yet
		{"repository/.git", true}, {"repository/parser/.git", true}, {"repository/parser/src/.agent", true},
	} {
		if err := os.MkdirAll(filepath.Join(home, c.path), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := isRefused(); got != c.isRefused {
			t.Errorf("with %s it is refused: %t", c.path, got)
		}
	}
	for _, path := range []string{"repository/parser/src/.agent", "repository/parser/agent.json"} {
		if err := os.Remove(filepath.Join(home, path)); err != nil {
			t.Fatal(err)
		}
	}
	if isRefused() { // by what lies above the repository of parser
		t.Error("it is refused for what is not the repository's")
	}
	if err := os.Symlink("/nowhere", filepath.Join(r.Dir, "agent.json")); err != nil {
		t.Fatal(err)
	}
	if !isRefused() || !b.settled[len(b.settled)-1].NotBegun {
		t.Errorf("a link, or a cost of what did not begin: %+v", b.settled)
	}
	for _, name := range []string{"", ".", "..", "/etc", "a/../b"} {
		if _, err := Parse("p", "p.yaml", []byte("program: sh\nforbid: ["+strconv.Quote(name)+"]\noutput: {format: json, rules: [{done: true, text: x}]}\n")); err == nil {
			t.Errorf("forbid: %q", name)
		}
	}
}

// No profile shows a run what is the daemon's own, by whatever way.
func TestCheckPaths(t *testing.T) {
	home := realDir(t)
	t.Setenv("HOME", home)
	state := filepath.Join(home, ".acp")
	for _, dir := range []string{".acp/agent", "data"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(state, "agent"), filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{"~/data": true, "~/missing": true, "~/.acp": false, "~/.acp/agent": false, "~/link": false, home: false, "/": false} {
		for _, p := range []*Profile{{Read: []string{path}}, {Credentials: []Credential{{File: path}}}} {
			if err := p.CheckPaths(filepath.Join(home, "missing", "runs"), state); (err == nil) != ok {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// What a profile shows a run is there, and its answer counts also if the daemon cannot be told what
// it has cost.
func TestMoreToRead(t *testing.T) {
	file := filepath.Join(realDir(t), "more")
	if err := os.WriteFile(file, []byte("more"), 0o600); err != nil {
		t.Fatal(err)
	}
	confinement, _ := run.Detect(t.Context())
	r, b := newRunner(t, confinement, "read: ["+file+", /nowhere/at/all]\n")
	b.failSettling = errors.New("the daemon is away")
	var logged []string
	r.Log = func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: file + " read"})
	if err != nil || a.Text != `"more", <nil>` {
		t.Errorf("%+v, %v", a, err)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "the daemon is away") {
		t.Errorf("the owner reads %q", logged)
	}
}

func TestCheckPathsOutside(t *testing.T) {
	home := realDir(t)
	t.Setenv("HOME", home)
	for _, dir := range []string{"project/docs", "data"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	project := filepath.Join(home, "project")
	for from, to := range map[string]string{"alias": project, "project/link": filepath.Join(home, "data")} {
		if err := os.Symlink(to, filepath.Join(home, from)); err != nil {
			t.Fatal(err)
		}
	}
	for path, ok := range map[string]bool{"~/data": true, "~/missing": true, "~/project/docs": false, "~/project/missing": false, "~/alias/docs": false, "~/project/link": false, "~/alias/link": false} {
		for _, p := range []*Profile{{Read: []string{path}}, {Credentials: []Credential{{File: path}}}} {
			if err := p.CheckPathsOutside(project); (err == nil) != ok {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// Runs of one conversation take turns, those of others do not wait.
func TestTurns(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	inside := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, Request{Peer: desk, Thread: "t", Prompt: "stubborn", Progress: func(string) { close(inside) }})
		ended <- err
	}()
	<-inside
	if id := resumed(t, r, Request{Peer: desk, Thread: "other"}); id != "" {
		t.Errorf("resumed %s", id)
	}
	short, cancelShort := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, fmt.Errorf("waited"))
	defer cancelShort()
	if _, err := r.Run(short, Request{Peer: desk, Thread: "t", Prompt: "record"}); err == nil || err.Error() != "waited" {
		t.Errorf("a second run of the conversation: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if id := resumed(t, r, Request{Peer: desk, Thread: "t"}); id != "" {
		t.Errorf("resumed %s", id)
	}
}

func TestACancelledRunEndsNoConversation(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	if _, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "record"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	calledOff := errors.New("called off")
	if _, err := r.Run(ctx, Request{Peer: desk, Thread: "t", Prompt: "stubborn", Progress: func(string) { cancel(calledOff) }}); !errors.Is(err, calledOff) {
		t.Fatal(err)
	}
	a, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "record"})
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal([]byte(a.Text), &got); err != nil || !slices.Contains(got.Args, "--resume=session-1") {
		t.Errorf("the next run has %q, %v", got.Args, err)
	}
}

// A run whose output is not complete has failed, although there is a text.
func TestARunThatBreaksOff(t *testing.T) {
	r, _ := newRunner(t, run.None, "")
	for i := range r.Profile.Output.Rules {
		if rule := &r.Profile.Output.Rules[i]; rule.Progress != "" {
			rule.Text = rule.Progress
		}
	}
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "break-off"})
	if err == nil || !strings.Contains(err.Error(), "before its answer was complete") {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "talk"}); err != nil || a.Text != "done" {
		t.Errorf("%+v, %v", a, err)
	}
}
