package serve

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/kinds"
)

// readKeyFile returns the key in a file, or "" without a file.
func readKeyFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("--key-file: %w: make the folder first", err)
		}
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("--key-file: %w: name another file, or one that does not exist yet", err)
	}
	key := strings.TrimSpace(string(text))
	if b, err := hex.DecodeString(key); key != "" && (err != nil || len(b) != 32) {
		return "", fmt.Errorf("--key-file: %s holds no key, which is 64 hex digits: remove it if it is of no use, or name another file", path)
	}
	return key, nil
}

// writeKeyFile keeps a key in a file that only its owner can read.
func writeKeyFile(path, key string) error {
	if path == "" {
		return nil
	}
	if old, err := readKeyFile(path); err == nil && old == key {
		return nil
	}
	return durable.ReplaceFile(path, path+".new", []byte(key+"\n"), 0o600)
}

// explainKeyError puts into the refusal of a name how its key is given on the command line.
func (s *server) explainKeyError(err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != kinds.NotAuthorized {
		return err
	}
	told := *e
	how := "start again with --key-file and the file in which that agent kept its key"
	if s.keyFile != "" {
		how = "--key-file: " + s.keyFile + " does not have its key: name the file that has"
	}
	told.Message = strings.Replace(e.Message, "show its key", how, 1)
	if strings.HasPrefix(e.Message, client.MethodSpeak+": key: ") {
		told.Message = fmt.Sprintf("--key-file: %s has not the key of the agent %q, which is another's name here: name the file that has it, or choose another name with --name", s.keyFile, s.name)
	}
	return &told
}
