package sealed

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	sealPrefix  = "# sha256 "
	maxSequence = 1 << 62
)

// snapshot is a valid record in memory, which YAML can write. It is never changed, only replaced.
type snapshot interface {
	// Numbers returns the numbers of the last change, and of the last one that must not be
	// forgotten: a file without that is not believed.
	Numbers() (sequence, required uint64)
}

// Format describes the names and the content of two files, and the texts about them for a person.
type Format[S snapshot] struct {
	Title          string // as errors begin
	Name, CopyName string
	Header         string // comments that begin each file
	Version        int    // the value of the key version
	MaxBytes       int64
	RequiredKey    string // the key of the required number; that of the sequence is sequence

	Lost       string // what follows if no file can be believed
	LostRemedy string // what a person does then
	Check      string // the command that shows what the files say

	// Parse calls decode to fill a record, and checks it.
	Parse func(decode func(record any) error) (S, error)
	// Rescue returns what is left if no file can be believed, from the content of the sound files. The result has
	// that sequence, and requires it. If there are no files, Rescue gets nothing and 0.
	Rescue func(sound []S, sequence uint64) S
}

// NewerError is the error if a file is sound but of a newer version, so that it must not be
// repaired.
type NewerError struct {
	title, name, copyName string
	version, known        int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: %s was written by a newer acpd (version %d of the file, this acpd knows %d): start that acpd, or restore the backup from before the upgrade (acpctl restore), or move %s and %s away to begin anew",
		e.title, e.name, e.version, e.known, e.name, e.copyName)
}

// OwnWords returns the text.
func (e *NewerError) OwnWords() string { return e.Error() }

// Encode returns a snapshot as the content of a file, with its checksum.
func (f *Format[S]) Encode(s S) ([]byte, error) {
	body, err := yaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	return AppendChecksum(append([]byte(f.Header), body...)), nil
}

// Decode checks and parses the content of a file.
func (f *Format[S]) Decode(data []byte) (s S, err error) {
	s, err = f.Parse(func(record any) error { return f.decodeYAML(data, record) })
	if err != nil {
		return s, err
	}
	if sequence, required := s.Numbers(); sequence > maxSequence || required > sequence {
		return s, ownwords.Errorf("sequence %d, %s %d", sequence, f.RequiredKey, required)
	}
	return s, nil
}

func (f *Format[S]) decodeYAML(data []byte, record any) error {
	at := bytes.LastIndex(data, []byte(sealPrefix))
	if at < 0 || !bytes.Equal(AppendChecksum(bytes.Clone(data[:at])), data) {
		return ownwords.New("its checksum does not fit: damaged, cut off or edited")
	}
	var version struct {
		Version int `yaml:"version"`
	}
	if err := yaml.Unmarshal(data, &version); err != nil {
		return ownwords.Explain(err, "no valid YAML")
	}
	switch {
	case version.Version > f.Version:
		return &NewerError{f.Title, f.Name, f.CopyName, version.Version, f.Version}
	case version.Version != f.Version:
		return ownwords.Errorf("version %d", version.Version)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(record); err != nil {
		return ownwords.Explain(err, "a key or value that this version does not know")
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return ownwords.New("more than one document")
	}
	return nil
}

// AppendChecksum appends the last line of a file, by which truncation, damage and edits are
// detected: YAML that is cut between two entries is still valid.
func AppendChecksum(text []byte) []byte {
	return fmt.Appendf(text, "%s%x\n", sealPrefix, sha256.Sum256(text))
}

// file holds what is left of one of the two files.
type file[S snapshot] struct {
	path               string
	state              S      // where sound
	sound              bool   // false: missing or damaged
	damage             error  // nil: missing or sound
	sequence, required uint64 // as far as legible
}

func (f *file[S]) exists() bool { return f.sound || f.damage != nil }

// examine finds out what is left of a file, given its content or the error of reading it. The
// error is for a file of another version.
func (f *file[S]) examine(format *Format[S], data []byte, err error) error {
	if err == nil {
		f.state, err = format.Decode(data)
	}
	if err == nil {
		f.sound = true
		f.sequence, f.required = f.state.Numbers()
		return nil
	}
	if newer, ok := errors.AsType[*NewerError](err); ok {
		return newer
	}
	f.damage = ownwords.Errorf("%s: %w", filepath.Base(f.path), err)
	f.sequence, f.required = salvageNumber(data, "sequence"), salvageNumber(data, format.RequiredKey)
	return nil
}

// salvageNumber returns the highest number that a damaged file still shows under a key, so that
// an older file is not taken for the newest.
func salvageNumber(data []byte, key string) (highest uint64) {
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), key+": "); ok {
			if n, err := strconv.ParseUint(value, 10, 60); err == nil {
				highest = max(highest, n)
			}
		}
	}
	return highest
}
