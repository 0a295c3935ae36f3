package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/yamldoc"
)

// ReadAuthority returns an authority once for each of its keys, with what its file says that it has revoked. dir is
// the state directory.
func (o *Organisation) ReadAuthority(name, dir string) (all []identity.Authority, err error) {
	says, at := o.Authorities[name], yamldoc.JoinKey("organisation.authorities", name)
	a := identity.Authority{Name: name}
	if says.Revoked != "" {
		data, err := ReadStateFile(dir, says.Revoked, identity.MaxRevocationFile)
		if err != nil {
			return nil, fmt.Errorf("%s.revoked: %w; write it, or remove the setting", at, err)
		}
		if a.Revoked, err = identity.ParseRevocations(data); err != nil {
			return nil, fmt.Errorf("%s.revoked: %s: %w", at, says.Revoked, err)
		}
	}
	for _, line := range []string{says.Key, says.NextKey} {
		if line == "" {
			continue
		}
		if a.Key, err = identity.ParseAuthorityKey(line); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// FindStateFile returns the path of a file that a setting names: in the state directory, or elsewhere.
func FindStateFile(dir, name string) (string, error) {
	if rest, inHome := strings.CutPrefix(name, "~/"); inHome {
		user, err := os.UserHomeDir()
		return filepath.Join(user, rest), err
	}
	if filepath.IsAbs(name) {
		return name, nil
	}
	return filepath.Join(dir, name), nil
}

// ReadStateFile reads a file that a setting names, of at most so many bytes.
func ReadStateFile(dir, name string, most int64) ([]byte, error) {
	path, err := FindStateFile(dir, name)
	if err != nil {
		return nil, err
	}
	data, err := durable.ReadRegularFile(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", path)
	}
	return data, err
}
