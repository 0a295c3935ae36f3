package identity

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/internal/ownwords"
)

// Whoever answers for a name chooses each text of a certificate. None of them stands in an error.
func TestWordsOfACertificateAreNoText(t *testing.T) {
	const foreign = "<tag>\nmake" // as long as the name of the algorithm
	authority := newEd25519(t)
	signer, corp := newTestAuthority(t, "corp", authority)
	id := ID(newEd25519(t).Public().(ed25519.PublicKey))
	var all [][]byte
	for _, principals := range [][]string{{foreign}, {"acp:" + foreign}, {"acp:build", "acp:" + foreign}, {"acp:build", "acp:group:" + foreign}} {
		all = append(all, signCertificateUnchecked(t, signer, id, func(c *ssh.Certificate) { c.ValidPrincipals, c.KeyId = principals, foreign }))
	}
	for _, change := range []func(*ssh.Certificate){
		func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{foreign: foreign} },
		func(c *ssh.Certificate) { c.Extensions = map[string]string{pqExtension: foreign} },
	} {
		all = append(all, signCertificateUnchecked(t, signer, id, change))
	}
	raw := signTestCertificate(t, signer, id, nil)
	for at := 1; at < len(raw); at++ { // names of algorithms, and the lengths that stand before the parts
		if bytes.HasPrefix(raw[at:], []byte(ssh.KeyAlgoED25519)) {
			changed := bytes.Clone(raw)
			copy(changed[at:], foreign)
			all = append(all, changed)
		}
	}
	if len(all) < 8 {
		t.Fatalf("%d certificates", len(all))
	}
	for i, raw := range all {
		_, err := CheckCertificate(raw, id, []Authority{corp}, testNow)
		if err == nil || strings.Contains(err.Error(), "tag") || strings.Contains(err.Error(), ownwords.Unknown) || strings.Contains(err.Error(), "\n") {
			t.Errorf("certificate %d: %v", i, err)
		}
	}
}
