package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/backup"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
)

func (v *verbs) newRestoreCmd() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a state directory of a backup",
		Example: `  acpctl --home ~/.acp restore acp-desk.tar
  acpctl restore acp-desk.tar --force               what is there now is kept in a folder
  acpctl restore acp-desk.tar --no-identity         as a new daemon, if the machine was stolen`,
		Long: `Reads a file of acpctl backup (- is standard input), checks all of it, and
makes the state directory of it. No daemon may run there, and the directory must be
empty; with --force, what is there is moved into a folder of it first.

The state is as old as the backup. Whom you have untrusted since is trusted again: restore
lists those peers and asks, if it finds in the old directory whom it trusts. Messages and
work that came since are not known: a peer that repeats one has it done twice.

A new identity has a new key for relays: restore says which of them must be told.

Never run two daemons with one identity. docs/operate.md says what happens then, and
what to do if a machine was lost or stolen.`,
		RunE: func(cmd *cobra.Command, args []string) error { return v.restore(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.Var((*shellpath.Flag)(&o.passphraseFile), "passphrase-file", "take the passphrase of the identity from the one line of a file with mode 0600")
	f.BoolVar(&o.noIdentity, "no-identity", false, "leave out the identity in the backup: the daemon makes a new one")
	f.BoolVar(&o.force, "force", false, "also if the state directory is not empty; what is there is kept")
	f.BoolVar(&o.yes, "yes", false, "do not ask: peers that are trusted again are meant")
	return cmd
}

type restoreOptions struct {
	passphraseFile         string
	noIdentity, force, yes bool
}

// restored is what restore prints as JSON.
type restored struct {
	Home     string                `json:"home"`
	Made     time.Time             `json:"made"`
	Identity identity.ID           `json:"identity"`        // that the backup is of
	Source   backup.IdentitySource `json:"identity_source"` // where the identity in the directory comes from
	Peers    []string              `json:"peers"`           // that are trusted now
	Returned []string              `json:"returned"`        // of them, those that the old directory did not trust
	Aside    string                `json:"aside,omitempty"`
	Notes    []string              `json:"notes"` // what must be known before the daemon starts
}

func (v *verbs) restore(ctx context.Context, file string, o restoreOptions) error {
	switch {
	case v.AsGuest:
		return frame.UsageErrorf("a restore is for whoever the daemon belongs to, and ACP_SOCKET is set: unset it")
	case o.noIdentity && o.passphraseFile != "":
		return frame.UsageErrorf("--no-identity and --passphrase-file: give one of them")
	}
	archive := v.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("FILE: %w: name a file of acpctl backup", err)
		}
		defer f.Close()
		archive = f
	}
	dir, err := v.FindStateDir()
	if err != nil {
		return err
	}
	r, err := v.prepareRestore(ctx, archive, file, dir, o)
	if err != nil {
		return err
	}
	defer r.Close()
	result := &restored{Home: dir, Made: r.Manifest.Made, Identity: r.Manifest.Identity, Source: r.Identity, Peers: []string{}, Returned: []string{}}
	for _, p := range r.Peers {
		result.Peers = append(result.Peers, p.Name)
	}
	returning, blocked := r.ListReturning()
	for _, p := range returning {
		result.Returned = append(result.Returned, p.Name)
	}
	if err := v.confirmReturning(ctx, returning, blocked, file, o.yes); err != nil {
		return err
	}
	if err := r.Commit(); err != nil {
		return explainFullDisk(dir, err)
	}
	result.Aside = r.Aside
	if r.Warning != nil {
		v.Warn("warning: %s", r.Warning.Error())
	}
	result.Notes = slices.Concat(listCommandNotes(dir), listRelayNotes(dir, r.Identity), listRestoreNotes(result))
	for _, note := range result.Notes {
		v.Warn("note: %s", note)
	}
	return v.PrintData(result, func() { v.printRestored(result) })
}

func (v *verbs) prepareRestore(ctx context.Context, archive io.Reader, file, dir string, o restoreOptions) (*backup.Restore, error) {
	options := backup.Options{Dir: dir, Force: o.force, Passphrase: v.newPassphraseFunc(ctx, o.passphraseFile)}
	if o.noIdentity {
		options.Passphrase = nil
	}
	r, err := backup.Prepare(ctx, archive, options)
	if err != nil {
		return nil, explainFullDisk(dir, fmt.Errorf("%s: %w", file, err))
	}
	return r, nil
}

// confirmReturning shows which peers are trusted again, and returns an error unless that is meant.
func (v *verbs) confirmReturning(ctx context.Context, returning []identity.Peer, blocked map[identity.ID]bool, file string, yes bool) error {
	if len(returning) == 0 {
		return nil
	}
	v.Tell("%s trusts peers that this directory does not trust:", file)
	for _, p := range returning {
		what := "unknown here"
		if blocked[p.ID] {
			what = "untrusted and blocked here"
		}
		fmt.Fprintf(v.Err, "  %s  %s  %s\n", p.ID, client.Line(p.Name), what)
	}
	if yes {
		return nil
	}
	if !v.InTTY || file == "-" {
		return frame.UsageErrorf("these peers would be trusted again: --yes says that it is meant; acpctl untrust then ends trust in each")
	}
	meant, err := v.Confirm(ctx, "Restore it, and trust them again?")
	if err == nil && !meant {
		return fmt.Errorf("not restored: the answer was not yes")
	}
	return err
}

// printRestored says what was restored.
func (v *verbs) printRestored(r *restored) {
	v.PrintLine("%s", r.Home)
	v.PrintForPerson("The state is that of %s. Trusted peers: %s.", v.FormatTime(r.Made), cmp.Or(strings.Join(r.Peers, ", "), "none"))
	if r.Aside != "" {
		v.PrintForPerson("The files from before are in %s.", r.Aside)
	}
}

// listRestoreNotes says what whoever restores must know before the daemon starts, a script too.
func listRestoreNotes(r *restored) []string {
	who := fmt.Sprintf("the identity is %s: no other daemon may run with it; peers would see its connections jump between two machines", r.Identity)
	if r.Source == backup.IdentityNone {
		who = "the identity is not restored: acpd makes a new one when it starts, and each peer must trust that"
	}
	return []string{who, "untrust whom you have untrusted since: the backup does not know it"}
}

// explainFullDisk adds the remedy to an error of a full disk.
func explainFullDisk(path string, err error) error {
	if disk.IsFullError(err) {
		return fmt.Errorf("%w: free some space on the disk of %s", err, path)
	}
	return err
}
