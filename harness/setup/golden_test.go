package setup

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what setup does into the golden files")

// What a golden file shows otherwise: carriage returns, a byte order mark, and that the last line
// does not end.
var golden = strings.NewReplacer("␍", "\r", "␂", "\ufeff", "␄\n", "")

// fakeCommand is the path of acpctl in golden files. It need not be there.
const fakeCommand = "/opt/acpd/bin/acpctl"

// goldenCase is a golden file: what is said of it, what there is before, and what after.
type goldenCase struct {
	archive *txtar.Archive
	words   map[string]string
	home    string
	options Options
}

// readGolden reads a golden file and makes its files in a home directory.
func readGolden(t *testing.T, path string) *goldenCase {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := &goldenCase{archive: archive, words: make(map[string]string), home: t.TempDir()}
	for line := range strings.Lines(string(archive.Comment)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.Contains(name, " ") {
			g.words[name] = value
		}
	}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "before/"); ok {
			writeFile(t, filepath.Join(g.home, name), golden.Replace(string(f.Data)), 0o640)
		}
	}
	g.options = newOptions(g.home)
	g.options.Socket, g.options.Agent = g.words["socket"], g.words["agent"]
	if g.words["project"] != "" {
		g.options.Project = filepath.Join(g.home, "project")
	}
	return g
}

// newOptions returns options for a home directory, with an environment that is empty.
func newOptions(home string) Options {
	return Options{
		Home: home, State: filepath.Join(home, "state", "setup"), Command: fakeCommand,
		Getenv: func(string) string { return "" },
	}
}

func writeFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// link makes a symbolic link.
func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// wantFiles fails unless snapshot returns of a folder what it returned before.
func wantFiles(t *testing.T, dir, before, what string) {
	t.Helper()
	if after := snapshot(t, dir); after != before {
		t.Errorf("%s:\n%s\nbefore\n%s", what, after, before)
	}
}

// snapshot returns all below a folder, but the state folder: modes, links and contents.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if name == "state" {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "== %s %v\n", name, info.Mode())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q\n", text)
		} else if info.Mode()&fs.ModeSymlink != 0 {
			to, _ := os.Readlink(path)
			b.WriteString(to + "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// setUp accepts the steps of a program's setup and writes them.
func setUp(t *testing.T, program string, o Options, sending bool) (written []Written, diffs string) {
	t.Helper()
	plan, err := NewPlan(program, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Steps {
		step := &plan.Steps[i]
		if (step.Name == StepSending || step.Name == StepFiles) && !sending {
			continue
		}
		diff, note, err := plan.Preview(step)
		if err != nil {
			t.Fatal(err)
		}
		if diff == "" && note != "" && step.Name != StepServer {
			diffs += "note: " + note + "\n"
		}
		if note != "" && diff != "" {
			diffs += "note: " + note + "\n"
		}
		diffs += diff
		if diff != "" || step.Name == StepInstructions {
			plan.Accept(step)
		}
	}
	if written, err = plan.Write(); err != nil {
		t.Fatal(err)
	}
	return written, diffs
}

// undoAll takes it out again.
func undoAll(t *testing.T, program string, o Options) []Written {
	t.Helper()
	undo, err := NewUndo(program, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := undo.Preview(); err != nil {
		t.Fatal(err)
	}
	written, err := undo.Write()
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// Each program's setup writes what its golden files show, does nothing when it is done again,
// and undoing leaves what was there before, byte for byte.
func TestGolden(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	if len(paths) < 14 {
		t.Fatalf("%d golden files", len(paths))
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			g := readGolden(t, path)
			program := g.words["program"]
			before := snapshot(t, g.home)
			_, diffs := setUp(t, program, g.options, g.words["sending"] != "")
			g.compare(t, path, diffs)

			after := snapshot(t, g.home)
			if written, diffs := setUp(t, program, g.options, g.words["sending"] != ""); len(written) > 0 || strings.Contains(diffs, "@@") {
				t.Errorf("done again, it writes %v:\n%s", written, diffs)
			}
			if again := snapshot(t, g.home); again != after {
				t.Errorf("done again, it changes files: %s", again)
			}
			undoAll(t, program, g.options)
			if undone := snapshot(t, g.home); undone != before {
				t.Errorf("undone:\n%s\nbefore:\n%s", undone, before)
			}
			if left, _ := os.ReadDir(g.options.State); len(left) > 0 {
				t.Errorf("undone, the state folder has %v", left)
			}

			// If somebody has changed the files meanwhile, what setup wrote is taken out by its position.
			// White space, and objects that were empty before, may be gone.
			if g.words["positional"] == "no" {
				return // setup changed what was there, and that is not known any more
			}
			if written := undoAll(t, program, g.options); len(written) > 0 {
				t.Errorf("undone again, it writes %v", written)
			}
			setUp(t, program, g.options, g.words["sending"] != "")
			records, _ := filepath.Glob(filepath.Join(g.options.State, "*.json"))
			for _, name := range records {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				writeFile(t, name, strings.Replace(string(text), `"exact":true`, `"exact":false`, 1), 0o600)
			}
			undoAll(t, program, g.options)
			plain := strings.NewReplacer(" ", "", `\n`, "", `\r`, "", `\t`, "")
			if undone := snapshot(t, g.home); plain.Replace(undone) != plain.Replace(before) {
				t.Errorf("undone by position:\n%s\nbefore:\n%s", undone, before)
			}
		})
	}
}

// compare compares what is in the home directory, and the diffs that were shown, with the golden
// file; or writes them into it.
func (g *goldenCase) compare(t *testing.T, path, diffs string) {
	t.Helper()
	show := func(text []byte) []byte {
		s := strings.NewReplacer("\r", "␍", "\ufeff", "␂").Replace(string(text))
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "␄\n"
		}
		return []byte(s)
	}
	var files []txtar.File
	for _, f := range g.archive.Files {
		if strings.HasPrefix(f.Name, "before/") {
			files = append(files, f)
		}
	}
	filepath.WalkDir(g.home, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(g.home, path)
		if err != nil || name == "state" {
			return filepath.SkipDir
		}
		if e.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == "before/"+name })
		if before < 0 || golden.Replace(string(files[before].Data)) != string(text) {
			files = append(files, txtar.File{Name: "after/" + name, Data: show(text)})
		}
		return nil
	})
	diffs = strings.ReplaceAll(diffs, g.home, "~")
	files = append(files, txtar.File{Name: "shown", Data: show([]byte(diffs))})
	got := txtar.Format(&txtar.Archive{Comment: g.archive.Comment, Files: files})
	if *update {
		writeFile(t, path, string(got), 0o644)
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; got\n%s", err, got)
	}
}
