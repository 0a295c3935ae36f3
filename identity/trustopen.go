package identity

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/internal/durable"
)

// OpenTrustStore opens the store in dir: trust.yaml and its copy, trust.copy.yaml.
// If neither is there, the store is empty. It may write, so dir must be locked for one
// process.
//
// The second result is a warning for a person, a [*TrustWarning]: damage is no error. A
// damaged or missing trust.yaml is replaced from the copy, but only if no file, even a
// damaged one, shows that blocks were added since. Otherwise, and if both are damaged, no
// peer is trusted, and the blocks that are still known stay. A damaged copy is replaced
// from trust.yaml. Damaged files are kept under another name, which the warning gives.
func OpenTrustStore(dir string) (*TrustStore, error, error) {
	main, err := readTrustFile(filepath.Join(dir, trustName))
	second, secondErr := readTrustFile(filepath.Join(dir, trustCopyName))
	if err := cmp.Or(err, secondErr); err != nil {
		return nil, nil, fmt.Errorf("open trust store: %w", err)
	}
	best, lost := chooseNewestState(main, second)
	warning := newTrustWarning(main, second, lost)
	for _, file := range []trustFile{main, second} {
		if file.damage == nil && !(lost && file.exists()) {
			continue
		}
		name, err := preserveDamagedFile(file.path)
		if err != nil {
			return nil, nil, fmt.Errorf("open trust store: %w", err)
		}
		warning.Kept = append(warning.Kept, name)
	}
	if best.Sequence > 0 && !(main.holdsSnapshot(best) && second.holdsSnapshot(best)) {
		err := replaceTrustFiles(dir, best.trustRecord, best.trustRecord)
		if err == nil {
			err = durable.SyncDir(dir)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open trust store: repair: %w", err)
		}
	}
	for _, file := range []trustFile{main, second} {
		os.Remove(tempFileName(file.path)) // what a crash has left; where it stays, the next change is written over it
	}
	t := newTrustStore(dir, best)
	if warning == nil {
		return t, nil, nil
	}
	return t, warning, nil
}

// chooseNewestState finds the newest sound state. Sequence numbers tell how new a file is;
// those that a damaged file still shows count against the other one. lost tells
// that no file can be believed.
func chooseNewestState(main, second trustFile) (best *trustSnapshot, lost bool) {
	if !main.exists() && !second.exists() {
		return newEmptySnapshot(), false
	}
	best = main.state
	if best == nil || second.state != nil && second.sequence > main.sequence {
		best = second.state
	}
	blocks := max(main.blockSequence, second.blockSequence)
	if best != nil && best.BlockSequence >= blocks {
		return best, false
	}

	// Every block that is left, no peers, and newer than all that the files
	// show, so that they cannot come back.
	none := newEmptySnapshot()
	for _, file := range []trustFile{main, second} {
		if file.state == nil {
			continue
		}
		for _, b := range file.state.Blocked {
			if _, known := none.blocked[b.ID]; !known && len(none.Blocked) < maxBlocked {
				none.blocked[b.ID] = len(none.Blocked)
				none.Blocked = append(none.Blocked, b)
			}
		}
	}
	none.Sequence = 1 + max(main.sequence, second.sequence, blocks)
	none.BlockSequence = none.Sequence
	return none, true
}

// TrustWarning says that a trust file was damaged or missing, which trust is left, and
// what a person should do.
type TrustWarning struct {
	Problem string
	Remedy  string
	Kept    []string // names, in the store's directory, of the files set aside
	Err     error    // what was wrong with the files; nil if one was only missing or old
}

func (w *TrustWarning) Error() string {
	text := "trust store: " + w.Problem
	if w.Err != nil {
		text += fmt.Sprintf(" (%v)", w.Err)
	}
	if len(w.Kept) > 0 {
		text += fmt.Sprintf("; kept as %q", w.Kept)
	}
	return text + ": " + w.Remedy
}

func (w *TrustWarning) Unwrap() error { return w.Err }

// newTrustWarning returns the warning for a person; nil if both files are sound, none is there, or
// only the copy is missing.
func newTrustWarning(main, second trustFile, lost bool) *TrustWarning {
	w := &TrustWarning{Err: errors.Join(main.damage, second.damage)}
	switch {
	case lost:
		w.Problem = "trust.yaml and its copy do not show every block for certain, so nobody is trusted now"
		w.Remedy = "trust each peer again (acpctl trust), and block again whom you had untrusted"
	case main.state == nil && second.exists():
		w.Problem = "trust.yaml was damaged or missing, and its copy was used"
		w.Remedy = "check with acpctl peers that the last change is in it"
	case second.damage != nil:
		w.Problem = "the copy of trust.yaml was damaged, and was written again"
		w.Remedy = "nothing is lost, but check the disk"
	default:
		return nil
	}
	return w
}

// trustFile holds what is left of one of the two files.
type trustFile struct {
	path                    string
	state                   *trustSnapshot // nil: missing or damaged
	damage                  error          // nil: missing or sound
	sequence, blockSequence uint64         // as far as legible
}

func (f trustFile) exists() bool { return f.state != nil || f.damage != nil }

func (f trustFile) holdsSnapshot(s *trustSnapshot) bool {
	return f.state != nil && f.sequence == s.Sequence
}

// readTrustFile reads one file. Damage is part of the result; the error is for a fault that
// the store cannot repair.
func readTrustFile(path string) (trustFile, error) {
	data, err := ReadPrivateFile(path, maxTrustFileBytes)
	switch problem, ok := errors.AsType[*FileError](err); {
	case errors.Is(err, fs.ErrNotExist):
		return trustFile{path: path}, nil
	case err != nil && !(ok && problem.Problem == ProblemCorrupt):
		return trustFile{path: path}, err
	}
	return examineTrustFile(path, data, err)
}

// examineTrustFile returns what is left of a file, given its content or the error of reading it. The
// error is for a file of another version.
func examineTrustFile(path string, data []byte, err error) (trustFile, error) {
	f := trustFile{path: path}
	if err == nil {
		f.state, err = parseTrustFile(data)
	}
	switch {
	case errors.Is(err, errNewerTrust):
		return f, err
	case err != nil:
		f.damage = fmt.Errorf("%s: %w", filepath.Base(path), err)
		f.sequence, f.blockSequence = salvageSequences(data)
	default:
		f.sequence, f.blockSequence = f.state.Sequence, f.state.BlockSequence
	}
	return f, nil
}

// preserveDamagedFile gives the file a second name. The first one stays until it is
// replaced, so that a crash in between finds the same evidence again.
func preserveDamagedFile(path string) (name string, err error) {
	name = filepath.Base(path) + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Link(path, filepath.Join(filepath.Dir(path), name)); err != nil {
		return "", err
	}
	return name, nil
}
