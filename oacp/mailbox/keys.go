package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

const (
	maxKeyFile = 64 << 10
	kidLength  = 43 // of the names of key files, without their ending
)

// signingSettings holds the settings of an agent for signatures, from its config.yaml.
type signingSettings struct {
	messages bool   // sign all
	kid      string // the one key to sign with; "": all
}

// readSigningSettings reads the agent's config.yaml. It returns an error for a file that it cannot
// read, because a message that was to be signed must not go unsigned.
func (a Agent) readSigningSettings() (s signingSettings, err error) {
	path := filepath.Join(a.Dir(), "config.yaml")
	root, err := loadYAMLFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("cannot read sender config %s: %w — refusing to guess signing intent", path, err)
	}
	if root != nil && root.Kind != yaml.MappingNode {
		return s, fmt.Errorf("sender config %s must be a YAML mapping", path)
	}
	block := message.FindYAMLMember(root, "signing")
	if block == nil || block.ShortTag() == "!!null" {
		return s, nil
	}
	if block.Kind != yaml.MappingNode {
		return s, fmt.Errorf("%s: signing block must be a mapping", path)
	}
	if n := message.FindYAMLMember(block, "sign_messages"); n != nil {
		var ok bool
		if s.messages, ok = parseYAMLBool(n); !ok {
			return s, fmt.Errorf("%s: signing.sign_messages must be a boolean: write true or false, without quotes", path)
		}
	}
	if n := message.FindYAMLMember(block, "kid"); n != nil && n.ShortTag() != "!!null" {
		if s.kid = n.Value; s.kid == "" || n.ShortTag() != "!!str" {
			return s, fmt.Errorf("%s: signing.kid must be a non-empty string", path)
		}
	}
	return s, nil
}

// parseYAMLBool reads a boolean of YAML 1.1. ok is false if n is none.
func parseYAMLBool(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style != 0 {
		return false, false
	}
	for i, word := range []string{"true", "yes", "on", "false", "no", "off"} {
		if n.Value == word || n.Value == strings.ToUpper(word) || n.Value == strings.ToUpper(word[:1])+word[1:] {
			return i < 3, true
		}
	}
	return false, false
}

// readSigningKeys reads the agent's private keys, or the one that kid names, from
// keys/<trust domain>/<agent>/<machine>/<kid>.json. It refuses keys that others may read.
func (h Home) readSigningKeys(agent, kid string) (keys []message.SigningKey, err error) {
	root := filepath.Join(string(h), "keys")
	var machines, files []string
	domains, err := listPathsUnder([]string{root}, "")
	if err == nil {
		machines, err = listPathsUnder(domains, agent)
	}
	if err == nil {
		files, err = listPathsUnder(machines, "")
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		stem, ok := strings.CutSuffix(filepath.Base(file), ".json")
		if !ok || len(stem) != kidLength || kid != "" && stem != kid {
			continue
		}
		k, err := readSigningKey(file)
		switch {
		case errors.Is(err, errNoKey):
		case err != nil:
			return nil, err
		case k.Agent == agent:
			keys = append(keys, k)
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case kid != "":
		return nil, fmt.Errorf("no signing key for agent '%s' under %s is %s, which signing.kid in its config.yaml names: oacp key list shows those that are", agent, root, kid)
	}
	return nil, fmt.Errorf("no signing key for agent '%s' under %s — run: oacp key gen --agent %s (from release 0.5 on: oacp trust keygen)", agent, root, agent)
}

// listPathsUnder returns the paths of all that lies in the folders dir/sub. It skips those that are
// missing or no folders.
func listPathsUnder(dirs []string, sub string) (all []string, err error) {
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		for _, e := range entries {
			all = append(all, filepath.Join(dir, sub, e.Name()))
		}
	}
	return all, nil
}

// errNoKey says that an entry of a folder of keys is no file, or is gone.
var errNoKey = errors.New("no key file")

func readSigningKey(path string) (k message.SigningKey, err error) {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) || err == nil && p == path && !info.Mode().IsRegular() {
			return k, errNoKey
		}
		if err != nil {
			return k, err
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			return k, fmt.Errorf("%s is open to others (mode %04o): chmod go= %s", p, mode, p)
		}
	}
	data, _, err := readLimitedFile(path, 0, maxKeyFile)
	if err == nil {
		k, err = message.ParseSigningKey(data)
	}
	if err != nil {
		return k, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

// signWithKeys signs a message with the keys of its sender, or with the one that kid names.
func (s *Sent) signWithKeys(h Home, kid string) error {
	keys, err := h.readSigningKeys(s.Message.From, kid)
	if err != nil {
		return err
	}
	if s.Data, s.KIDs, err = message.SignMessage(s.Data, keys); err != nil {
		return err
	}
	if n := len(s.KIDs); n < len(keys) {
		s.Warnings = append(s.Warnings, fmt.Sprintf("WARNING: signed with the %d newest of %d keys: remove key files that are out of use", n, len(keys)))
	}
	return nil
}

// ReadPins reads the keys that the agent trusts. An agent without the file trusts none.
func (a Agent) ReadPins() message.Pins {
	return ReadPinFile(filepath.Join(a.Dir(), "trust", "allowed_signers.yaml"))
}

// ReadPinFile reads a file of trusted keys. If it cannot, Err of the pins says why.
func ReadPinFile(path string) message.Pins {
	data, err := ReadFileOrLink(path)
	if errors.Is(err, fs.ErrNotExist) {
		return message.Pins{Source: path}
	}
	if err != nil {
		return message.Pins{Source: path, Err: fmt.Errorf("cannot read pin file %s: %w", path, err)}
	}
	return message.ParsePins(path, data)
}
