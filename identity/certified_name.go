package identity

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// Hash returns the SHA-256 of the key in the binary form of OpenSSH, as ssh-keygen -l shows it in
// base64.
func (k AuthorityKey) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(k.wire)) }

// Signer returns the key that has signed the certificate. Of one from [InspectCertificate] that is what
// the certificate says, and nothing has checked it.
func (c *Certificate) Signer() AuthorityKey { return c.signer }

// ListAuthorityKeys returns the keys of the authority that has this name here: two while it changes its
// key, none if there is no such authority.
func (t *TrustStore) ListAuthorityKeys(name string) (keys []AuthorityKey) {
	c := &t.certified
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, a := range c.authorities {
		if a.Name == name {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// CheckNamed returns a certificate, for any key, if it is valid here and gives that key a
// name, such as build-7.corp. raw is its binary form. CheckNamed does not check that the sender of the
// certificate has the key: its peer has to prove it.
func (t *TrustStore) CheckNamed(raw []byte, name string, now time.Time) (*Certificate, error) {
	says, err := InspectCertificate(raw)
	if err != nil {
		return nil, err
	}
	checked, err := CheckCertificate(raw, says.ID, t.Authorities(), now)
	switch {
	case err != nil:
		return nil, err
	case checked.Name != name:
		return nil, ownwords.Errorf("certificate: it is of %s, and not of %s", checked.Name, CleanClaim(name))
	case t.isNameOrKeyBlocked(checked.Name, checked.ID):
		return nil, ownwords.Errorf("certificate: %s was untrusted here", checked.Name)
	}
	return checked, nil
}

// IsStillGood reports whether a certificate that counted here once does so now.
func (t *TrustStore) IsStillGood(cert *Certificate, now time.Time) bool {
	c := &t.certified
	c.mu.RLock()
	i := slices.IndexFunc(c.authorities, func(a Authority) bool { return a.Key == cert.signer && a.Name == cert.Authority })
	good := i >= 0 && !cert.isRevokedBy(c.authorities[i].Revoked)
	c.mu.RUnlock()
	return good && cert.IsValidAt(now) && !t.isNameOrKeyBlocked(cert.Name, cert.ID)
}
