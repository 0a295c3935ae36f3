package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/backup"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
)

func (v *verbs) newBackupCmd() *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a backup of the state directory into a file",
		Example: `  acpctl backup acp-desk.tar
  acpctl backup acp-desk.tar --identity             with the key, encrypted with a passphrase
  acpctl backup - | age -r age1… >acp-desk.tar.age  all of it encrypted, for whoever keeps it`,
		Long: `Writes the configuration, the trusted peers, the rules of waking, the relays and all
that state.db has: the inbox, delegations, bindings and channels. acpd may run
meanwhile. FILE is for you alone to read; - stands for standard output. It is
written whole or not at all, and never over another file without --force.

What peers wrote is readable in it. The identity is in it only with --identity,
and then only encrypted; the program age decrypts it too. Mailboxes of OACP, and what setup
wrote for other programs, are not in it.`,
		RunE: func(cmd *cobra.Command, args []string) error { return v.backUp(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.withIdentity, "identity", false, "also the identity, encrypted with a passphrase")
	f.Var((*shellpath.Flag)(&o.passphraseFile), "passphrase-file", "take the passphrase from the one line of a file with mode 0600")
	f.BoolVar(&o.force, "force", false, "write over FILE if it is there")
	return cmd
}

type backupOptions struct {
	withIdentity   bool
	passphraseFile string
	force          bool
}

func (v *verbs) backUp(ctx context.Context, file string, o backupOptions) error {
	switch {
	case v.AsGuest:
		return frame.UsageErrorf("a backup is for whoever the daemon belongs to, and ACP_SOCKET is set: unset it")
	case o.passphraseFile != "" && !o.withIdentity:
		return frame.UsageErrorf("--passphrase-file: it protects the identity: add --identity, or leave it out")
	case file == "":
		return frame.UsageErrorf("FILE is empty")
	case file == "-" && v.OutTTY:
		return frame.UsageErrorf("FILE: standard output is a terminal: name a file, or add > and one")
	case file == "-" && v.JSON:
		return frame.UsageErrorf("--json: standard output is the backup: name a file")
	}
	if _, err := os.Lstat(file); file != "-" && err == nil && !o.force {
		return fmt.Errorf("%s is there: name another file, or --force writes over it", file)
	}
	dir, err := v.FindStateDir()
	if err != nil {
		return err
	}
	key, err := identity.LoadKey(filepath.Join(dir, statedir.KeyName))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no state of a daemon: name the directory with --home", dir)
	}
	if err != nil {
		return err
	}
	var secret []byte
	if o.withIdentity {
		// Before the daemon copies anything: a person may take long.
		if secret, err = v.encryptIdentity(ctx, dir, o.passphraseFile); err != nil {
			return err
		}
	}
	m := &backup.Manifest{Made: time.Now().UTC(), Identity: key.ID(), Program: v.version}
	state, withLog, release, err := v.openState(ctx, dir, m)
	if err != nil {
		return err
	}
	defer release()
	members, err := backup.ListMembers(dir, state, withLog)
	if err != nil {
		return err
	}
	if secret != nil {
		members = append(members, backup.Member{Name: backup.IdentityName, Text: secret})
	}
	if _, _, warning, err := identity.InspectTrust(dir); err != nil {
		return err
	} else if warning != nil {
		v.Warn("warning: %s", warning.Error())
	}
	const withoutIdentity = "the identity is not in it: --identity adds it, encrypted"
	if file == "-" {
		if secret == nil {
			v.Warn("note: %s", withoutIdentity)
		}
		return backup.Write(ctx, v.Out, m, members)
	}
	if err := writeBackupFile(ctx, file, o.force, m, members); err != nil {
		return err
	}
	return v.PrintData(m, func() {
		v.PrintLine("%s", file)
		v.PrintForPerson("%d bytes: %s", m.Size(), m.ListNames())
		if !m.HasIdentity() {
			v.PrintForPerson("%s.", withoutIdentity)
		}
	})
}

func (v *verbs) encryptIdentity(ctx context.Context, dir, passphraseFile string) ([]byte, error) {
	passphrase, err := v.chooseNewPassphrase(ctx, passphraseFile)
	if err != nil {
		return nil, err
	}
	key, err := durable.ReadPrivateFile(filepath.Join(dir, statedir.KeyName), 4<<10)
	if err != nil {
		return nil, err
	}
	return backup.EncryptIdentity(key, passphrase)
}

// openState returns the path of state.db, or of a copy that the daemon makes if it runs, and
// says in m what it is. withLog says that it is the file itself, to which its log belongs. release
// ends both: the lock under which no daemon starts, and the copy.
func (v *verbs) openState(ctx context.Context, dir string, m *backup.Manifest) (path string, withLog bool, release func(), err error) {
	lock, err := statedir.LockDir(dir, "acpctl backup")
	if held, ok := errors.AsType[*statedir.HeldError](err); ok && held.Program == "" {
		// The daemon of this very directory, whatever ACP_HOME means.
		v.Daemon.Socket = filepath.Join(dir, client.SocketName)
		got, err := v.Daemon.CopyState(ctx)
		if err != nil {
			v.Daemon.Close()
			if client.IsOlderDaemon(err) { // whose next upgrade may be what the backup is for
				err = errors.New("the daemon that runs is older than this program and copies nothing: stop acpd, and repeat the backup")
			}
			return "", false, nil, err
		}
		m.State, m.Program = got.Schema, got.Program
		return got.Path, false, func() { v.Daemon.Close() }, nil
	}
	if err != nil {
		return "", false, nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := statedir.CheckComplete(dir); err != nil {
		return "", false, nil, err
	}
	path = filepath.Join(dir, statedir.StateName)
	f, err := os.Open(path)
	if err != nil {
		return "", false, nil, err
	}
	defer f.Close()
	if m.State, err = statedir.ReadStateVersion(f); err != nil {
		return "", false, nil, fmt.Errorf("%s: %w", path, err)
	}
	return path, true, func() { lock.Close() }, nil
}

// writeBackupFile writes the archive under a temporary name, which a crash may leave and the next backup
// of the same name replaces, and renames it when it is whole and durable.
func writeBackupFile(ctx context.Context, file string, force bool, m *backup.Manifest, members []backup.Member) (err error) {
	temp := file + ".part"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	err = backup.Write(ctx, f, m, members)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return explainFullDisk(file, err)
	}
	rename := durable.RenameIfAbsent
	if force {
		rename = os.Rename
	}
	if err := rename(temp, file); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there now: name another file, or --force writes over it", file)
	} else if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(file))
}
