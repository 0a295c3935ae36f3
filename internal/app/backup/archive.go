// Package backup writes and reads the backup of a state directory: one file, a tar archive
// without compression.
//
// Its first member is manifest.json, which lists all others with their sizes and SHA-256. Then come
// these, in the order of the list. The identity is in it only if it was asked for, and then only
// encrypted with a passphrase (age-encryption.org/v1, scrypt), as the program age does it.
// tar and age read a backup without acpctl.
//
// The content of an archive is not believed: only members of known names and bounded
// sizes are written, into an empty folder, and nothing of them is used before each
// byte has been checked against the manifest. Still, anybody who can write an archive decides
// whom a restored daemon trusts, because a manifest is not signed.
package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
)

// Format is the version of the archive that this package writes, and the newest that it reads.
const Format = 1

const (
	manifestName = "manifest.json"
	maxManifest  = 256 << 10

	// IdentityName is the member that has the identity, encrypted.
	IdentityName = "identity.key.age"
)

// Manifest says what is in an archive.
type Manifest struct {
	Format   int         `json:"format"`
	Made     time.Time   `json:"made"`
	Program  string      `json:"program"`       // the version of acpd, or of acpctl where no daemon ran
	Identity identity.ID `json:"identity"`      // the public half
	State    int         `json:"state_version"` // of the tables of state.db; 0: not known
	Files    []File      `json:"files"`
}

// File is a member of an archive.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex digits
}

// HasIdentity reports whether the archive has the identity, encrypted.
func (m *Manifest) HasIdentity() bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == IdentityName })
}

// Size returns the bytes of all members.
func (m *Manifest) Size() (sum int64) {
	for _, f := range m.Files {
		sum += f.Bytes
	}
	return sum
}

// maxBytes has the members that an archive may have, and how many bytes of
// each. docs/operate.md says why other files of a state directory are not among them.
var maxBytes = map[string]int64{
	statedir.ConfigName:    1 << 20,
	statedir.TrustName:     64 << 20,
	statedir.TrustCopyName: 64 << 20,
	statedir.RulesName:     4 << 20,
	statedir.RulesCopyName: 4 << 20,
	statedir.RelaysName:    64 << 10,
	statedir.StateName:     maxState,
	statedir.StateLogName:  maxState,
	IdentityName:           64 << 10,
}

// maxState bounds state.db and its log; the disk bounds them long before.
const maxState = 1 << 40

// isProfile reports whether a member is skipped: earlier versions put profiles of the owner into backups. Nothing reads
// them any more.
func isProfile(name string) bool { return strings.HasPrefix(name, statedir.ProfilesName+"/") }

// check refuses a manifest that this program did not write, or cannot read.
func (m *Manifest) check() error {
	if m.Format != Format {
		return fmt.Errorf("it has format %d, and this acpctl reads %d: use the acpctl of a newer version", m.Format, Format)
	}
	if m.Identity.IsZero() {
		return fmt.Errorf("its manifest names no identity: use another backup")
	}
	if m.State > statedir.StateVersion {
		return newNewerError(m, m.State)
	}
	seen := make(map[string]bool)
	for _, f := range m.Files {
		most, ok := maxBytes[f.Name]
		switch {
		case isProfile(f.Name):
			continue
		case !ok:
			return fmt.Errorf("this acpctl knows no member %.100q: restore it with acpctl %.100q, which made the backup, or a later one; if that is this one, use another backup", f.Name, m.Program)
		case seen[f.Name]:
			return fmt.Errorf("%s is in it twice: use another backup", f.Name)
		case f.Bytes < 0 || f.Bytes > most:
			return fmt.Errorf("%s has %d bytes, and may have %d: use another backup", f.Name, f.Bytes, most)
		}
		seen[f.Name] = true
	}
	for _, name := range []string{statedir.StateName, statedir.TrustName} {
		if !seen[name] {
			return fmt.Errorf("%s is not in it: use another backup", name)
		}
	}
	return nil
}

// newNewerError says that a newer acpd has written state.db.
func newNewerError(m *Manifest, version int) error {
	return fmt.Errorf("%s in it has version %d, and this acpctl knows %d: install acpd and acpctl %.100s, which made the backup, or later ones, then restore it", statedir.StateName, version, statedir.StateVersion, m.Program)
}
