package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/kinds"
)

// Under each confinement that is here, the program reads its folder, and no canary: in the
// home, above the folder, behind a symbolic link, in another conversation.
// holds: security.md#headless-runs
func TestConfinedRuns(t *testing.T) {
	user := realDir(t)
	t.Setenv("HOME", user)
	project := filepath.Join(user, "project")
	makeDir(t, project)
	for path, text := range map[string]string{"canary": "canary", "project/file": "own"} {
		writeFile(t, filepath.Join(user, path), text, 0o600)
	}
	link(t, filepath.Join(user, "canary"), filepath.Join(project, "link"))
	tested := 0
	for _, c := range []run.Confinement{run.Bubblewrap, run.Landlock, run.Seatbelt} {
		if err := run.CheckConfinement(t.Context(), c); err != nil {
			t.Logf("not tested: %v", err)
			continue
		}
		tested++
		t.Run(string(c), func(t *testing.T) {
			r, _ := newRunner(t, c)
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
	r, _ := newRunner(t, run.None)
	r.Tools = ToolsWork
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	if err != nil || !strings.Contains(a.Text, `"--tools=none"`) {
		t.Errorf("%+v, %v", a, err)
	}
	r.Confinement = run.Outside
	a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	if err != nil || !strings.Contains(a.Text, `"--tools=work"`) {
		t.Errorf("%+v, %v", a, err)
	}
}

// What a profile shows a run is there, and its answer counts also if the daemon cannot be told what
// it has cost.
func TestMoreToRead(t *testing.T) {
	file := filepath.Join(realDir(t), "more")
	writeFile(t, file, "more", 0o600)
	confinement, _ := run.Detect(t.Context())
	r, b := newRunner(t, confinement)
	r.Profile.Read = []string{file, "/nowhere/at/all"}
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

// A command of the owner's is confined as a program is. What it prints is the answer, its home is its own
// in a conversation, and a run of it is counted.
func TestACommandOfTheOwners(t *testing.T) {
	script := filepath.Join(realDir(t), "answer")
	writeFile(t, script, "#!/bin/sh\ncat; echo \"$1, $PASSED$SECRET, $(cat ~/seen 2>&1 | tail -c 5)\"; echo seen >~/seen; test -z \"$FAIL\"\n", 0o700)
	t.Setenv("PASSED", "passed")
	t.Setenv("SECRET", "secret")
	confinement, _ := run.Detect(t.Context())
	r, b := newRunner(t, confinement)
	r.Profile = NewCommand("fake", []string{script, "an argument"})
	r.Profile.Pass = []string{"PASSED"}
	program, err := r.Profile.FindProgram()
	if err != nil {
		t.Fatal(err)
	}
	r.Program = program
	for _, want := range []string{"hello\nan argument, passed, tory\n", "hello\nan argument, passed, seen\n"} {
		if a, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "hello\n"}); err != nil || a.Text != want {
			t.Errorf("%+v, %v, want %q", a, err, want)
		}
	}
	t.Setenv("FAIL", "x")
	r.Profile.Pass = append(r.Profile.Pass, "FAIL")
	_, err = r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "hello"})
	wantCode(t, err, kinds.Internal, "secret")
	if len(b.settled) != 3 || b.settled[2] != (client.SettleParams{ID: "3"}) || b.reserved[2].MaxTokens != 0 || b.reserved[2].Profile != "fake" {
		t.Errorf("reserved %+v, settled %+v", b.reserved, b.settled)
	}
}

// The files of a message are there for its run, which cannot change them, and gone after it.
// holds: security.md#headless-runs
func TestFilesOfAMessage(t *testing.T) {
	confinement, _ := run.Detect(t.Context())
	r, _ := newRunner(t, confinement)
	r.Tools = ToolsWork
	var path string
	q := Request{Peer: desk, Thread: "t", Prompt: "read", Files: func(_ context.Context, folder string) (string, error) {
		path = filepath.Join(folder, "1.log")
		return path + " ", os.WriteFile(path, []byte("the log"), 0o600)
	}}
	if a, err := r.Run(t.Context(), q); err != nil || a.Text != `"the log", <nil>` {
		t.Errorf("%+v, %v", a, err)
	}
	q.Prompt = "write"
	if a, err := r.Run(t.Context(), q); err != nil || confinement.Confines() && a.Text == "wrote: <nil>" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("they are left: %v", err)
	}
	q.Files = func(context.Context, string) (string, error) {
		return "", errors.New("the daemon is away: /home/somebody")
	}
	_, err := r.Run(t.Context(), q)
	wantCode(t, err, kinds.Internal, "home")
	if !strings.Contains(err.Error(), "the files of this message could not be read") {
		t.Error(err)
	}
}
