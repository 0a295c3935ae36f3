package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/yamldoc"
)

// CheckStateFiles reads the files that the settings name, as acpd does with the state directory dir. Without those of
// authorities it does not start: they are errors of file, for [ListErrors]. Without each other one it does not use what
// that is for.
func (c *Config) CheckStateFiles(file, dir string) (warnings []string, err error) {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(c.Organisation.Authorities)) {
		if _, err := c.Organisation.ReadAuthority(name, dir); err != nil {
			wrong = append(wrong, &Error{File: file, Key: yamldoc.JoinKey("organisation.authorities", name) + ".revoked", Problem: err.Error()})
		}
	}
	if c.Organisation.Certificate != "" {
		if _, _, err := c.Organisation.ReadCertificate(dir); err != nil {
			warnings = append(warnings, err.Error())
		}
	}
	for i := range c.Reach.Relays {
		r := &c.Reach.Relays[i]
		if _, err := r.CheckCredentials(dir); err != nil {
			warnings = append(warnings, fmt.Sprintf("relay %s: %v", r.Name, err))
		}
	}
	return warnings, errors.Join(wrong...)
}

// ReadCertificate returns the certificate of this daemon, and what it says. It may be for another key, and may have
// ended.
func (o *Organisation) ReadCertificate(dir string) (raw []byte, says *identity.Certificate, err error) {
	const at = "organisation.certificate"
	data, err := readStateFile(dir, o.Certificate, identity.MaxCertificateFile, "have the line signed that acpctl cert request prints, put the result there, and reload")
	if err != nil {
		return nil, nil, ownwords.Errorf("%s: %w", at, err)
	}
	if raw, err = identity.ParseCertificateFile(data); err == nil {
		says, err = identity.InspectCertificate(raw)
	}
	if err != nil {
		return nil, nil, ownwords.Errorf("%s: %s: %w", at, o.Certificate, err)
	}
	return raw, says, nil
}

// CheckCredentials returns the path of a relay's file of credentials, or "". It returns an error if the file cannot
// be read, or is open to others. It does not look at the content.
func (r *Relay) CheckCredentials(dir string) (file string, err error) {
	if r.Credentials == "" {
		return "", nil
	}
	file, err = FindStateFile(dir, r.Credentials)
	if err == nil {
		var secret []byte
		secret, err = durable.ReadPrivateFile(file, maxCredentialsFile)
		clear(secret)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ownwords.Errorf("credentials: %s is not there: put it there", file)
	case err != nil:
		return "", ownwords.Errorf("credentials: %w", err)
	}
	return file, nil
}

const maxCredentialsFile = 64 << 10 // bytes

// ReadAuthority returns an authority once for each of its keys, with the certificates that its file revokes. dir is
// the state directory.
func (o *Organisation) ReadAuthority(name, dir string) (all []identity.Authority, err error) {
	says, at := o.Authorities[name], yamldoc.JoinKey("organisation.authorities", name)
	a := identity.Authority{Name: name}
	if says.Revoked != "" {
		data, err := readStateFile(dir, says.Revoked, identity.MaxRevocationFile, "write it, or remove the setting")
		if err != nil {
			return nil, ownwords.Errorf("%s.revoked: %w", at, err)
		}
		if a.Revoked, err = identity.ParseRevocations(data); err != nil {
			return nil, ownwords.Errorf("%s.revoked: %s: %w", at, says.Revoked, err)
		}
	}
	for _, line := range []string{says.Key, says.NextKey} {
		if line == "" {
			continue
		}
		if a.Key, err = identity.ParseAuthorityKey(line); err != nil {
			return nil, ownwords.Errorf("%s: %w", at, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// FindStateFile returns the path of a file that a setting names: in the state directory, or elsewhere.
func FindStateFile(dir, name string) (string, error) {
	if rest, inHome := strings.CutPrefix(name, "~/"); inHome {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", ownwords.Errorf("%s: %w: write a path that begins with /", name, err)
		}
		return filepath.Join(user, rest), nil
	}
	if filepath.IsAbs(name) {
		return name, nil
	}
	return filepath.Join(dir, name), nil
}

// readStateFile reads a file that a setting names, of at most so many bytes. remedy is for one that is not there.
func readStateFile(dir, name string, most int64, remedy string) ([]byte, error) {
	path, err := FindStateFile(dir, name)
	if err != nil {
		return nil, err
	}
	data, err := durable.ReadRegularFile(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ownwords.Errorf("there is no file %s: %s", path, remedy)
	}
	return data, err
}
