// Package sealed keeps a record in two files, so that neither damage nor a crash brings back an
// older one unseen.
//
// Each file is replaced as a whole, and the copy first: so a crash leaves each as it was before
// some change or after it, and the copy never older than the main file. The last line of each is a
// checksum. Each has numbers that tell how new it is. If these can still be read from a damaged file, they can
// show that the other file is too old.
package sealed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
)

// Files are the main file and its copy. Their methods are not for concurrent use.
type Files[S snapshot] struct {
	Newest S // the newest that a file has, synced or not

	Rename  func(from, to string) error // gives a file that is written its name
	SyncDir func(dir string) error      // makes the files' names last

	dir    string
	format *Format[S]
}

// Condition is which of two files can be used.
type Condition int

const (
	Sound       Condition = iota // or neither file exists
	CopyCounts                   // the main file is damaged or missing
	CopyDamaged                  // the main file is used
	Lost                         // no file can be believed
)

// Warning reports that a file was damaged or missing, which content is used now, and what a person should do.
type Warning struct {
	Condition Condition

	Title   string
	Problem string
	Remedy  string
	Kept    []string // names, in the same folder, of the files set aside
	Err     error    // what was wrong with the files, or nil if one was only missing or old
}

func (w *Warning) Error() string {
	text := w.Title + ": " + w.Problem
	if w.Err != nil {
		text += fmt.Sprintf(" (%v)", w.Err)
	}
	if len(w.Kept) > 0 {
		text += fmt.Sprintf("; kept as %q", w.Kept)
	}
	return text + ": " + w.Remedy
}

// OwnWords returns the text.
func (w *Warning) OwnWords() string { return w.Error() }

func (w *Warning) Unwrap() error { return w.Err }

// Open reads and repairs the files in dir, so dir must be locked for one process.
//
// The second result is a warning for a person, a [*Warning]: Open succeeds despite damage. A file that is
// damaged, missing or older is replaced from the other one, unless any file, even a damaged one,
// shows that the other one lacks what is required. Then, and if both are damaged, the files hold
// what Rescue returns. Damaged files are kept under another name, which the warning gives.
func Open[S snapshot](dir string, format *Format[S]) (*Files[S], error, error) {
	files, err := readFiles(dir, format)
	if err != nil {
		return nil, nil, ownwords.Errorf("open %s: %w", format.Title, err)
	}
	best, lost := chooseNewest(&files, format)
	warning := newWarning(&files, format, lost)
	for i := range files {
		if files[i].damage == nil && !(lost && files[i].exists()) {
			continue
		}
		name, err := preserveDamagedFile(files[i].path)
		if err != nil {
			return nil, nil, ownwords.Errorf("open %s: %w", format.Title, err)
		}
		warning.Kept = append(warning.Kept, name)
	}
	opened := &Files[S]{Newest: best, Rename: os.Rename, SyncDir: durable.SyncDir, dir: dir, format: format}
	if sequence, _ := best.Numbers(); sequence > 0 && !(files[0].sound && files[1].sound && files[0].sequence == sequence && files[1].sequence == sequence) {
		if err := opened.Write(best); err != nil {
			return nil, nil, ownwords.Errorf("open %s: repair: %w", format.Title, err)
		}
	}
	for i := range files {
		os.Remove(tempFileName(files[i].path)) // what a crash has left; where it stays, the next change is written over it
	}
	if warning == nil {
		return opened, nil, nil
	}
	return opened, warning, nil
}

// Inspect returns the content of the files in dir that Open would use, and the warning that Open would give, or
// nil. It changes nothing and needs no lock: a change that is under way is seen as it
// was before or after. It returns the same errors as Open.
func Inspect[S snapshot](dir string, format *Format[S]) (S, *Warning, error) {
	files, err := readFiles(dir, format)
	if err != nil {
		var none S
		return none, nil, ownwords.Errorf("read %s: %w", format.Title, err)
	}
	best, lost := chooseNewest(&files, format)
	return best, newWarning(&files, format, lost), nil
}

func readFiles[S snapshot](dir string, format *Format[S]) (files [2]file[S], err error) {
	files = [2]file[S]{{path: filepath.Join(dir, format.Name)}, {path: filepath.Join(dir, format.CopyName)}}
	for i := range files {
		if err := files[i].read(format); err != nil {
			return files, err
		}
	}
	return files, nil
}

// read reads a file. Damage is part of f; the error is for a fault that cannot be repaired.
func (f *file[S]) read(format *Format[S]) error {
	data, err := durable.ReadPrivateFile(f.path, format.MaxBytes)
	switch problem, ok := errors.AsType[*durable.FileError](err); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !(ok && problem.Problem == durable.ProblemCorrupt):
		return err
	}
	return f.examine(format, data, err)
}

// chooseNewest finds the newest sound state. lost tells that no file can be believed.
func chooseNewest[S snapshot](files *[2]file[S], format *Format[S]) (best S, lost bool) {
	main, second := &files[0], &files[1]
	if !main.exists() && !second.exists() {
		return format.Rescue(nil, 0), false
	}
	newest := main
	if !main.sound || second.sound && second.sequence > main.sequence {
		newest = second
	}
	required := max(main.required, second.required)
	if newest.sound && newest.required >= required {
		return newest.state, false
	}
	var sound []S
	for i := range files {
		if files[i].sound {
			sound = append(sound, files[i].state)
		}
	}
	// Newer than all that the files show, so that they cannot come back.
	return format.Rescue(sound, 1+max(main.sequence, second.sequence, required)), true
}

// newWarning returns the warning for a person, or nil if both files are sound, neither exists, or
// only the copy is missing.
func newWarning[S snapshot](files *[2]file[S], format *Format[S], lost bool) *Warning {
	w := &Warning{Title: format.Title, Err: errors.Join(files[0].damage, files[1].damage)}
	switch {
	case lost:
		w.Condition = Lost
		w.Problem = fmt.Sprintf("%s and its copy do not show every change for certain, so %s", format.Name, format.Lost)
		w.Remedy = format.LostRemedy
	case !files[0].sound && files[1].exists():
		w.Condition = CopyCounts
		w.Problem = format.Name + " was damaged or missing, and its copy was used"
		w.Remedy = "check with " + format.Check + " that the last change is in it"
	case files[1].damage != nil:
		w.Condition = CopyDamaged
		w.Problem = "the copy of " + format.Name + " was damaged, and was written again"
		w.Remedy = "nothing is lost, but check the disk"
	default:
		return nil
	}
	return w
}

// preserveDamagedFile gives the file a second name. The first one stays until it is replaced, so
// that a crash in between finds the same evidence again.
func preserveDamagedFile(path string) (name string, err error) {
	name = filepath.Base(path) + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	return name, os.Link(path, filepath.Join(filepath.Dir(path), name))
}

// Write makes next the content of both files, and waits until it is durable. The steps that need space
// come first, then two renames; if the second fails, the first is undone. After an error, Newest
// is next if a file may still have it: then a write with a higher sequence takes it back.
// Files without a folder, made by a caller, are only in memory.
func (f *Files[S]) Write(next S) error {
	if f.format == nil {
		f.Newest = next
		return nil
	}
	data, err := f.format.Encode(next)
	if err != nil {
		return err
	}
	main, second := filepath.Join(f.dir, f.format.Name), filepath.Join(f.dir, f.format.CopyName)
	defer os.Remove(tempFileName(main))
	defer os.Remove(tempFileName(second))
	for _, path := range []string{second, main} {
		if err := durable.RewriteFile(tempFileName(path), data, durable.PrivateMode); err != nil {
			return err
		}
	}
	if err := f.Rename(tempFileName(second), second); err != nil {
		return err
	}
	if err = f.Rename(tempFileName(main), main); err != nil {
		undo := f.restoreCopy(second)
		if undo == nil {
			return err
		}
		err = errors.Join(err, undo)
	}
	f.Newest = next
	return errors.Join(err, f.SyncDir(f.dir))
}

// restoreCopy makes Newest the content of the copy again. One of sequence 0 was not there.
func (f *Files[S]) restoreCopy(path string) error {
	if sequence, _ := f.Newest.Numbers(); sequence == 0 {
		return os.Remove(path)
	}
	data, err := f.format.Encode(f.Newest)
	if err != nil {
		return err
	}
	if err := durable.RewriteFile(tempFileName(path), data, durable.PrivateMode); err != nil {
		return err
	}
	return errors.Join(f.Rename(tempFileName(path), path), durable.SyncDir(f.dir))
}

// tempFileName returns the path at which a file is written before it is renamed to path. The
// next write replaces what a crash has left there.
func tempFileName(path string) string { return path + ".tmp" }
