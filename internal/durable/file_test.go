package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holds checks what a folder holds: names and contents, as "a=1 b=2".
func holds(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		all = append(all, e.Name()+"="+string(text))
	}
	if got := strings.Join(all, " "); got != want {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, create := range map[string]func(name, text string) error{
		"path": func(name, text string) error { return CreateFile(filepath.Join(dir, name), []byte(text), 0o640) },
		"root": func(name, text string) error { return CreateFileIn(root, name, []byte(text), 0o640) },
	} {
		if err := create("a", "1"); err != nil {
			t.Fatal(name, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode()&^0o640 != 0 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if err := create("a", "2"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: over a file: %v", name, err)
		}
		if err := os.Symlink("c", filepath.Join(dir, "b")); err != nil {
			t.Fatal(err)
		}
		if err := create("b", "2"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: through a symbolic link: %v", name, err)
		}
		os.Remove(filepath.Join(dir, "b"))
		if err := create("none/a", "2"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: into a folder that is missing: %v", name, err)
		}
		holds(t, dir, "a=1")
		os.Remove(filepath.Join(dir, "a"))
	}
}

// A file that is open for reading alone stands for a full disk.
func TestFillFails(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAndCloseFile(f, []byte("x")); !errors.Is(err, syscall.EBADF) {
		t.Errorf("fill of a file that cannot be written: %v", err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, temp := filepath.Join(dir, "key"), filepath.Join(dir, "key.new")
	for _, text := range []string{"1", "2"} {
		write(t, temp, "half of what a crash")
		if err := ReplaceFile(path, temp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		holds(t, dir, "key="+text)
	}
	if err := os.Symlink("key", temp); err != nil { // it is replaced, not followed
		t.Fatal(err)
	}
	if err := ReplaceFile(path, temp, []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, "key=3")

	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(folder, temp, []byte("4"), 0o600); err == nil {
		t.Error("a folder is replaced")
	}
	if err := RewriteFile(folder, []byte("4"), 0o600); err == nil {
		t.Error("a folder is rewritten")
	}
	holds(t, dir, "folder= key=3")
}

func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{"rename": RenameIfAbsent, "link": renameByLink} {
		dir := t.TempDir()
		a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
		write(t, a, "1")
		write(t, b, "2")
		if err := rename(a, b); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: over another file: %v", name, err)
		}
		if err := rename(a, c); err != nil {
			t.Error(name, err)
		}
		if err := rename(a, c); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: of a file that is missing: %v", name, err)
		}
		holds(t, dir, "b=2 c=1")
	}
}

func TestSync(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(SyncDir(dir), SyncRoot(root)); err != nil {
		t.Error(err)
	}
	root.Close()
	if SyncDir(filepath.Join(dir, "none")) == nil || SyncRoot(root) == nil {
		t.Error("a folder that is missing is synced")
	}
}
