package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/acpd/acpd/internal/app/backup"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// chooseNewPassphrase returns the passphrase for an identity: that of the file, or what a person
// types twice.
func (v *verbs) chooseNewPassphrase(ctx context.Context, file string) (string, error) {
	if file != "" {
		passphrase, err := readPrivateLine("--passphrase-file", file)
		if err != nil {
			return "", err
		}
		return passphrase, backup.CheckPassphrase(passphrase)
	}
	passphrase, err := v.askPassphrase(ctx, fmt.Sprintf("Passphrase for the identity, of %d bytes or more: ", backup.MinPassphrase))
	if err != nil {
		return "", err
	}
	if err := backup.CheckPassphrase(passphrase); err != nil {
		return "", err
	}
	again, err := v.askPassphrase(ctx, "The same again: ")
	if err == nil && again != passphrase {
		err = errors.New("passphrase: the two are not the same: try again")
	}
	return passphrase, err
}

func (v *verbs) askPassphrase(ctx context.Context, prompt string) (string, error) {
	passphrase, err := v.ReadSecret(ctx, prompt)
	if errors.Is(err, ui.ErrNoTerminal) {
		return "", frame.UsageErrorf("passphrase: %w: --passphrase-file names a file that has it", err)
	}
	return passphrase, err
}

// readOldPassphrase returns the passphrase of an identity in a backup: from the file, or from a person.
func (v *verbs) readOldPassphrase(ctx context.Context, file string) (string, error) {
	if file != "" {
		return readPrivateLine("--passphrase-file", file)
	}
	return v.askPassphrase(ctx, "Passphrase of the identity in the backup: ")
}
