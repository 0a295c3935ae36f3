package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli"
)

func TestMain(m *testing.M) {
	cli.ServeHelper()
	testscript.Main(tests{m}, map[string]func(){"acpctl": main})
}

// tests are the tests of this package, which share acpd.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer live.RemovePrograms()
	return m.M.Run()
}

// TestScripts runs acpctl as it is typed, against the real acpd. Each script has
// four short state directories, $A to $D: a socket's path cannot be long.
func TestScripts(t *testing.T) {
	// Commands inherit that a signal is ignored, as by nohup, but not that it is caught.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	bin := t.TempDir() // of acpd alone: acpctl is this program
	if err := os.Symlink(live.ProgramPath(t, "acpd"), filepath.Join(bin, "acpd")); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home, err := os.MkdirTemp("/tmp", "acp")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(home) })
			for _, name := range []string{"A", "B", "C", "D", "E"} {
				env.Setenv(name, filepath.Join(home, name))
			}
			// With -race every process would sleep for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
			env.Setenv("HOME", filepath.Join(home, "user"))
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"signals": signals,
			"until":   until,
			"put":     put,
		},
	})
}

// exits CODE CMD ARGS… runs a command that must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(err); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d (%v), want %s", got, err, args[0])
	}
}

func exitCode(err error) int {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	} else if err != nil {
		return -1
	}
	return 0
}

// until PATTERN CMD ARGS… repeats a command until its output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN CMD ARGS…")
	}
	pattern := regexp.MustCompile(args[0])
	poll(ts, fmt.Sprintf("%s to print %s", args[1], args[0]), func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return err == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
}

func poll(ts *testscript.TestScript, what string, done func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(await.Patience); !done(); <-tick.C {
		if time.Now().After(end) {
			ts.Fatalf("waited %s for %s", await.Patience, what)
		}
	}
}

// put VARIABLE takes the output of the last command into the environment.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: put VARIABLE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// signals SIGNAL CODE FILE CMD ARGS… runs a command, sends it a signal when FILE
// is there, or its output if FILE is stdout, and wants that exit code.
func signals(ts *testscript.TestScript, neg bool, args []string) {
	signal := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}
	if neg || len(args) < 4 || signal[args[0]] == nil {
		ts.Fatalf("usage: signals INT|TERM|HUP CODE FILE CMD ARGS…")
	}
	cmd := exec.Command("env", args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := os.Create(ts.MkAbs("signalled"))
	ts.Check(err)
	defer out.Close()
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ready := ts.MkAbs(args[2])
	if args[2] == "stdout" {
		ready = out.Name()
	}
	poll(ts, args[2], func() bool {
		info, err := os.Stat(ready)
		return err == nil && info.Size() > 0
	})
	ts.Check(cmd.Process.Signal(signal[args[0]]))
	select {
	case err = <-ended:
	case <-time.After(await.Patience):
		cmd.Process.Kill()
		<-ended
		ts.Fatalf("%s did not end it", args[0])
	}
	fmt.Fprint(ts.Stdout(), ts.ReadFile("signalled"))
	fmt.Fprint(ts.Stderr(), stderr.String())
	if got := exitCode(err); strconv.Itoa(got) != args[1] {
		ts.Fatalf("exit code %d, want %s; %s", got, args[1], stderr.String())
	}
}
