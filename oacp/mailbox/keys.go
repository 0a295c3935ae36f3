package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

const maxKeyFile = 64 << 10

// signing is what the config.yaml of an agent says about its messages.
type signing struct {
	messages bool
	kid      string // the one key to sign with; "": all
}

// signing reads the agent's config.yaml. What cannot be read is an error, for a
// message that was to be signed must not go unsigned.
func (a Agent) signing() (s signing, err error) {
	path := filepath.Join(a.Dir(), "config.yaml")
	b, _, err := readAll(path, 0, message.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var config struct {
		Signing struct {
			Messages yaml.Node `yaml:"sign_messages"`
			KID      yaml.Node `yaml:"kid"`
		} `yaml:"signing"`
	}
	if err == nil {
		err = yaml.Unmarshal(b, &config)
	}
	if err != nil {
		return s, fmt.Errorf("cannot read sender config %s: %w — refusing to guess signing intent", path, err)
	}
	if n := config.Signing.Messages; !n.IsZero() && (n.ShortTag() != "!!bool" || n.Decode(&s.messages) != nil) {
		return s, fmt.Errorf("%s: signing.sign_messages must be a boolean: write true or false, without quotes", path)
	}
	if n := config.Signing.KID; !n.IsZero() && n.ShortTag() != "!!null" && (n.ShortTag() != "!!str" || n.Decode(&s.kid) != nil || s.kid == "") {
		return s, fmt.Errorf("%s: signing.kid must be a non-empty string", path)
	}
	return s, nil
}

// signingKeys reads the agent's private keys, or the one that kid names, from
// keys/<trust domain>/<agent>/<machine>/<kid>.json. Nobody else may read them.
func (h Home) signingKeys(agent, kid string) (keys []message.SigningKey, err error) {
	paths, err := fs.Glob(os.DirFS(string(h)), path.Join("keys", "*", agent, "*", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, found := range paths {
		name, path := path.Base(found), filepath.Join(string(h), filepath.FromSlash(found))
		if strings.HasSuffix(name, ".pub.json") || kid != "" && name != kid+".json" {
			continue
		}
		for _, p := range []string{path, filepath.Dir(path)} {
			info, err := os.Lstat(p)
			if err != nil {
				return nil, err
			}
			if mode := info.Mode().Perm(); mode&0o077 != 0 {
				return nil, fmt.Errorf("%s is open to others (mode %04o): chmod go= %s", p, mode, p)
			}
		}
		data, _, err := readAll(path, 0, maxKeyFile)
		if err != nil {
			return nil, err
		}
		k, err := message.ParseSigningKey(data)
		if err != nil {
			return nil, fmt.Errorf("key file %s: %w", path, err)
		}
		if k.Agent == agent {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no signing key for agent '%s' under %s — run: oacp key gen --agent %s (from release 0.5 on: oacp trust keygen)", agent, filepath.Join(string(h), "keys"), agent)
	}
	return keys, nil
}

// sign signs what is to be sent.
func (s *Sent) sign(h Home, kid string) error {
	keys, err := h.signingKeys(s.Message.From, kid)
	if err != nil {
		return err
	}
	s.Data, s.KIDs, err = message.Sign(s.Data, keys)
	return err
}
