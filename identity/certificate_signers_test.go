package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// tokenSigner signs as a FIDO token does with an ed25519-sk key (PROTOCOL.u2f of OpenSSH).
type tokenSigner struct {
	t       testing.TB
	private ed25519.PrivateKey
	app     string
	flags   byte // 1: somebody has touched it
	counter uint32
}

func (s *tokenSigner) PublicKey() ssh.PublicKey {
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Type string
		Key  []byte
		App  string
	}{ssh.KeyAlgoSKED25519, s.private.Public().(ed25519.PublicKey), s.app}))
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

func (s *tokenSigner) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, message := sha256.Sum256([]byte(s.app)), sha256.Sum256(data)
	rest := binary.BigEndian.AppendUint32([]byte{s.flags}, s.counter)
	signed := append(append(app[:], rest...), message[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(s.private, signed), Rest: rest}, nil
}

// holds: security.md#fleets
func TestAuthorityOnAToken(t *testing.T) {
	id := ID(newEd25519(t).Public().(ed25519.PublicKey))
	token := &tokenSigner{t: t, private: newEd25519(t), app: "ssh:", flags: 1, counter: 7}
	key, err := ParseAuthorityKey(string(ssh.MarshalAuthorizedKey(token.PublicKey())))
	if err != nil {
		t.Fatal(err)
	}
	corp := []Authority{{Name: "corp", Key: key}}
	raw := signTestCertificate(t, token, id, nil)
	if c, err := CheckCertificate(raw, id, corp, testNow); err != nil || c.Name != "build-7.corp" {
		t.Fatalf("%+v, %v", c, err)
	}
	for i := range raw {
		raw[i] ^= 1
		if c, err := CheckCertificate(raw, id, corp, testNow); err == nil {
			t.Fatalf("byte %d changed: %+v", i, c)
		}
		raw[i] ^= 1
	}
	// Whether somebody has to touch it is up to the token, as it is for OpenSSH's own certificates.
	untouched := &tokenSigner{t: t, private: token.private, app: "ssh:"}
	if _, err := CheckCertificate(signCertificateUnchecked(t, untouched, id, nil), id, corp, testNow); err != nil {
		t.Error(err)
	}
	for name, other := range map[string]*tokenSigner{
		"the same key for another application": {t: t, private: token.private, app: "ssh:other", flags: 1},
		"another key":                          {t: t, private: newEd25519(t), app: "ssh:", flags: 1},
	} {
		if c, err := CheckCertificate(signCertificateUnchecked(t, other, id, nil), id, corp, testNow); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// signCertificateUnchecked is signTestCertificate for signers whose signatures [ssh.Certificate.SignCert]
// does not take.
func signCertificateUnchecked(t testing.TB, signer ssh.Signer, id ID, change func(*ssh.Certificate)) []byte {
	t.Helper()
	var c *ssh.Certificate
	signTestCertificate(t, &tokenSigner{t: t, private: newEd25519(t), app: "ssh:", flags: 1}, id, func(made *ssh.Certificate) {
		if c = made; change != nil {
			change(c)
		}
	})
	c.SignatureKey = signer.PublicKey()
	c.Signature = &ssh.Signature{Format: "none"}
	signed := c.Marshal()
	var err error
	if c.Signature, err = signer.Sign(rand.Reader, signed[:len(signed)-len(ssh.Marshal(c.Signature))-4]); err != nil {
		t.Fatal(err)
	}
	return c.Marshal()
}

// certifiedSigner signs with a key that has a certificate itself, and shows that in the place of the key.
type certifiedSigner struct {
	ssh.Signer
	certificate *ssh.Certificate
}

func (s certifiedSigner) PublicKey() ssh.PublicKey { return s.certificate }

// holds: security.md#fleets
func TestSignersThatNeverCount(t *testing.T) {
	id := ID(newEd25519(t).Public().(ed25519.PublicKey))
	signer, corp := newTestAuthority(t, "corp", newEd25519(t))
	below := newEd25519(t)
	under, _ := newTestAuthority(t, "under", below)
	of, err := ssh.ParsePublicKey(signTestCertificate(t, signer, ID(below.Public().(ed25519.PublicKey)), nil))
	if err != nil {
		t.Fatal(err)
	}
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	oldSigner, err := ssh.NewSignerFromKey(old)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := CheckCertificate(signTestCertificate(t, under, id, nil), id, []Authority{corp}, testNow); err == nil {
		t.Errorf("of a key that the authority has certified: %+v", c)
	}
	for name, test := range map[string]struct {
		raw         []byte
		authorities []Authority
	}{
		"a certificate as the authority":              {signCertificateUnchecked(t, certifiedSigner{under, of.(*ssh.Certificate)}, id, nil), []Authority{corp}},
		"the authority's own key, with a certificate": {signCertificateUnchecked(t, certifiedSigner{signer, of.(*ssh.Certificate)}, id, nil), []Authority{corp}},
		"an RSA key with SHA-1":                       {signCertificateUnchecked(t, sha1Signer{oldSigner.(ssh.AlgorithmSigner)}, id, nil), []Authority{corp}},
		"an RSA key that is no authority, with SHA-2": {signTestCertificate(t, oldSigner, id, nil), []Authority{corp}},
		"an empty principal":                          {signTestCertificate(t, signer, id, func(c *ssh.Certificate) { c.ValidPrincipals = []string{""} }), []Authority{corp}},
		"an empty principal beside a name":            {signTestCertificate(t, signer, id, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:build-7", ""} }), []Authority{corp}},
		"an empty name":                               {signTestCertificate(t, signer, id, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:"} }), []Authority{corp}},
		"any critical option, even without a value":   {signTestCertificate(t, signer, id, func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"verify-required": ""} }), []Authority{corp}},
		"the prefix in capitals":                      {signTestCertificate(t, signer, id, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"ACP:build-7"} }), []Authority{corp}},
		"a type of certificate that is neither":       {signTestCertificate(t, signer, id, func(c *ssh.Certificate) { c.CertType = 3 }), []Authority{corp}},
		"the signature of another type, same key":     {signCertificateUnchecked(t, renamedSigner{signer}, id, nil), []Authority{corp}},
	} {
		if c, err := CheckCertificate(test.raw, id, test.authorities, testNow); err == nil {
			t.Errorf("%s: %+v", name, c)
		} else if !strings.HasPrefix(err.Error(), "certificate: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sha1Signer signs as OpenSSH did before 8.2.
type sha1Signer struct{ ssh.AlgorithmSigner }

func (s sha1Signer) Sign(random io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(random, data, ssh.KeyAlgoRSA)
}

// renamedSigner says of its signatures that they are of another type.
type renamedSigner struct{ ssh.Signer }

func (s renamedSigner) Sign(random io.Reader, data []byte) (*ssh.Signature, error) {
	sig, err := s.Signer.Sign(random, data)
	if sig == nil {
		return nil, errors.Join(err, errors.New("no signature"))
	}
	sig.Format = ssh.KeyAlgoSKED25519
	return sig, err
}
