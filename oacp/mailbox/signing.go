package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

// checkUnsigned returns an error if the agent's config.yaml says, or may say, that its messages
// are to be signed: acpd makes no signatures, and such a message must not go unsigned.
func (a Agent) checkUnsigned() error {
	path := filepath.Join(a.Dir(), "config.yaml")
	root, err := loadYAMLFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && root == nil:
		return nil
	case err != nil:
		return fmt.Errorf("nothing was sent: %s, which says whether %s signs its messages, cannot be read: %w", path, a.Name, err)
	}
	signing := message.FindYAMLMember(root, "signing")
	if root.Kind == yaml.MappingNode && (signing == nil || signing.ShortTag() == "!!null") {
		return nil
	}
	if root.Kind != yaml.MappingNode || signing.Kind != yaml.MappingNode {
		return fmt.Errorf("nothing was sent: %s: it must be a mapping, and signing one in it", path)
	}
	if n := message.FindYAMLMember(signing, "sign_messages"); n == nil || n.Style == 0 && slices.Contains([]string{"false", "no", "off"}, strings.ToLower(n.Value)) {
		return nil
	}
	return fmt.Errorf("nothing was sent: %s says sign_messages, and acpctl signs nothing: send it with the reference tool, oacp send; acpd carries it as it is", path)
}
