package waking

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/pace"
)

// The two files of the rules, beside the trust store. Each is replaced as a whole, and the copy
// first: so a crash leaves each file as it was before some change or after it, and the copy
// never older than the main file.
const (
	rulesName     = "wake.yaml"
	rulesCopyName = "wake.copy.yaml"

	rulesVersion     = 1
	maxRuleFileBytes = 4 << 20
	maxRuleSequence  = 1 << 60
	ruleFileMode     = 0o600

	rulesHeader = `# Whose messages may wake which session. The daemon alone writes this file: an edit makes
# it invalid (see the last line). Use acpctl wake and acpctl agents mute.
`
	sealPrefix = "# sha256 "
)

// errNewerRules says that a file is sound but of a newer version, so that it must not be
// repaired.
var errNewerRules = errors.New("wake rules: written by a newer acpd: use that one, or move wake.yaml and wake.copy.yaml away to allow anew")

// RulesWarning says that a file of the rules was damaged or missing, which rules are left, and
// what a person should do.
type RulesWarning struct {
	Problem string
	Remedy  string
	Kept    []string // names, in the state directory, of the files set aside
	Err     error    // what was wrong with the files; nil if one was only missing or old
}

func (w *RulesWarning) Error() string {
	text := "wake rules: " + w.Problem
	if w.Err != nil {
		text += fmt.Sprintf(" (%v)", w.Err)
	}
	if len(w.Kept) > 0 {
		text += fmt.Sprintf("; kept as %q", w.Kept)
	}
	return text + ": " + w.Remedy
}

func (w *RulesWarning) Unwrap() error { return w.Err }

// OpenRules opens the rules in dir: wake.yaml and its copy, wake.copy.yaml. If neither is
// there, no peer may wake a session. It may write, so dir must be locked for one process.
//
// The second result is a warning for a person, a [*RulesWarning]: damage is no error. A damaged
// or missing file is replaced from the other one, unless any file, even a damaged one, shows
// that a change came after it. Then, and if both are damaged, no rule is left. Damaged files
// are kept under another name, which the warning gives.
func OpenRules(dir string) (*Rules, error, error) {
	files := [2]ruleFile{{path: filepath.Join(dir, rulesName)}, {path: filepath.Join(dir, rulesCopyName)}}
	for i := range files {
		if err := files[i].read(); err != nil {
			return nil, nil, fmt.Errorf("open wake rules: %w", err)
		}
	}
	best, lost := chooseNewestRules(files[0], files[1])
	warning := newRulesWarning(files[0], files[1], lost)
	for _, f := range files {
		if f.damage == nil && !(lost && f.exists()) {
			continue
		}
		name, err := preserveDamagedFile(f.path)
		if err != nil {
			return nil, nil, fmt.Errorf("open wake rules: %w", err)
		}
		warning.Kept = append(warning.Kept, name)
	}
	if best.Sequence > 0 && !(files[0].holdsRules(best) && files[1].holdsRules(best)) {
		err := replaceRuleFiles(dir, best.ruleRecord, best.ruleRecord)
		if err == nil {
			err = durable.SyncDir(dir)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open wake rules: repair: %w", err)
		}
	}
	for _, f := range files {
		os.Remove(tempFileName(f.path)) // what a crash has left; if it stays, the next change is written over it
	}
	r := &Rules{dir: dir, syncDir: durable.SyncDir, unsaved: pace.NewSignal(), inFiles: best}
	r.current.Store(best)
	if warning == nil {
		return r, nil, nil
	}
	return r, warning, nil
}

// chooseNewestRules finds the newest sound state. lost tells that no file can be believed: then
// nothing is allowed, under a number above all that the files show.
func chooseNewestRules(main, second ruleFile) (best *ruleSnapshot, lost bool) {
	if !main.exists() && !second.exists() {
		return newEmptyRules(0), false
	}
	best = main.state
	if best == nil || second.state != nil && second.sequence > main.sequence {
		best = second.state
	}
	if newest := max(main.sequence, second.sequence); best == nil || best.Sequence < newest {
		return newEmptyRules(newest + 1), true
	}
	return best, false
}

func newEmptyRules(sequence uint64) *ruleSnapshot {
	return &ruleSnapshot{ruleRecord: ruleRecord{Version: rulesVersion, Sequence: sequence}}
}

// newRulesWarning returns the warning for a person; nil if both files are sound, none is there,
// or only the copy is missing.
func newRulesWarning(main, second ruleFile, lost bool) *RulesWarning {
	w := &RulesWarning{Err: errors.Join(main.damage, second.damage)}
	switch {
	case lost:
		w.Problem = "wake.yaml and its copy do not show every change for certain, so nobody may wake a session now"
		w.Remedy = "allow each peer again (acpctl wake allow)"
	case main.state == nil && second.exists():
		w.Problem = "wake.yaml was damaged or missing, and its copy was used"
		w.Remedy = "check with acpctl wake list that the last change is in it"
	case second.damage != nil:
		w.Problem = "the copy of wake.yaml was damaged, and was written again"
		w.Remedy = "nothing is lost, but check the disk"
	default:
		return nil
	}
	return w
}

// ruleFile holds what is left of one of the two files.
type ruleFile struct {
	path     string
	state    *ruleSnapshot // nil: missing or damaged
	damage   error         // nil: missing or sound
	sequence uint64        // as far as legible
}

func (f ruleFile) exists() bool { return f.state != nil || f.damage != nil }

func (f ruleFile) holdsRules(s *ruleSnapshot) bool { return f.state != nil && f.sequence == s.Sequence }

// read reads the file. Damage is part of f; the error is for a fault that cannot be repaired.
func (f *ruleFile) read() error {
	data, err := identity.ReadPrivateFile(f.path, maxRuleFileBytes)
	switch problem, ok := errors.AsType[*identity.FileError](err); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !(ok && problem.Problem == identity.ProblemCorrupt):
		return err
	}
	return f.examine(data, err)
}

// examine finds out what is left of a file, given its content or the error of reading it.
func (f *ruleFile) examine(data []byte, err error) error {
	if err == nil {
		f.state, err = parseRuleFile(data)
	}
	switch {
	case errors.Is(err, errNewerRules):
		return err
	case err != nil:
		f.damage = fmt.Errorf("%s: %w", filepath.Base(f.path), err)
		f.sequence = salvageSequence(data)
	default:
		f.sequence = f.state.Sequence
	}
	return nil
}

// parseRuleFile checks and parses the content of a file. The error is errNewerRules if the
// checksum fits and the version is newer.
func parseRuleFile(data []byte) (*ruleSnapshot, error) {
	at := bytes.LastIndex(data, []byte(sealPrefix))
	if at < 0 || !bytes.Equal(appendChecksum(bytes.Clone(data[:at])), data) {
		return nil, errors.New("its checksum does not fit: damaged, cut off or edited")
	}
	var version struct {
		Version int `yaml:"version"`
	}
	if err := yaml.Unmarshal(data, &version); err != nil {
		return nil, err
	}
	if version.Version > rulesVersion {
		return nil, errNewerRules
	}
	var r ruleRecord
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&r); err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("more than one document")
	}
	if r.Version != rulesVersion || r.Sequence > maxRuleSequence {
		return nil, fmt.Errorf("version %d, sequence %d", r.Version, r.Sequence)
	}
	for i := range r.Permissions {
		r.Permissions[i].Since = r.Permissions[i].Since.UTC()
	}
	for i := range r.Muted {
		r.Muted[i].Until = r.Muted[i].Until.UTC()
	}
	return newRuleSnapshot(r)
}

// salvageSequence returns the highest sequence number that a damaged file still shows, so that
// an older file is not taken for the newest.
func salvageSequence(data []byte) (sequence uint64) {
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "sequence: "); ok {
			if n, err := strconv.ParseUint(value, 10, 60); err == nil {
				sequence = max(sequence, n)
			}
		}
	}
	return sequence
}

// encodeFile returns the record as the content of a file, with its checksum.
func (r ruleRecord) encodeFile() ([]byte, error) {
	body, err := yaml.Marshal(r)
	if err != nil {
		return nil, err
	}
	return appendChecksum(append([]byte(rulesHeader), body...)), nil
}

// appendChecksum appends the last line of a file, by which truncation, damage and edits are
// detected: YAML that is cut between two entries is still valid.
func appendChecksum(text []byte) []byte {
	return fmt.Appendf(text, "%s%x\n", sealPrefix, sha256.Sum256(text))
}

// replaceRuleFiles makes next the content of both files; their names last once the caller has
// synced the folder. What needs space comes first, then two renames. If the second fails, the
// first is undone with old.
func replaceRuleFiles(dir string, old, next ruleRecord) error {
	data, err := next.encodeFile()
	if err != nil {
		return err
	}
	main, second := filepath.Join(dir, rulesName), filepath.Join(dir, rulesCopyName)
	defer os.Remove(tempFileName(main))
	defer os.Remove(tempFileName(second))
	for _, path := range []string{second, main} {
		if err := durable.RewriteFile(tempFileName(path), data, ruleFileMode); err != nil {
			return err
		}
	}
	if err := os.Rename(tempFileName(second), second); err != nil {
		return err
	}
	if err := os.Rename(tempFileName(main), main); err != nil {
		return errors.Join(err, restoreRuleFile(second, old))
	}
	return nil
}

// restoreRuleFile makes old the content of the file again. A file of sequence 0 was not there.
func restoreRuleFile(path string, old ruleRecord) error {
	if old.Sequence == 0 {
		return os.Remove(path)
	}
	data, err := old.encodeFile()
	if err != nil {
		return err
	}
	return durable.ReplaceFile(path, tempFileName(path), data, ruleFileMode)
}

// preserveDamagedFile gives the file a second name. The first one stays until it is replaced,
// so that a crash in between finds the same evidence again.
func preserveDamagedFile(path string) (name string, err error) {
	name = filepath.Base(path) + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	return name, os.Link(path, filepath.Join(filepath.Dir(path), name))
}

// tempFileName returns the path at which a file is written before it is renamed to path.
func tempFileName(path string) string { return path + ".tmp" }
