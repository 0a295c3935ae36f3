package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
)

const (
	pemType    = "PRIVATE KEY"
	maxKeyFile = 4 << 10
)

// LoadKey reads an identity from a PKCS#8 PEM file (RFC 5958, RFC 7468, RFC
// 8410). A file that is corrupt, more open than 0600, a symbolic link, not a
// regular file or another user's gives a [*durable.FileError]; a missing one
// [fs.ErrNotExist].
func LoadKey(path string) (*Key, error) {
	data, err := durable.ReadPrivateFile(path, maxKeyFile)
	if err == nil {
		var key *Key
		if key, err = parseKey(data); err == nil {
			return key, nil
		}
		err = &durable.FileError{Path: path, Problem: durable.ProblemCorrupt, Detail: err.Error(),
			Remedy: "restore it from a backup, or move it away to start as a new agent that every peer must trust anew"}
	}
	return nil, ownwords.Errorf("load key: %w", err)
}

// CreateKey makes an identity and writes it to path with mode 0600. The file
// appears complete and durable or not at all, and an existing one is never
// touched: that is [fs.ErrExist]. The directory must exist, on a file system
// with hard links.
func CreateKey(path string) (*Key, error) {
	key, err := GenerateKey()
	if err != nil {
		return nil, err
	}
	data, err := key.encodePEM()
	if err != nil {
		return nil, ownwords.Errorf("create key: %w", err)
	}
	temp := path + "." + rand.Text()
	if err := durable.CreateFile(temp, data, durable.PrivateMode); err != nil {
		return nil, ownwords.Errorf("create key: %w", err)
	}
	// Unlike rename, link refuses to replace what is there.
	err = os.Link(temp, path)
	os.Remove(temp) // if that fails, removeLeftoverKeyFiles will do it
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if _, there := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && there == nil {
		err = fs.ErrExist // another call has made the key and removed this file
	}
	if errors.Is(err, fs.ErrExist) {
		return nil, ownwords.Errorf("create key: %w: load it, or move it away", err)
	}
	if err != nil {
		return nil, ownwords.Errorf("create key: %w", err)
	}
	return key, nil
}

// removeLeftoverKeyFiles removes the files that crashes have left of CreateKey. The key at path
// exists.
func removeLeftoverKeyFiles(path string) {
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, f := range files {
		if leftoverPattern.MatchString(strings.TrimPrefix(f.Name(), filepath.Base(path))) {
			os.Remove(filepath.Join(filepath.Dir(path), f.Name()))
		}
	}
}

// leftoverPattern matches what CreateKey appends to the name of its first file.
var leftoverPattern = regexp.MustCompile(`^\.[A-Z2-7]{26}$`)

// LoadOrCreateKey loads the identity at path, or creates the file. If
// several calls create it at once, one wins, and all return its key. It removes what
// crashes have left of CreateKey.
func LoadOrCreateKey(path string) (key *Key, created bool, err error) {
	key, err = LoadKey(path)
	if err == nil {
		removeLeftoverKeyFiles(path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	key, err = CreateKey(path)
	if errors.Is(err, fs.ErrExist) {
		key, err = LoadKey(path)
		return key, false, err
	}
	if err == nil {
		removeLeftoverKeyFiles(path)
	}
	return key, err == nil, err
}

func (k *Key) encodePEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.privateKey())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// parseKey parses one PEM block and refuses anything before or after it, which package
// pem would skip. Errors do not quote the data.
func parseKey(data []byte) (*Key, error) {
	if !bytes.HasPrefix(data, []byte("-----BEGIN "+pemType+"-----")) {
		return nil, ownwords.New("does not begin as a PKCS#8 PEM file")
	}
	block, rest := pem.Decode(data)
	switch {
	case block == nil || block.Type != pemType:
		return nil, ownwords.New("truncated or damaged PEM")
	case len(block.Headers) > 0:
		return nil, ownwords.New("unexpected PEM headers")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, ownwords.New("something follows the key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, ownwords.New("not a PKCS#8 private key")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, ownwords.New("not an Ed25519 key")
	}
	return newKey(private), nil
}
