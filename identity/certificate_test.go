package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// testNow is when the certificates of these tests are checked.
var testNow = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// newTestAuthority returns a key that signs certificates, and the authority that has it.
func newTestAuthority(t testing.TB, name string, private any) (ssh.Signer, Authority) {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseAuthorityKey(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	if err != nil {
		t.Fatal(err)
	}
	return signer, Authority{Name: name, Key: key}
}

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// signTestCertificate returns a certificate of a key that is valid around testNow, after change.
func signTestCertificate(t testing.TB, signer ssh.Signer, id ID, change func(*ssh.Certificate)) []byte {
	t.Helper()
	key, err := ssh.NewPublicKey(ed25519.PublicKey(id[:]))
	if err != nil {
		t.Fatal(err)
	}
	c := &ssh.Certificate{
		Key: key, CertType: ssh.HostCert, KeyId: "build-7", ValidPrincipals: []string{"acp:build-7"},
		ValidAfter: uint64(testNow.Add(-time.Hour).Unix()), ValidBefore: uint64(testNow.Add(time.Hour).Unix()),
	}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	return c.Marshal()
}

// holds: security.md#fleets
func TestCertificates(t *testing.T) {
	id, other := ID(newEd25519(t).Public().(ed25519.PublicKey)), ID(newEd25519(t).Public().(ed25519.PublicKey))
	signer, corp := newTestAuthority(t, "corp", newEd25519(t))
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer2, lab := newTestAuthority(t, "lab", p256)
	foreign, _ := newTestAuthority(t, "foreign", newEd25519(t))
	both := []Authority{corp, lab}
	pin := HashPQ([]byte("a post-quantum key"))
	revoked, err := ParseRevocations(fmt.Appendf(nil, "# of corp\nserial 17\nname build-9\n\nid %s\n", other))
	if err != nil {
		t.Fatal(err)
	}
	revoking := []Authority{{Name: "corp", Key: corp.Key, Revoked: revoked}}

	for _, test := range []struct {
		name        string
		signer      ssh.Signer
		of          ID
		authorities []Authority
		at          time.Duration // after testNow
		change      func(*ssh.Certificate)
		want        string // "": accepted; else part of the error
	}{
		{name: "valid"},
		{name: "of the second authority", signer: signer2},
		{name: "within the tolerance before", at: -time.Hour - 5*time.Minute},
		{name: "within the tolerance after", at: time.Hour + 5*time.Minute - time.Second},
		{name: "for ever", at: 100 * 24 * time.Hour, change: func(c *ssh.Certificate) { c.ValidAfter, c.ValidBefore = 0, ssh.CertTimeInfinity }},
		{name: "with a foreign extension", change: func(c *ssh.Certificate) { c.Extensions = map[string]string{"permit-pty": ""} }},
		{name: "with serial 0 where serials are revoked", authorities: revoking},
		{name: "expired", at: time.Hour + 5*time.Minute, want: "it expired at 2026-11-26T13:00:00Z"},
		{name: "not yet valid", at: -time.Hour - 5*time.Minute - time.Second, want: "not valid before 2026-11-26T11:00:00Z"},
		{name: "backwards", change: func(c *ssh.Certificate) { c.ValidBefore = c.ValidAfter }, want: "ends before it begins"},
		{name: "after the year 9999", change: func(c *ssh.Certificate) { c.ValidBefore = 1 << 62 }, want: "before the year 10000"},
		{name: "negative time", change: func(c *ssh.Certificate) { c.ValidAfter = 1 << 63 }, want: "before the year 10000"},
		{name: "of a foreign authority", signer: foreign, want: "no authority that is configured here"},
		{name: "of no authority", authorities: []Authority{}, want: "no authority that is configured here"},
		{name: "of no authority, and expired", authorities: []Authority{}, at: 2 * time.Hour, want: "it expired at 2026-11-26T13:00:00Z, and it is 2026-11-26T14:00:00Z here: have the key signed again; and no authority that is configured here"},
		{name: "user certificate", change: func(c *ssh.Certificate) { c.CertType = ssh.UserCert }, want: "not of type host"},
		{name: "of another key", of: other, want: "it is for the key " + other.Label()},
		{name: "critical option", change: func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"source-address": "192.0.2.1/32"} }, want: "critical options"},
		{name: "ssh host certificate", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"build.example.org"} }, want: "does not begin with acp:"},
		{name: "ssh host name beside a name", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:build-7", "build.example.org"} }, want: "does not begin with acp:"},
		{name: "wildcard", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"*"} }, want: "does not begin with acp:"},
		{name: "wildcard behind the prefix", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:*"} }, want: "use lower-case letters"},
		{name: "no principal", change: func(c *ssh.Certificate) { c.ValidPrincipals = nil }, want: "it names nobody"},
		{name: "groups alone", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:group:ci"} }, want: "only groups"},
		{name: "two names", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:build-7", "acp:build-8"} }, want: "two names"},
		{name: "a name with a dot", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:build-7.corp"} }, want: "use lower-case letters"},
		{name: "a name like an id", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:deadbeef"} }, want: "beginning of an id"},
		{name: "a reserved name", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:user-2"} }, want: "reads as a person's"},
		{name: "a bad group", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:build-7", "acp:group:"} }, want: "a group is not a name that acpd takes"},
		{name: "too many groups", change: func(c *ssh.Certificate) {
			for i := range maxGroups + 1 {
				c.ValidPrincipals = append(c.ValidPrincipals, fmt.Sprintf("acp:group:group-%d", i))
			}
		}, want: "17 groups"},
		{name: "too long", change: func(c *ssh.Certificate) { c.KeyId = strings.Repeat("k", MaxCertificate) }, want: "over the limit of 4096"},
		{name: "a pin that is none", change: func(c *ssh.Certificate) { c.Extensions = map[string]string{pqExtension: "yes"} }, want: "extension pq@acpd"},
		{name: "revoked serial", authorities: revoking, change: func(c *ssh.Certificate) { c.Serial = 17 }, want: "corp has revoked it"},
		{name: "revoked name", authorities: revoking, change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:build-9"} }, want: "corp has revoked it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			by, of, authorities := test.signer, test.of, test.authorities
			if by == nil {
				by = signer
			}
			if of.IsZero() {
				of = id
			}
			if authorities == nil {
				authorities = both
			}
			raw := signTestCertificate(t, by, of, test.change)
			c, err := CheckCertificate(raw, id, authorities, testNow.Add(test.at))
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "certificate: ")):
				t.Fatalf("%+v, %v: expected an error with %q", c, err, test.want)
			case err == nil && (c.ID != id || !strings.HasPrefix(c.Name, "build-7.")):
				t.Fatalf("%+v", c)
			}
		})
	}

	t.Run("revoked id", func(t *testing.T) {
		if c, err := CheckCertificate(signTestCertificate(t, signer, other, nil), other, revoking, testNow); err == nil {
			t.Fatalf("%+v", c)
		}
	})
	t.Run("content", func(t *testing.T) {
		raw := signTestCertificate(t, signer, id, func(c *ssh.Certificate) {
			c.Serial, c.KeyId = 42, "of\x1b[31m build-7"
			c.ValidPrincipals = []string{"acp:group:ci", "acp:build-7", "acp:group:build", "acp:group:ci"}
			c.Extensions = map[string]string{pqExtension: pin.String()}
		})
		c, err := CheckCertificate(raw, id, both, testNow)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name != "build-7.corp" || !slices.Equal(c.Groups, []string{"build.corp", "ci.corp"}) || c.Authority != "corp" || c.Serial != 42 ||
			c.KeyID != "of[31m build-7" || c.PQ != pin || !c.NotBefore.Equal(testNow.Add(-time.Hour)) || !c.NotAfter.Equal(testNow.Add(time.Hour)) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("each changed byte", func(t *testing.T) {
		raw := signTestCertificate(t, signer, id, nil)
		for i := range raw {
			changed := bytes.Clone(raw)
			changed[i] ^= 1
			if c, err := CheckCertificate(changed, id, both, testNow); err == nil {
				t.Fatalf("byte %d changed: %+v", i, c)
			}
		}
		if _, err := CheckCertificate(append(raw, 0), id, both, testNow); err == nil {
			t.Error("a byte follows")
		}
	})
	t.Run("a key that signs itself", func(t *testing.T) {
		own := newEd25519(t)
		self, _ := newTestAuthority(t, "self", own)
		key := ID(own.Public().(ed25519.PublicKey))
		if c, err := CheckCertificate(signTestCertificate(t, self, key, nil), key, both, testNow); err == nil {
			t.Fatalf("%+v", c)
		}
	})
}

func TestAuthorityKeys(t *testing.T) {
	line := func(private any) string {
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	}
	good := line(newEd25519(t))
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		good: "", good + " the authority": "", "": "not a public key", "ssh-ed25519 AAAA": "not a public key",
		"command=\"true\" " + good: "more than a public key", good + "\n" + good: "more than a public key",
		line(p384): "a key of type", line(old): "a key of type",
	} {
		_, err := ParseAuthorityKey(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v, expected %q", text, err, want)
		}
	}
	// A key of a FIDO token, as ssh-keygen -t ed25519-sk writes it.
	blob := ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, newEd25519(t).Public().(ed25519.PublicKey), "ssh:"})
	if _, err := ParseAuthorityKey(ssh.KeyAlgoSKED25519 + " " + base64.StdEncoding.EncodeToString(blob)); err != nil {
		t.Error(err)
	}
}

func TestRevocationFiles(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "# nothing\n\n": "", "serial 1\r\nname build-7": "",
		"serial 0": "line 1: serial: use a number from 1", "serial -1": "line 1: serial", "\nserial 0x11": "line 2: serial",
		"name build-7.corp": "without the name of the authority", "id 0123": "line 1: agent id",
		"build-7": "line 1: \"build-7\": write", "key 1": "write \"id\"", "serial 1 2": "write \"id\"",
	} {
		_, err := ParseRevocations([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	if _, err := ParseRevocations(make([]byte, MaxRevocationFile+1)); err == nil {
		t.Error("a file that is too long is accepted")
	}
}

// TestCertificatesOfOpenSSH has the real ssh-keygen sign the line that RenderPublicKey returns.
// holds: security.md#fleets
func TestCertificatesOfOpenSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ssh-keygen (Debian: openssh-client) is not installed: nothing is left out here")
		}
		t.Skip("ssh-keygen (Debian: openssh-client) is not installed")
	}
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %q: %v: %s", args, err, out)
		}
	}
	for _, kind := range [][]string{{"-t", "ed25519"}, {"-t", "ecdsa", "-b", "256"}} {
		t.Run(kind[1], func(t *testing.T) {
			run(append(kind, "-q", "-N", "", "-f", kind[1])...)
			line, err := os.ReadFile(filepath.Join(dir, kind[1]+".pub"))
			if err != nil {
				t.Fatal(err)
			}
			authority, err := ParseAuthorityKey(string(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "acpd.pub"), []byte(key.ID().RenderPublicKey()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			sign := func(args ...string) []byte {
				t.Helper()
				run(append(append([]string{"-q", "-s", kind[1], "-I", "build-7 of CI"}, args...), "acpd.pub")...)
				file, err := os.ReadFile(filepath.Join(dir, "acpd-cert.pub"))
				if err != nil {
					t.Fatal(err)
				}
				raw, err := ParseCertificateFile(file)
				if err != nil {
					t.Fatal(err)
				}
				return raw
			}
			check := func(raw []byte) (*Certificate, error) {
				return CheckCertificate(raw, key.ID(), []Authority{{Name: "corp", Key: authority}}, time.Now())
			}
			pin := HashPQ(key.PublicPQ())
			c, err := check(sign("-h", "-n", "acp:build-7,acp:group:ci", "-V", "-1m:+30d", "-z", "7", "-O", "extension:pq@acpd="+pin.String()))
			if err != nil {
				t.Fatal(err)
			}
			if c.Name != "build-7.corp" || !slices.Equal(c.Groups, []string{"ci.corp"}) || c.Serial != 7 || c.KeyID != "build-7 of CI" || c.PQ != pin {
				t.Errorf("%+v", c)
			}
			if days := time.Until(c.NotAfter).Hours() / 24; days < 29 || days > 31 {
				t.Errorf("it ends in %f days", days)
			}
			if c, err := check(sign("-h", "-n", "acp:build-7")); err != nil || !c.NotAfter.IsZero() || c.Serial != 0 {
				t.Errorf("without -V and -z: %+v, %v", c, err)
			}
			for want, args := range map[string][]string{
				"not of type host": {"-n", "acp:build-7"}, "does not begin with acp:": {"-h", "-n", "build.example.org"}, "names nobody": {"-h"},
				"it expired": {"-h", "-n", "acp:build-7", "-V", "-2d:-1d"}, "not valid before": {"-h", "-n", "acp:build-7", "-V", "+1d:+2d"},
			} {
				if c, err := check(sign(args...)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %+v, %v: expected %q", args, c, err, want)
				}
			}
		})
	}
}

func TestCertificateFiles(t *testing.T) {
	id := ID(newEd25519(t).Public().(ed25519.PublicKey))
	signer, _ := newTestAuthority(t, "corp", newEd25519(t))
	raw := signTestCertificate(t, signer, id, nil)
	line := certificateType + " " + base64.StdEncoding.EncodeToString(raw)
	for text, want := range map[string]string{
		line: "", line + " build-7\n": "", "": "not one line", id.RenderPublicKey(): "not one line", line + "\n" + line: "not one line",
		certificateType + " AAAA$": "no base64", certificateType + " " + strings.Repeat("AAAA", MaxCertificate/3+1): "no base64 of at most 4096 bytes",
		strings.Repeat(" ", 9<<10): "over 8192 bytes",
	} {
		got, err := ParseCertificateFile([]byte(text))
		if want == "" && (err != nil || !bytes.Equal(got, raw)) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v, expected %q", text, err, want)
		}
	}
	if c, err := InspectCertificate(raw); err != nil || c.Name != "build-7" || c.ID != id || c.Authority != "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// FuzzCertificate checks bytes that a peer sends as its certificate. What is accepted is one that
// the authority has signed.
// holds: security.md#fleets
func FuzzCertificate(f *testing.F) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	signer, corp := newTestAuthority(f, "corp", private)
	id := ID(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize)).Public().(ed25519.PublicKey))
	for _, change := range []func(*ssh.Certificate){
		nil,
		func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:group:ci", "acp:build-7"} },
		func(c *ssh.Certificate) { c.Extensions = map[string]string{pqExtension: HashPQ(nil).String()} },
		func(c *ssh.Certificate) { c.CertType = ssh.UserCert },
	} {
		f.Add(signTestCertificate(f, signer, id, change))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		inspected, err := InspectCertificate(raw)
		c, checked := CheckCertificate(raw, id, []Authority{corp}, testNow)
		if checked != nil {
			return
		}
		if err != nil {
			t.Fatalf("accepted, and not parsed: %v", err)
		}
		if len(raw) > MaxCertificate || c.ID != id || c.Name != inspected.Name+".corp" || CheckName(inspected.Name) != nil || len(c.Groups) > maxGroups || !c.IsValidAt(testNow) {
			t.Fatalf("%+v", c)
		}
		key, err := ssh.ParsePublicKey(raw)
		if err != nil {
			t.Fatal(err)
		}
		cert := key.(*ssh.Certificate)
		if !bytes.Equal(cert.SignatureKey.Marshal(), signer.PublicKey().Marshal()) || cert.CertType != ssh.HostCert {
			t.Fatalf("%+v", cert)
		}
	})
}
