package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/durable"
)

// record is what setup keeps of a file that it changed, in addition to a copy of what the file was before. Both are
// in setup's own folder, where only the user can read them: a copy in the file's folder could be
// committed with the secrets in it.
type record struct {
	Version  int      `json:"version"` // recordVersion; 0 in records of before there was one, which read the same
	Path     string   `json:"path"`
	Programs []string `json:"programs"`         // that were set up in the file
	Existed  bool     `json:"existed"`          // before setup
	Before   string   `json:"before,omitempty"` // the SHA-256 of the backup, as hex digits
	After    string   `json:"after"`            // the SHA-256 of what setup wrote last, as hex digits
	IsExact  bool     `json:"exact"`            // nobody else changed the file between setup's changes: what it was before is what it was without setup
	MadeDirs []string `json:"dirs,omitzero"`    // the folders that setup made
	Note     string   `json:"note,omitempty"`   // for whoever reads the record
}

// recordVersion is raised when an older acpctl would undo wrongly what a record says.
const recordVersion = 1

// recordName returns the name of a file's record and backup in the state folder.
func recordName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Base(path) + "-" + hex.EncodeToString(sum[:6])
}

func hashText(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// recordPath and backupPath name the files of a record.
func (o *Options) recordPath(path string) string {
	return filepath.Join(o.State, recordName(path)+".json")
}

func (o *Options) backupPath(path string) string {
	return filepath.Join(o.State, recordName(path)+".before")
}

// readRecord returns the record of a file, nil without one.
func (o *Options) readRecord(path string) (*record, error) {
	text, err := o.readState(o.recordPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(record)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && r.Version > recordVersion {
		return nil, fmt.Errorf("%s was written by a newer acpctl (version %d of the record, and this one knows %d): use that one", o.recordPath(path), r.Version, recordVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, and setup no longer knows what %s was before", o.recordPath(path), err, path)
	}
	return r, nil
}

// readBackup returns what a file was before, and whether that is still known.
func (o *Options) readBackup(r *record) (text []byte, ok bool) {
	text, err := o.readState(o.backupPath(r.Path))
	return text, err == nil && hashText(text) == r.Before
}

// readState reads a file of the state folder.
func (o *Options) readState(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("over %d MiB", maxFile>>20)
	}
	return text, err
}

// writeState writes a file of the state folder, which it makes.
func (o *Options) writeState(path string, text []byte) error {
	if err := makeFolders(path, 0o700); err != nil {
		return err
	}
	return durable.ReplaceFile(path, path+tempMark, text, 0o600)
}

func (o *Options) writeRecord(r *record) error {
	r.Version = recordVersion
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return o.writeState(o.recordPath(r.Path), append(text, '\n'))
}

// removeRecord removes what is kept of a file.
func (o *Options) removeRecord(path string) error {
	for _, path := range []string{o.recordPath(path), o.backupPath(path)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// keep writes down what a file is before it becomes text. It returns the path of the backup, ""
// for a file that is new.
func (o *Options) keep(f *file, r *record, program string, text []byte, dirs []string) (backup string, err error) {
	if r == nil || !f.exists {
		r = &record{Path: f.path, Existed: f.exists, IsExact: true}
	}
	now := hashText(f.text)
	untouched := r.After == "" || r.After == now || r.Before == now
	r.IsExact = r.IsExact && untouched
	if f.exists && (r.After == "" || !untouched) {
		if err := o.writeState(o.backupPath(f.path), f.text); err != nil {
			return "", fmt.Errorf("keep what %s was before: %w", f.path, err)
		}
		r.Before = now
	}
	if !slices.Contains(r.Programs, program) {
		r.Programs = append(r.Programs, program)
	}
	r.MadeDirs = append(r.MadeDirs, dirs...)
	r.After = hashText(text)
	if r.Existed {
		backup = o.backupPath(f.path)
	}
	return backup, o.writeRecord(r)
}
