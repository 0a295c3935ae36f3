package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A log file stays within its bound, beside one of before that does too; the last lines are
// there, in order, whatever it held when it was opened.
func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acpd.log")
	for round := range 3 {
		l, err := openLogFile(path, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			fmt.Fprintf(l, "round %d line %03d\n", round, i)
		}
		l.file.Close()
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path + ".old")
		if err != nil {
			t.Fatal(err)
		}
		if len(now) > 1000 || len(before) > 1000 || len(before) < 900 {
			t.Errorf("round %d: %d and %d bytes", round, len(now), len(before))
		}
		var last strings.Builder
		for i := range 100 {
			fmt.Fprintf(&last, "round %d line %03d\n", round, i)
		}
		if both := string(before) + string(now); !strings.HasSuffix(last.String(), both[len(both)-950:]) {
			t.Errorf("round %d: the last lines are\n%s", round, both)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Why acpd does not start is in the log file too.
func TestLogFileHasTheError(t *testing.T) {
	home := stateDir(t)
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "acpd.log")
	if code := runCommandLine([]string{"--home", home, "--log-file", path}, io.Discard, io.Discard); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if log, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(log), "acpd: ") || !strings.Contains(string(log), `did you mean "listen"`) {
		t.Errorf("the log has %q, %v", log, err)
	}
	if code := runCommandLine([]string{"--home", home, "--log-file", "/nowhere/acpd.log"}, io.Discard, io.Discard); code != exitFailure {
		t.Errorf("a log file that cannot be: exit code %d", code)
	}
}

// The bound holds when somebody removes the file, and when no new one can be made for a while.
func TestLogFileIsBoundedWithoutItsName(t *testing.T) {
	for name, hinder := range map[string]func(t *testing.T, path string) (allow func()){
		"removed": func(t *testing.T, path string) func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return func() {}
		},
		"a folder in its place": func(t *testing.T, path string) func() {
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
			return func() { os.RemoveAll(path) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "acpd.log")
			l, err := openLogFile(path, 1000)
			if err != nil {
				t.Fatal(err)
			}
			defer l.file.Close()
			write := func(n int) {
				for i := range n {
					if _, err := fmt.Fprintf(l, "line %03d\n", i); err != nil {
						t.Fatal(err)
					}
					info, err := l.file.Stat()
					if err != nil || info.Size() > 1000 {
						t.Fatalf("line %d: %d bytes, %v", i, info.Size(), err)
					}
				}
			}
			write(50)
			allow := hinder(t, path)
			write(500)
			allow()
			write(500)
			if text, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(text), "line 499\n") {
				t.Errorf("%v:\n%s", err, text)
			}
		})
	}
}

// The log follows its name: what was moved away keeps the lines of before, and the next ones are in
// a new file, or in the one that somebody has put there.
func TestLogFileFollowsItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acpd.log")
	l, err := openLogFile(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { l.file.Close() }()
	want := func(where, file, text string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s: %s has %q, %v, want %q", where, file, got, err, text)
		}
	}
	fmt.Fprintln(l, "first")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(l, "second")
	want("moved", path+".1", "first\n")
	want("moved", path, "second\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(l, "third")
	want("removed", path, "third\n")
	if err := os.WriteFile(path+".new", []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(l, "fourth")
	want("replaced", path, "other\nfourth\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(l, "fifth")
	want("emptied", path, "fifth\n")
}

// What is no regular file cannot be bounded, and would be renamed: a device, or a FIFO that nobody
// reads.
func TestLogFileIsRegular(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{os.DevNull, fifo} {
		if l, err := openLogFile(path, 1000); err == nil {
			l.file.Close()
			t.Errorf("%s was opened", path)
		}
	}
}
