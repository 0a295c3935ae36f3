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

// signing is what the config.yaml of an agent says about its messages.
type signing struct {
	messages bool
	kid      string // the one key to sign with; "": all
}

// signing reads the agent's config.yaml. What cannot be read is an error, for a
// message that was to be signed must not go unsigned.
func (a Agent) signing() (s signing, err error) {
	path := filepath.Join(a.Dir(), "config.yaml")
	root, err := readYAML(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("cannot read sender config %s: %w — refusing to guess signing intent", path, err)
	}
	if root != nil && root.Kind != yaml.MappingNode {
		return s, fmt.Errorf("sender config %s must be a YAML mapping", path)
	}
	block := message.Member(root, "signing")
	if block == nil || block.ShortTag() == "!!null" {
		return s, nil
	}
	if block.Kind != yaml.MappingNode {
		return s, fmt.Errorf("%s: signing block must be a mapping", path)
	}
	if n := message.Member(block, "sign_messages"); n != nil {
		var ok bool
		if s.messages, ok = truth(n); !ok {
			return s, fmt.Errorf("%s: signing.sign_messages must be a boolean: write true or false, without quotes", path)
		}
	}
	if n := message.Member(block, "kid"); n != nil && n.ShortTag() != "!!null" {
		if s.kid = n.Value; s.kid == "" || n.ShortTag() != "!!str" {
			return s, fmt.Errorf("%s: signing.kid must be a non-empty string", path)
		}
	}
	return s, nil
}

// readYAML reads a file that stands beside mailboxes.
func readYAML(path string) (*yaml.Node, error) {
	b, _, err := readAll(path, 0, message.MaxBytes)
	if err != nil {
		return nil, err
	}
	return message.Load(b)
}

// truth reads a boolean of YAML 1.1.
func truth(n *yaml.Node) (value, ok bool) {
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

// signingKeys reads the agent's private keys, or the one that kid names, from
// keys/<trust domain>/<agent>/<machine>/<kid>.json. Nobody else may read them.
func (h Home) signingKeys(agent, kid string) (keys []message.SigningKey, err error) {
	root := filepath.Join(string(h), "keys")
	domains, err := names(root)
	if err != nil {
		return nil, err
	}
	for _, domain := range domains {
		machines, err := names(filepath.Join(root, domain, agent))
		if err != nil {
			return nil, err
		}
		for _, machine := range machines {
			dir := filepath.Join(root, domain, agent, machine)
			files, err := names(dir)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				stem, ok := strings.CutSuffix(file, ".json")
				if !ok || len(stem) != kidLength || kid != "" && stem != kid {
					continue
				}
				k, err := readKey(filepath.Join(dir, file))
				switch {
				case errors.Is(err, errNoKey):
				case err != nil:
					return nil, err
				case k.Agent == agent:
					keys = append(keys, k)
				}
			}
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

// names lists a folder; what is not there, or is no folder, has none.
func names(dir string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all, err
}

// errNoKey is of what lies among keys and is no file, or is gone.
var errNoKey = errors.New("no key file")

func readKey(path string) (k message.SigningKey, err error) {
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
	data, _, err := readAll(path, 0, maxKeyFile)
	if err == nil {
		k, err = message.ParseSigningKey(data)
	}
	if err != nil {
		return k, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

// sign signs what is to be sent.
func (s *Sent) sign(h Home, kid string) error {
	keys, err := h.signingKeys(s.Message.From, kid)
	if err != nil {
		return err
	}
	if s.Data, s.KIDs, err = message.Sign(s.Data, keys); err != nil {
		return err
	}
	if n := len(s.KIDs); n < len(keys) {
		s.Warnings = append(s.Warnings, fmt.Sprintf("WARNING: signed with the %d newest of %d keys: remove key files that are out of use", n, len(keys)))
	}
	return nil
}
