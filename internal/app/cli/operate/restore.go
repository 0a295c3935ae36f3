package operate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		Example: `  acpctl restore acp-desk.tar
  acpctl --home ~/.acp-planner restore acp-planner.tar
  acpctl restore acp-desk.tar --no-identity         as a new daemon, if the machine was stolen`,
		Long: `Reads a file of acpctl backup (- is standard input), checks all of it, and
makes the state directory of it. Where there is state already it changes nothing, and says
which command moves that aside.

The state is as old as the backup. Whom you have untrusted since is trusted again. Messages
and work that came since are not known: a peer that repeats one has it done twice.

A new identity has a new key for relays: restore says which of them must be told.

Never run two daemons with one identity. docs/operate.md says what happens then, and
what to do if a machine was lost or stolen.`,
		RunE: func(cmd *cobra.Command, args []string) error { return v.restore(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.Var((*shellpath.Flag)(&o.passphraseFile), "passphrase-file", "take the passphrase of the identity from the one line of a file with mode 0600")
	f.BoolVar(&o.noIdentity, "no-identity", false, "leave out the identity in the backup: the daemon makes a new one")
	return cmd
}

type restoreOptions struct {
	passphraseFile string
	noIdentity     bool
}

// restored is what restore prints as JSON.
type restored struct {
	Home     string                `json:"home"`
	Made     time.Time             `json:"made"`
	Identity identity.ID           `json:"identity"`        // that the backup is of
	Source   backup.IdentitySource `json:"identity_source"` // where the identity in the directory comes from
	Peers    []string              `json:"peers"`           // that are trusted now
	Notes    []string              `json:"notes"`           // what must be known before the daemon starts
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
	options := backup.Options{Dir: dir}
	if !o.noIdentity {
		options.Passphrase = func() (string, error) { return v.readOldPassphrase(ctx, o.passphraseFile) }
	}
	r, err := backup.Prepare(ctx, archive, options)
	if err != nil {
		return explainFullDisk(dir, fmt.Errorf("%s: %w", file, err))
	}
	defer r.Close()
	result := &restored{Home: dir, Made: r.Manifest.Made, Identity: r.Manifest.Identity, Source: r.Identity, Peers: []string{}}
	for _, p := range r.Peers {
		result.Peers = append(result.Peers, p.Name)
	}
	if err := r.Commit(); err != nil {
		return explainFullDisk(dir, err)
	}
	if r.Warning != nil {
		v.Warn("warning: %s", r.Warning.Error())
	}
	result.Notes = slices.Concat(listCommandNotes(dir), listRelayNotes(dir, r.Identity), listRestoreNotes(result, o.noIdentity))
	for _, note := range result.Notes {
		v.Warn("note: %s", note)
	}
	return v.PrintData(result, func() {
		v.PrintLine("%s", dir)
		v.PrintForPerson("The state is that of %s. Trusted peers: %s.", v.FormatTime(result.Made), cmp.Or(strings.Join(result.Peers, ", "), "none"))
	})
}

// listRestoreNotes returns what must be known before the daemon starts. isLeftOut reports whether no identity is wanted.
func listRestoreNotes(r *restored, isLeftOut bool) []string {
	who := fmt.Sprintf("the identity is %s: no other daemon may run with it; peers would see its connections jump between two machines", r.Identity)
	if r.Source == backup.IdentityNone {
		who = "the identity is not restored: acpd makes a new one when it starts, and each peer must trust that"
		if !isLeftOut {
			who += "; if you have its identity.key, put that there before"
		}
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
