package mailbox

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/oacp/message"
)

const trustDomain, instance = "6b3f1f2e-7d4e-4c58-9b80-0a4b7e2a9f10", "a13db963-92cb-49de-8a93-7c88cdb6b76a"

// addKey gives an agent a key as the reference keeps them, and returns it as a pin.
func addKey(t *testing.T, h Home, agent string, seed byte) (kid, pin string) {
	t.Helper()
	d := bytes.Repeat([]byte{seed}, ed25519.SeedSize)
	encode := base64.RawURLEncoding.EncodeToString
	x := encode(ed25519.NewKeyFromSeed(d).Public().(ed25519.PublicKey))
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	kid = encode(sum[:])
	dir := filepath.Join(string(h), "keys", trustDomain, agent, instance)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q,"d":%q,"kid":%q,"agent":%q,"trust_domain":%q,"instance_id":%q,"created_at_utc":"2026-11-20T13:00:%02dZ"}`,
		x, encode(d), kid, agent, trustDomain, instance, seed)
	if err := os.WriteFile(filepath.Join(dir, kid+".json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, kid+".pub.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	return kid, fmt.Sprintf("  - {agent: %s, kid: %s, jwk: {kty: OKP, crv: Ed25519, x: %s}, status: active}\n", agent, kid, x)
}

func TestSendSigns(t *testing.T) {
	p := demo(t)
	old, oldPin := addKey(t, p.Home, "planner", 1)
	last, lastPin := addKey(t, p.Home, "planner", 2)
	_, _ = addKey(t, p.Home, "reviewer", 3)
	keys := filepath.Join(string(p.Home), "keys", trustDomain, "planner", instance)
	write(t, filepath.Join(keys, "notes.json"), "{}")
	write(t, filepath.Join(string(p.Home), "keys", "trust_domain"), trustDomain)
	odd := func(letter string) string { return filepath.Join(keys, strings.Repeat(letter, kidLength)+".json") }
	err := errors.Join(syscall.Mkfifo(odd("a"), 0o600), os.Mkdir(odd("b"), 0o700), os.Symlink("nowhere", odd("c")))
	if err != nil {
		t.Fatal(err)
	}
	pins := message.ParsePins("pins", []byte("version: 1\nsigners:\n"+oldPin+lastPin))
	for _, c := range []struct {
		config string
		sign   bool
		kids   []string
	}{
		{config: "", sign: true, kids: []string{last, old}},
		{config: "signing: {sign_messages: true}", kids: []string{last, old}},
		{config: "signing: {sign_messages: false}", sign: true, kids: []string{last, old}},
		{config: "signing: {sign_messages: true, kid: " + old + "}", kids: []string{old}},
		{config: "signing: {kid: " + old + "}"},
		{config: "signing: {sign_messages: yes}", kids: []string{last, old}},
		{config: "signing: {sign_messages: Off}"},
		{config: strings.Repeat("k: v\n", 40_000) + "signing: {sign_messages: true}", kids: []string{last, old}},
		{config: ""},
	} {
		configure(t, p, "planner", c.config)
		l := question("reviewer")
		l.Sign = c.sign
		s, err := p.Home.SendLetter(p.Name, l)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if fmt.Sprint(s.KIDs) != fmt.Sprint(c.kids) {
			t.Errorf("%+v: signed by %q", c, s.KIDs)
		}
		data := []byte(content(t, s.Inboxes[0]))
		want := message.Verified
		if c.kids == nil {
			want = message.Unsigned
		}
		if got := message.VerifyMessage(data, pins, time.Now()); got.Status != want || len(got.Checked) != len(c.kids) {
			t.Errorf("%+v: %s", c, got)
		}
		if d, err := message.ParseDocument(data); err != nil || d.Validate() != nil {
			t.Errorf("%+v: is no message: %v", c, err)
		}
	}
}

func TestSendRefusesToSign(t *testing.T) {
	p := demo(t)
	kid, _ := addKey(t, p.Home, "planner", 1)
	path := filepath.Join(string(p.Home), "keys", trustDomain, "planner", instance, kid+".json")
	refused := func(want string) {
		t.Helper()
		l := question("reviewer")
		if s, err := p.Home.SendLetter(p.Name, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sent %+v: %v, want %s", s, err, want)
		}
	}
	for text, want := range map[string]string{
		"[]":                                        "must be a YAML mapping",
		"signing: true":                             "signing block must be a mapping",
		"signing: {sign_messages: 'true'}":          "must be a boolean",
		"signing: {sign_messages: }":                "must be a boolean",
		"signing: {sign_messages: 'yes'}":           "must be a boolean",
		"signing: {sign_messages: 1}":               "must be a boolean",
		"a: 1\n---\nsigning: {sign_messages: true}": "second document",
		"a: 1\n...\nsigning: {sign_messages: true}": "refusing to guess",
		"\xff\xfe":                                  "not UTF-8",
		"signing: {kid: 1}":                         "must be a non-empty string",
		"signing: {kid: ''}":                        "must be a non-empty string",
		"signing: {":                                "refusing to guess",
		strings.Repeat("#", 1<<20) + "\na: b":       "refusing to guess",
		"signing: {sign_messages: true, kid: none}": "no signing key",
	} {
		configure(t, p, "planner", text)
		refused(want)
	}
	configure(t, p, "planner", "signing: {sign_messages: true}")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	refused("chmod")
	file := content(t, path)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"OKP"`, `"EC"`}:                  "not an Ed25519",
		{`"d":"`, `"d":"A`}:                "seed is invalid",
		{`"d":"AQ`, `"d":"AA`}:             "does not derive",
		{`"kid":"` + kid, `"kid":"` + "x"}: "kid does not match",
		{trustDomain, "here"}:              "must be a UUID",
		{"{", "["}:                         "not a key",
	} {
		write(t, path, strings.Replace(file, change[0], change[1], 1))
		refused(want)
	}
}

func configure(t *testing.T, p Project, agent, text string) {
	t.Helper()
	write(t, filepath.Join(Agent{p, agent}.Dir(), "config.yaml"), text+"\n")
}
