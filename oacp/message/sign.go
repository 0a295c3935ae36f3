package message

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/go-json-experiment/json"
)

// SigningKey signs messages of one agent from one machine. The reference tool makes it
// (oacp key gen).
type SigningKey struct {
	KID     string // the thumbprint of the public key (RFC 7638)
	Agent   string
	Created string // a time as Stamp writes it

	header signatureHeader
	key    ed25519.PrivateKey
}

// String hides the key.
func (k SigningKey) String() string { return "signing key " + k.KID }

// ParseSigningKey reads a private key file: a JWK (RFC 8037) with whose it is. The
// public key, the thumbprint and the private seed must belong together.
func ParseSigningKey(data []byte) (SigningKey, error) {
	var file struct {
		Type     string `json:"kty"`
		Curve    string `json:"crv"`
		X        string `json:"x"`
		D        string `json:"d"`
		KID      string `json:"kid"`
		Agent    string `json:"agent"`
		Domain   string `json:"trust_domain"`
		Instance string `json:"instance_id"`
		Created  string `json:"created_at_utc"`
	}
	var none SigningKey
	if err := json.Unmarshal(data, &file); err != nil {
		return none, fmt.Errorf("not a key: %w", err)
	}
	if file.Type != "OKP" || file.Curve != "Ed25519" {
		return none, errors.New("not an Ed25519 OKP key")
	}
	seed, err := decodeBase64URL(file.D)
	if err != nil || len(seed) != ed25519.SeedSize {
		return none, errors.New("the private seed is invalid")
	}
	k := SigningKey{KID: file.KID, Agent: file.Agent, Created: file.Created, key: ed25519.NewKeyFromSeed(seed)}
	public := base64.RawURLEncoding.EncodeToString(k.key.Public().(ed25519.PublicKey))
	if public != file.X {
		return none, errors.New("the private seed does not derive the stored public key")
	}
	if file.KID != computeKID(public) {
		return none, errors.New("kid does not match the thumbprint of the public key")
	}
	k.header = signatureHeader{file.KID, "urn:oacp:agent:" + file.Domain + ":" + file.Agent, "urn:uuid:" + file.Instance}
	if err := checkSignerURNs(k.header.agent, k.header.instance); err != nil {
		return none, err
	}
	return k, nil
}

// SignMessage appends the signatures of the keys, the newest first and 8 at most, to a rendered
// message: detached General JWS over exactly these bytes (RFC 7515, section 7.2.1 and
// appendix F). It returns the file, and the ids of the keys in the order of their
// signatures. It refuses a message that is signed.
func SignMessage(rendered []byte, keys []SigningKey) (signed []byte, kids []string, err error) {
	if _, _, ok := cutAuthLine(rendered); ok || !bytes.HasSuffix(rendered, []byte("\n")) {
		return nil, nil, errors.New("sign: not a message as it was rendered, or signed already")
	}
	if len(keys) == 0 {
		return nil, nil, errors.New("sign: no key: make one with oacp key gen")
	}
	keys = slices.Clone(keys)
	sort.SliceStable(keys, func(i, j int) bool { return keys[i].Created > keys[j].Created })
	payload := base64.RawURLEncoding.EncodeToString(rendered)
	var signatures []signature
	for _, k := range keys[:min(len(keys), maxSignatures)] {
		protected := base64.RawURLEncoding.EncodeToString(k.header.encode())
		sig := ed25519.Sign(k.key, []byte(protected+"."+payload))
		kids = append(kids, k.KID)
		signatures = append(signatures, signature{protected, base64.RawURLEncoding.EncodeToString(sig)})
	}
	value := base64.RawURLEncoding.EncodeToString(encodeAuthValue(signatures))
	return append(slices.Clip(rendered), "auth: \""+value+"\"\n"...), kids, nil
}

// encode writes a protected header in its one spelling. Nothing in it needs an escape.
func (h signatureHeader) encode() []byte {
	return fmt.Appendf(nil, `{"alg":"EdDSA","crit":["oacp"],"kid":"%s","oacp":{"agent":"%s","domain":"urn:oacp:message:v1","instance":"%s","scheme":"raw-prefix-v1"},"typ":"oacp-message+yaml"}`,
		h.kid, h.agent, h.instance)
}
