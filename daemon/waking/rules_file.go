package waking

import (
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/sealed"
)

const (
	rulesName     = "wake.yaml"
	rulesCopyName = "wake.copy.yaml"

	rulesVersion     = 1
	maxRuleFileBytes = 4 << 20

	rulesHeader = `# Whose messages may wake which session. Only the daemon writes this file: an edit makes
# it invalid (see the last line). Use acpctl wake and acpctl agents mute.
`
)

// rulesFormat is the format of the two files of the rules. They are used only if they show every
// change, because each change may have been a revoke.
var rulesFormat = &sealed.Format[*ruleSnapshot]{
	Title: "wake rules", Name: rulesName, CopyName: rulesCopyName,
	Header: rulesHeader, Version: rulesVersion, MaxBytes: maxRuleFileBytes, RequiredKey: "sequence",
	Lost:       "nobody may wake a session now",
	LostRemedy: "allow each peer again (acpctl wake allow)",
	Check:      "acpctl wake list",
	Parse:      parseRuleRecord,
	Rescue: func(_ []*ruleSnapshot, sequence uint64) *ruleSnapshot {
		return &ruleSnapshot{ruleRecord: ruleRecord{Version: rulesVersion, Sequence: sequence}}
	},
}

// OpenRules opens the rules in dir: wake.yaml and its copy, wake.copy.yaml. If neither is
// there, no peer may wake a session. It may write, so dir must be locked for one process.
//
// The second result is a warning for a person; damaged files cause no error. A damaged or missing file is
// replaced from the other one, unless any file, even a damaged one, shows that a change came
// after it. In that case, and if both are damaged, no rule is left. Damaged files are kept under another
// name, which the warning gives.
func OpenRules(dir string) (*Rules, error, error) {
	files, warning, err := sealed.Open(dir, rulesFormat)
	if err != nil {
		return nil, nil, err
	}
	r := &Rules{unsaved: pace.NewSignal(), files: files}
	r.current.Store(files.Newest)
	return r, warning, nil
}

// parseRuleRecord returns the record that decode fills, as a snapshot.
func parseRuleRecord(decode func(record any) error) (*ruleSnapshot, error) {
	var r ruleRecord
	if err := decode(&r); err != nil {
		return nil, err
	}
	for i := range r.Permissions {
		r.Permissions[i].Since = r.Permissions[i].Since.UTC()
	}
	for i := range r.Muted {
		r.Muted[i].Until = r.Muted[i].Until.UTC()
	}
	return newRuleSnapshot(r)
}
