package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/internal/statedir"
)

// examineConfig reads config.yaml as acpd does.
func (x *examination) examineConfig() {
	path := x.filePath(statedir.ConfigName)
	c, err := config.LoadConfig(path)
	if err == nil {
		x.config = c
		var warnings []string
		warnings, err = c.CheckStateFiles(path, x.Home)
		for _, w := range warnings {
			x.add("config.file", statedir.ConfigName, w, "do what it says, then: acpctl reload")
		}
	}
	if err == nil {
		what := path + " is valid"
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			what = "there is no " + path + ": the defaults apply"
		}
		x.add("config.ok", statedir.ConfigName, what, "")
		return
	}
	const check = "correct it; acpctl config check shows whether it is valid"
	wrong := config.ListErrors(err)
	if len(wrong) == 0 {
		x.addBrokenConfig(err.Error(), check)
	}
	for _, e := range wrong {
		line := ""
		if e.Line > 0 {
			line = fmt.Sprintf("line %d: ", e.Line)
		}
		x.addBrokenConfig(line+e.Problem, cmp.Or(e.Remedy, check))
	}
}

func (x *examination) addBrokenConfig(what, remedy string) {
	x.add("config.broken", statedir.ConfigName, what+": acpd does not start with this file, and a reload does not take it", remedy)
}

// examineRecords looks at the files of the trust store and of the wake rules, with their copies.
func (x *examination) examineRecords() {
	peers, _, warning, err := identity.InspectTrust(x.Home)
	x.trusted = peers
	x.addRecord(record{statedir.TrustName, statedir.TrustCopyName, "nobody is trusted", "restore both from a backup while acpd does not run, or trust each peer again (acpctl trust)", "acpctl peers"}, warning, err)
	_, warning, err = sealed.Inspect(x.Home, wakeFormat)
	x.addRecord(record{wakeFormat.Name, wakeFormat.CopyName, "nobody may wake a session", "restore both from a backup while acpd does not run, or allow each peer again (acpctl wake allow)", "acpctl wake list"}, warning, err)
	for _, pattern := range []string{"trust*.damaged-*", "wake*.damaged-*"} {
		if kept, _ := filepath.Glob(x.filePath(pattern)); len(kept) > 0 {
			x.add("record.kept", filepath.Base(kept[0]), fmt.Sprintf("%d damaged files of before are kept: %s", len(kept), x.filePath(pattern)), "remove them when nothing is missed")
		}
	}
}

// record is how two files are described to a person.
type record struct{ name, copyName, lost, lostRemedy, check string }

func (x *examination) addRecord(r record, warning *sealed.Warning, err error) {
	newer, isNewer := errors.AsType[*sealed.NewerError](err)
	unfit, isUnfit := errors.AsType[*durable.FileError](err)
	count := "the daemon that runs has what was there at its start, and writes both files with the next change"
	if x.status == nil {
		count = "the next start puts it in place of the other one"
	}
	switch {
	case isNewer:
		x.add("record.newer", r.name, newer.Error(), "start the newer acpd again")
	case isUnfit && !x.has("file.open", "file.kind", "file.owner"):
		x.add("file.kind", r.name, fmt.Sprintf("%s %s (%s)", unfit.Path, unfit.Problem, unfit.Detail), unfit.Remedy)
	case isUnfit: // that was said
	case err != nil:
		x.add("record.lost", r.name, fmt.Sprintf("%s and its copy cannot be read: %v", r.name, err), "look at the disk and at the owner of the file")
	case warning == nil:
		x.add("record.ok", r.name, fmt.Sprintf("%s and %s are sound, or not there yet", r.name, r.copyName), "")
	case warning.Condition == sealed.CopyCounts:
		x.add("record.copy", r.name, fmt.Sprintf("%s is damaged or missing%s, so %s is used: %s", r.name, describeDamage(warning), r.copyName, count), fmt.Sprintf("check with %s that the last change is in it, and look at the disk", r.check))
	case warning.Condition == sealed.CopyDamaged:
		x.add("record.copy_damaged", r.copyName, fmt.Sprintf("%s is damaged%s, and %s is used: %s", r.copyName, describeDamage(warning), r.name, count), "nothing is lost, but look at the disk")
	default:
		x.add("record.lost", r.name, fmt.Sprintf("%s and its copy do not show every change for certain%s: with the next start %s", r.name, describeDamage(warning), r.lost), r.lostRemedy)
	}
}

func describeDamage(w *sealed.Warning) string {
	if w.Err == nil {
		return ""
	}
	return " (" + strings.ReplaceAll(w.Err.Error(), "\n", "; ") + ")"
}

// wakeFormat reads only what the soundness of the wake rules depends on. The daemon reads the rules.
var wakeFormat = &sealed.Format[wakeHead]{
	Title: "wake rules", Name: statedir.RulesName, CopyName: statedir.RulesCopyName, Version: statedir.RulesVersion, MaxBytes: 4 << 20, RequiredKey: "sequence",
	Parse:  func(decode func(any) error) (h wakeHead, err error) { return h, decode(&h) },
	Rescue: func(_ []wakeHead, sequence uint64) wakeHead { return wakeHead{Sequence: sequence} },
}

type wakeHead struct {
	Version  int            `yaml:"version"`
	Sequence uint64         `yaml:"sequence"`
	Rest     map[string]any `yaml:",inline"`
}

func (h wakeHead) Numbers() (sequence, required uint64) { return h.Sequence, h.Sequence }

// examineState looks at the head of state.db. Damage further inside is found by acpd at its start, and then it does
// not start.
func (x *examination) examineState() {
	const remedy = "stop acpd, move state.db away together with its -wal and -shm files and start again without what it held; or restore a copy, or try \".recover\" of the sqlite3 tool on it"
	version, err := readStateVersion(x.filePath(statedir.StateName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.add("state.none", statedir.StateName, "there is no state.db yet: no daemon here has made one", "")
	case err != nil:
		x.add("state.damaged", statedir.StateName, fmt.Sprintf("state.db is damaged: %v", err), remedy)
	case version > statedir.StateVersion:
		x.add("state.newer", statedir.StateName, fmt.Sprintf("a newer acpd wrote state.db (version %d of its tables, this acpctl knows %d): an acpd of this version does not start", version, statedir.StateVersion),
			"start the newer acpd again, or restore the backup from before the upgrade (acpctl restore)")
	case x.status != nil:
		x.add("state.ok", statedir.StateName, "state.db is open, and was checked when the daemon started", "")
	default:
		x.add("state.ok", statedir.StateName, "state.db begins as a database does; acpd checks the rest when it starts", "")
	}
}

// readStateVersion returns the version of the tables of state.db.
func readStateVersion(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return 0, nil // SQLite takes it for a new one
	}
	return statedir.ReadStateVersion(f)
}
