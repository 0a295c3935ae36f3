// Package authority signs certificates of daemons for tests, as ssh-keygen does for people.
package authority

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/identity"
)

// age is how long ago the certificates were signed.
const age = 60 * 24 * time.Hour

// Authority is an authority with its private key.
type Authority struct {
	identity.Authority
	t      testing.TB
	signer ssh.Signer
}

// New returns an authority with a key of its own. name is that by which the daemons of a test know it.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, signer: NewSigner(t)}
	a.Name = name
	var err error
	if a.Key, err = identity.ParseAuthorityKey(a.Line()); err != nil {
		t.Fatal(err)
	}
	return a
}

// NewSigner returns a new key, in the form in which x/crypto/ssh takes it.
func NewSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// Line returns the public key, as a line of config.yaml.
func (a *Authority) Line() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(a.signer.PublicKey())))
}

// Sign returns the certificate of a key that ends d from now.
func (a *Authority) Sign(id identity.ID, d time.Duration, principals ...string) []byte {
	a.t.Helper()
	return a.SignChanged(id, d, nil, principals...)
}

// SignChanged is [Authority.Sign] of a certificate that change has changed, unless it is nil.
func (a *Authority) SignChanged(id identity.ID, d time.Duration, change func(*ssh.Certificate), principals ...string) []byte {
	a.t.Helper()
	return a.sign(id, d, change, principals).Marshal()
}

// SignFile returns the text of a certificate file, with what [Authority.Sign] returns.
func (a *Authority) SignFile(id identity.ID, d time.Duration, principals ...string) string {
	a.t.Helper()
	return string(ssh.MarshalAuthorizedKey(a.sign(id, d, nil, principals)))
}

func (a *Authority) sign(id identity.ID, d time.Duration, change func(*ssh.Certificate), principals []string) *ssh.Certificate {
	a.t.Helper()
	key, err := ssh.NewPublicKey(ed25519.PublicKey(id[:]))
	if err != nil {
		a.t.Fatal(err)
	}
	now := time.Now()
	c := &ssh.Certificate{
		Key: key, CertType: ssh.HostCert, ValidPrincipals: principals, Serial: 7,
		ValidAfter: uint64(now.Add(-age).Unix()), ValidBefore: uint64(now.Add(d).Unix()),
	}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, a.signer); err != nil {
		a.t.Fatal(err)
	}
	return c
}
