package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/await"
)

// The program gets its arguments, its environment and the prompt, and nothing else.
func TestWhatTheProgramGets(t *testing.T) {
	t.Setenv("ACPD_TEST_SECRET", "not for the run")
	each(t, func(t *testing.T, c Confinement) {
		s, mark := spec(t, c, "record", "--flag", "a b", "")
		var out bytes.Buffer
		s.Stdout, s.Stdin = &out, bytes.Repeat([]byte("prompt\n"), 1<<16) // more than a pipe holds
		exit, err := Run(t.Context(), s)
		if err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
		var got seen
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v: %.200s", err, out.Bytes())
		}
		env := slices.DeleteFunc(got.Env, func(v string) bool { return strings.HasPrefix(v, "PWD=") }) // bwrap sets it
		if !slices.Equal(got.Argv, []string{"--flag", "a b", ""}) || !slices.Equal(env, []string{mark, quickEnd}) || got.Dir != s.Dir || got.Stdin != string(s.Stdin) {
			t.Errorf("argv %q, env %q, dir %s, %d bytes of stdin", got.Argv, got.Env, got.Dir, len(got.Stdin))
		}
		await.Until(t, "nothing left", func() bool { return len(leftOf(t, mark)) == 0 })
	})
}

func TestExitCodes(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		s, _ := spec(t, c, "exit", "3")
		if exit, err := Run(t.Context(), s); err != nil || exit.Code != 3 || strings.TrimSpace(exit.Stderr) != "the last words" {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

// A program that does not read its prompt does not hold up the run.
func TestAPromptThatIsNotRead(t *testing.T) {
	s, _ := spec(t, None, "exit", "0")
	s.Stdin = make([]byte, 4<<20)
	if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestWhatCannotBegin(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		s, _ := spec(t, c)
		s.Argv = []string{"/nowhere/program"}
		exit, err := Run(t.Context(), s)
		if c != Bubblewrap && (err == nil || !strings.Contains(err.Error(), "/nowhere/program")) || c == Bubblewrap && (exit.Code == 0 || !strings.Contains(exit.Stderr, "/nowhere/program")) {
			t.Errorf("%+v, %v", exit, err)
		}
		s.Argv = []string{"program"}
		if _, err := Run(t.Context(), s); err == nil {
			t.Error("a program without a path was run")
		}
	})
}

// When Run returns, nothing of the run is there any more: whatever it ignores, wherever its
// processes have gone, and whether it has ended by itself or was ended.
// holds: security.md#headless-runs
func TestNothingIsLeft(t *testing.T) {
	for _, what := range [][]string{{"hang"}, {"stubborn"}, {"fork", "stay"}, {"multiply"}} {
		t.Run(what[0]+" ended", func(t *testing.T) {
			each(t, func(t *testing.T, c Confinement) {
				s, mark := spec(t, c, what...)
				s.Grace = 100 * time.Millisecond
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				why := errors.New("enough")
				s.Stdout = writerFunc(func(p []byte) (int, error) {
					cancel(why)
					return len(p), nil
				})
				if _, err := Run(ctx, s); !errors.Is(err, why) {
					t.Errorf("err = %v", err)
				}
				if left := leftOf(t, mark); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
	t.Run("ended by itself", func(t *testing.T) {
		each(t, func(t *testing.T, c Confinement) {
			s, mark := spec(t, c, "fork", "go")
			if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 {
				t.Errorf("%+v, %v", exit, err)
			}
			if left := leftOf(t, mark); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	})
}

// TERM comes first, and a program that obeys needs no KILL.
func TestTermFirst(t *testing.T) {
	s, _ := spec(t, None, "hang")
	s.Grace = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	s.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if exit, err := Run(ctx, s); !errors.Is(err, context.Canceled) || exit.Code != 128+15 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// holds: security.md#headless-runs
func TestOutputIsBounded(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		s, mark := spec(t, c, "flood")
		s.MaxOutput, s.Grace = 1<<20, 100*time.Millisecond
		var out bytes.Buffer
		s.Stdout = &out
		if _, err := Run(t.Context(), s); !errors.Is(err, ErrOutput) || out.Len() > 1<<20 {
			t.Errorf("%v, %d bytes", err, out.Len())
		}
		if left := leftOf(t, mark); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
	s, _ := spec(t, None, "shout")
	if exit, err := Run(t.Context(), s); err != nil || len(exit.Stderr) > lastBytes || !strings.HasSuffix(exit.Stderr, "the end\n") {
		t.Errorf("%v, %d bytes of stderr", err, len(exit.Stderr))
	}
	s, _ = spec(t, None, "hang")
	s.Stdout = writerFunc(func([]byte) (int, error) { return 0, os.ErrInvalid })
	if _, err := Run(t.Context(), s); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("an error of the reader: %v", err)
	}
}

// Where a run can kill the helper, Run says so and does not wait for what is left.
// holds: security.md#headless-runs
func TestTheHelperDies(t *testing.T) {
	s, mark := spec(t, None, "mutiny")
	var out bytes.Buffer
	s.Stdout, s.Stdin = &out, bytes.Repeat([]byte("prompt\n"), 1<<16) // more than a pipe holds
	ended := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), s)
		ended <- err
	}()
	if err := await.Receive(t, "the end", ended); err == nil || !strings.Contains(err.Error(), "without a word") {
		t.Errorf("err = %v", err)
	}
	if runtime.GOOS == "linux" { // where the kernel ends the program with the helper
		await.Until(t, "the program's end", func() bool { return len(leftOf(t, mark)) == 0 })
	}
	if pid, err := strconv.Atoi(out.String()); err == nil {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// A slow reader of the output gets what lay in the pipe when the run ended, however late it comes.
func TestASlowReaderLosesNothing(t *testing.T) {
	s, _ := spec(t, None, "print")
	got := 0
	s.Stdout = writerFunc(func(p []byte) (int, error) {
		if got == 0 {
			time.Sleep(leftTime + 200*time.Millisecond) // what makes it slow
		}
		got += len(p)
		return len(p), nil
	})
	if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 || got != 1<<16 {
		t.Errorf("%+v, %v, %d bytes", exit, err, got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A run is in a session of its own, so that no terminal of the caller ends it or is read by it.
func TestTheSessionOfARun(t *testing.T) {
	s, _ := spec(t, None, "session")
	var out bytes.Buffer
	s.Stdout = &out
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := strconv.Atoi(out.String()); err != nil || id == own || id == 0 {
		t.Errorf("session %q, that of the caller is %d", out.String(), own)
	}
}
