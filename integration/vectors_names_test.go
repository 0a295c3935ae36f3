package integration

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/relay"
)

// requestMeans is a request for a name as its vector shows it.
func requestMeans(r *relay.Request) any {
	return map[string]any{"asker": r.Asker.String(), "token": hex.EncodeToString(r.Token[:]), "want": hex.EncodeToString(r.Want)}
}

// answerMeans is the answer to one: a certificate, and what is wanted of it in a request.
func answerMeans(c *identity.Certificate) any {
	want := c.Signer().Hash()
	return map[string]any{"id": c.ID.String(), "name": c.Name, "groups": c.Groups, "want": hex.EncodeToString(want[:])}
}

// parseAnswer refuses with the one code that the daemon has for what does not count.
func parseAnswer(raw []byte) (*identity.Certificate, error) {
	c, err := identity.InspectCertificate(raw)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s", err)
	}
	return c, nil
}

// signCertificate returns the certificate of a key that an authority has signed, whose seed is 32 bytes of
// 0x70, with a nonce of zeros.
func signCertificate(key []byte, principals ...string) []byte {
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{0x70}, ed25519.SeedSize)))
	if err != nil {
		panic(err)
	}
	public, err := ssh.NewPublicKey(ed25519.PublicKey(key))
	if err != nil {
		panic(err)
	}
	c := &ssh.Certificate{Key: public, CertType: ssh.HostCert, KeyId: "build 7", ValidPrincipals: principals, ValidAfter: 1_790_000_000, ValidBefore: 1_800_000_000}
	if err := c.SignCert(bytes.NewReader(make([]byte, 32)), signer); err != nil {
		panic(err)
	}
	return c.Marshal()
}

// byName are the payloads of a request for a name on a relay, and of its answer.
func byName() []vector {
	var all []vector
	ok := func(is, name string, b []byte, means string) {
		all = append(all, vector{Name: is + ": " + name, Is: is, Hex: hex.EncodeToString(b), Canonical: true, Means: jsontext.Value(means)})
	}
	no := func(is, name string, b []byte, field string) {
		all = append(all, refused(is, name, b, "invalid", field))
	}
	const request, answer = "name request", "name answer"
	header := append(id(0x10, 32), id(0x80, 8)...)
	means := fmt.Sprintf(`{"asker":"%x","token":"%x","want":"%%x"}`, id(0x10, 32), id(0x80, 8))
	want := id(0x40, 32)
	ok(request, "for a name of an authority", append(header, want...), fmt.Sprintf(means, want))
	ok(request, "empty", header, fmt.Sprintf(means, ""))
	ok(request, "of 64 bytes", append(header, id(0x40, 64)...), fmt.Sprintf(means, id(0x40, 64)))
	no(request, "of 65 bytes", append(header, id(0x40, 65)...), "request.want")
	no(request, "of nobody", append(make([]byte, 32), header[32:]...), "request.asker")
	no(request, "cut in its token", header[:39], "request")
	no(request, "of no bytes", nil, "request")

	right := signCertificate(id(0x20, 32), "acp:build-7", "acp:group:ci")
	key, err := parseAnswer(right)
	if err != nil {
		panic(err)
	}
	ok(answer, "a certificate", right, fmt.Sprintf(`{"id":"%x","name":"build-7","groups":["ci"],"want":"%x"}`, id(0x20, 32), key.Signer().Hash()))
	no(answer, "a certificate and a byte", append(right, 0), "certificate")
	no(answer, "a certificate that is cut", right[:len(right)-1], "certificate")
	no(answer, "of another type", bytes.Replace(right, []byte("ssh-ed25519-cert-v01"), []byte("ssh-ed25519-cert-v02"), 1), "certificate")
	no(answer, "for a host of ssh", signCertificate(id(0x20, 32), "acp:build-7", "build-7.example.org"), "certificate")
	no(answer, "of no bytes", nil, "certificate")
	return all
}
