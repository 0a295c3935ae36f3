package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

const (
	// MinPassphrase is the least number of bytes of a passphrase: whoever has the archive can try
	// as many as they like.
	MinPassphrase = 12

	workFactor    = 18 // age's own: 256 MiB and about a second
	maxWorkFactor = 20 // 1 GiB
)

// ErrWrongPassphrase says that a passphrase does not open the identity in an archive.
var ErrWrongPassphrase = errors.New("identity: the passphrase is wrong: try again, or restore without it (--no-identity)")

// CheckPassphrase refuses a passphrase that protects nothing.
func CheckPassphrase(passphrase string) error {
	if len(passphrase) < MinPassphrase {
		return fmt.Errorf("passphrase: it has under %d bytes: whoever gets the backup can try as many as they like, so take a longer one", MinPassphrase)
	}
	return nil
}

// EncryptIdentity encrypts the text of identity.key, as age --passphrase does. It needs about
// a second and 256 MiB.
func EncryptIdentity(key []byte, passphrase string) ([]byte, error) {
	if err := CheckPassphrase(passphrase); err != nil {
		return nil, err
	}
	return encryptIdentity(key, passphrase, workFactor)
}

func encryptIdentity(key []byte, passphrase string, work int) ([]byte, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	to.SetWorkFactor(work)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err == nil {
		_, err = w.Write(key)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return out.Bytes(), nil
}

// decryptIdentity returns the text of identity.key. It refuses what would take over 1 GiB.
func decryptIdentity(text []byte, passphrase string) ([]byte, error) {
	with, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	with.SetMaxWorkFactor(maxWorkFactor)
	r, err := age.Decrypt(bytes.NewReader(text), with)
	if _, wrong := errors.AsType[*age.NoIdentityMatchError](err); wrong {
		return nil, ErrWrongPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	key, err := io.ReadAll(r) // the member is bounded
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return key, nil
}
