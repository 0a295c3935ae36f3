package interop

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/oacp/message"
)

const signaturesFile = "../vectors/oacp/signatures.json"

// pinsName stands for the path of the pin file in recorded judgements.
const pinsName = "PINS"

type signatures struct {
	Pins    string   `json:"pins"`
	Vectors []signed `json:"vectors"`
}

// A signed vector is what vectors/oacp/README.md describes.
type signed struct {
	Name     string         `json:"name"`
	Text     string         `json:"text"`
	Base64   []byte         `json:"base64"`
	Pins     *string        `json:"pins"`
	Unpinned bool           `json:"unpinned"`
	Auth     map[string]any `json:"auth"`
	Line     string         `json:"line"`
}

func (v signed) data() []byte {
	if v.Base64 != nil {
		return v.Base64
	}
	return []byte(v.Text)
}

// pins is the pin file for a vector.
func (s signatures) pins(v signed) string {
	if v.Pins != nil {
		return *v.Pins
	}
	return s.Pins
}

func readSignatures(t *testing.T) signatures {
	t.Helper()
	s := readVectors[signatures](t, signaturesFile)
	if len(s.Vectors) < 50 {
		t.Fatalf("%d vectors", len(s.Vectors))
	}
	return s
}

func TestSignatures(t *testing.T) {
	s := readSignatures(t)
	for _, v := range s.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			var pins message.Pins
			if !v.Unpinned {
				pins = message.ParsePins(pinsName, []byte(s.pins(v)))
			}
			now := time.Now()
			judgement := message.VerifyMessage(v.data(), pins, now)
			if ok := v.Auth["status"] == "unsigned" || v.Auth["status"] == "verified"; judgement.IsAcceptable() != ok {
				t.Errorf("OK is %t, expected %t", judgement.IsAcceptable(), ok)
			}
			if judgement.VerifiedAt != message.FormatTimestamp(now) {
				t.Errorf("verified at %s", judgement.VerifiedAt)
			}
			if got := shorten(judgement.String()); got != v.Line {
				t.Errorf("says    %s\nexpected %s", got, v.Line)
			}
			text, err := json.Marshal(judgement)
			if err != nil {
				t.Fatal(err)
			}
			got, err := normal(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Auth, got); diff != "" {
				t.Errorf("%q (-reference +ours):\n%s", v.data(), diff)
			}
		})
	}
}

// TestSign: with the same keys, Sign writes the bytes of the recorded files.
func TestSign(t *testing.T) {
	seeds := map[string]byte{"planner": 1, "reviewer": 2, "desk": 3} // vectors/oacp/README.md
	again := map[string]bool{"signed": false, "by two, the sender first": false, "by two, the sender last": false, "eight signatures": false}
	for _, v := range readSignatures(t).Vectors {
		if _, ok := again[v.Name]; !ok {
			continue
		}
		again[v.Name] = true
		data := v.data()
		cut := bytes.LastIndex(data, []byte("auth: "))
		var keys []message.SigningKey
		for i, by := range signers(t, data[cut:]) {
			k, err := message.ParseSigningKey(keyFile(seeds[by.agent], by, time.Date(2099-i, 1, 1, 0, 0, 0, 0, time.UTC)))
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			keys = append(keys, k)
		}
		slices.Reverse(keys) // Sign knows which are the newest
		rendered := bytes.Clone(data[:cut])
		got, kids, err := message.SignMessage(rendered, keys)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if diff := cmp.Diff(string(data), string(got)); diff != "" {
			t.Errorf("%s (-reference +ours):\n%s", v.Name, diff)
		}
		if !bytes.Equal(rendered, data[:cut]) || len(kids) != len(keys) || kids[0] != keys[len(keys)-1].KID {
			t.Errorf("%s: signed by %q", v.Name, kids)
		}
		if _, _, err := message.SignMessage(got, keys); err == nil {
			t.Errorf("%s: signed twice", v.Name)
		}
	}
	for name, found := range again {
		if !found {
			t.Errorf("no vector %q", name)
		}
	}
}

// signer is whom a protected header names.
type signer struct{ agent, domain, instance string }

// signers reads who has signed off a file's last line.
func signers(t *testing.T, line []byte) (list []signer) {
	t.Helper()
	decode := func(text string, into any) {
		t.Helper()
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var container struct {
		Signatures []struct {
			Protected string `json:"protected"`
		} `json:"signatures"`
	}
	decode(strings.Trim(string(line), "auth: \"\n"), &container)
	for _, s := range container.Signatures {
		var header struct {
			OACP struct {
				Agent    string `json:"agent"`
				Instance string `json:"instance"`
			} `json:"oacp"`
		}
		decode(s.Protected, &header)
		urn := strings.Split(header.OACP.Agent, ":")
		list = append(list, signer{urn[4], urn[3], strings.TrimPrefix(header.OACP.Instance, "urn:uuid:")})
	}
	return list
}

// keyFile is a private key as the reference keeps it: an Ed25519 seed of equal bytes.
func keyFile(seed byte, of signer, created time.Time) []byte {
	d := bytes.Repeat([]byte{seed}, ed25519.SeedSize)
	x := base64.RawURLEncoding.EncodeToString(ed25519.NewKeyFromSeed(d).Public().(ed25519.PublicKey))
	kid := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	text, err := json.Marshal(map[string]string{
		"kty": "OKP", "crv": "Ed25519", "x": x, "d": base64.RawURLEncoding.EncodeToString(d), "kid": base64.RawURLEncoding.EncodeToString(kid[:]),
		"agent": of.agent, "trust_domain": of.domain, "instance_id": of.instance, "created_at_utc": message.FormatTimestamp(created),
	})
	if err != nil {
		panic(err)
	}
	return text
}

// normal is a judgement without its time, and without the words of a library.
func normal(text []byte) (map[string]any, error) {
	var auth map[string]any
	if err := json.Unmarshal(text, &auth); err != nil {
		return nil, err
	}
	if auth["verified_at_utc"] == nil {
		return nil, errors.New("no time of verification")
	}
	delete(auth, "verified_at_utc")
	if reason, ok := auth["reason"].(string); ok {
		auth["reason"] = shorten(reason)
	}
	return auth, nil
}

// shorten cuts off what a library says.
func shorten(reason string) string {
	for _, library := range []string{"cannot read pin file " + pinsName, "is not valid JSON"} {
		if i := strings.Index(reason, library); i >= 0 {
			return reason[:i+len(library)]
		}
	}
	return reason
}
