package sealed

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// counted is a record for tests.
type counted struct {
	Version  int    `yaml:"version"`
	Sequence uint64 `yaml:"sequence"`
	Required uint64 `yaml:"required"`
	Text     string `yaml:"text"`
}

func (c *counted) Numbers() (sequence, required uint64) { return c.Sequence, c.Required }

var format = &Format[*counted]{
	Title: "list", Name: "list", CopyName: "list.copy", Header: "# A list.\n", Version: 1, MaxBytes: 1 << 10, RequiredKey: "required",
	Lost: "nothing counts now", LostRemedy: "begin anew", Check: "list",
	Parse: func(decode func(any) error) (*counted, error) {
		c := new(counted)
		return c, decode(c)
	},
	Rescue: func(_ []*counted, sequence uint64) *counted {
		return &counted{Version: 1, Sequence: sequence, Required: sequence}
	},
}

func encode(t testing.TB, c *counted) []byte {
	t.Helper()
	data, err := format.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Where the second rename fails, the files are as they were; where its undo fails too, Newest says
// what one of them has, so that the next write is above it.
func TestWriteThatFails(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, broke := range []func(n int) bool{func(n int) bool { return n == 2 }, func(n int) bool { return n > 1 }} {
		dir := t.TempDir()
		files, _, err := Open(dir, format)
		if err != nil {
			t.Fatal(err)
		}
		if err := files.Write(&counted{Version: 1, Sequence: 1, Text: "one"}); err != nil {
			t.Fatal(err)
		}
		n := 0
		files.Rename = func(from, to string) error {
			if n++; broke(n) {
				return broken
			}
			return os.Rename(from, to)
		}
		if err := files.Write(&counted{Version: 1, Sequence: 2, Text: "two"}); !errors.Is(err, broken) {
			t.Errorf("write: %v", err)
		}
		again, warning, err := Open(dir, format)
		if err != nil || warning != nil {
			t.Fatal(warning, err)
		}
		if *again.Newest != *files.Newest || (files.Newest.Text == "one") == broke(3) {
			t.Errorf("the files have %+v, and Newest is %+v", again.Newest, files.Newest)
		}
		if left, err := os.ReadDir(dir); len(left) != 2 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// FuzzChooseNewest: whatever two files hold, what counts is what a sound one says, and it has
// all that a file requires; or nothing counts, and that is newer than all that the files show.
func FuzzChooseNewest(f *testing.F) {
	one, two := encode(f, &counted{1, 1, 1, "one"}), encode(f, &counted{1, 2, 2, "two"})
	for _, pair := range [][2][]byte{{one, two}, {two, one}, {one, two[:len(two)-9]}, {nil, two}, {two[:len(two)/2], one}} {
		f.Add(pair[0], pair[1], uint8(0))
		f.Add(pair[0], pair[1], uint8(3))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, seals uint8) {
		var files [2]file[*counted]
		for i, data := range [][]byte{a, b} {
			if seals>>i&1 == 1 {
				text, _, _ := bytes.Cut(data, []byte(sealPrefix))
				data = AppendChecksum(bytes.Clone(text)) // so that what is inside is read
			}
			if err := files[i].examine(format, data, nil); err != nil {
				return // of a newer version
			}
		}
		best, lost := chooseNewest(&files, format)
		if lost && (best.Text != "" || best.Sequence <= max(files[0].sequence, files[1].sequence)) {
			t.Errorf("no file is believed, and %+v counts", best)
		}
		if !lost && best != files[0].state && best != files[1].state {
			t.Errorf("%+v counts, and no file says so", best)
		}
		for _, file := range files {
			if best.Required < file.required || file.sound && best.Required == file.required && best.Sequence < file.sequence {
				t.Errorf("%+v counts, and a file shows %d, %d", best, file.sequence, file.required)
			}
		}
		if _, err := format.Decode(encode(t, best)); err != nil {
			t.Errorf("written and read: %v", err)
		}
	})
}

// TestInspectSaysWhatOpenWould finds what counts of files that are sound, damaged, old or missing,
// and leaves them as they are.
func TestInspectSaysWhatOpenWould(t *testing.T) {
	one, two := encode(t, &counted{1, 1, 1, "one"}), encode(t, &counted{1, 2, 2, "two"})
	torn := two[:len(two)-9]
	for _, c := range []struct {
		main, second []byte
		want         Condition
	}{
		{nil, nil, Sound}, {two, two, Sound}, {one, two, Sound}, {two, nil, Sound}, {nil, two, CopyCounts}, {torn, two, CopyCounts},
		{two, torn, CopyDamaged}, {torn, torn, Lost}, {torn, one, Lost}, {one, torn, Lost},
	} {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"list": c.main, "list.copy": c.second} {
			if data == nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		found, warning, err := Inspect(dir, format)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"list": c.main, "list.copy": c.second} {
			if now, _ := os.ReadFile(filepath.Join(dir, name)); !bytes.Equal(now, data) {
				t.Errorf("%+v: %s has changed", c, name)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(left) > 1 {
			t.Errorf("%+v: left %q", c, left)
		}
		opened, told, err := Open(dir, format)
		if err != nil {
			t.Fatal(err)
		}
		got := Sound
		if warning != nil {
			got = warning.Condition
		}
		if got != c.want || *found != *opened.Newest || (warning == nil) != (told == nil) {
			t.Errorf("%q and %q: %d, %+v; opened: %+v, %v", c.main, c.second, got, found, opened.Newest, told)
		}
	}
}
