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

func TestReadRegularFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(at("file"), []byte("1234"), 0o644), os.Symlink("file", at("link")), os.Symlink("none", at("broken")), syscall.Mkfifo(at("pipe"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "link"} {
		if text, err := ReadRegularFile(at(name), 4); string(text) != "1234" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if text, err := ReadRegularFile(at(name), 3); text != nil || err == nil || !strings.Contains(err.Error(), "over 3 bytes") {
			t.Errorf("%s, which is too long: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"pipe", "."} {
		if text, err := ReadRegularFile(at(name), 4); text != nil || err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"none", "broken"} {
		if _, err := ReadRegularFile(at(name), 4); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
