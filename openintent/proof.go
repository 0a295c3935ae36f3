package openintent

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A message may carry metadata.proof, in the form of RFC-0018's EventProof.
// What is signed is the RFC 8785 form of the object with the message's
// channel_id, sender, to, message_type, correlation_id, payload, expires_at and
// metadata (without proof), as the answer shows them.
type proof struct {
	Type      string         `json:"type"`
	Signature string         `json:"signature"`
	rest      jsontext.Value // the RFC 8785 form of metadata without it
}

const proofType = "Ed25519Signature2026"

// findProof reads the proof in metadata, nil if there is none.
func findProof(metadata jsontext.Value) (*proof, error) {
	if len(metadata) == len("{}") {
		return nil, nil
	}
	var parts map[string]jsontext.Value
	if err := json.Unmarshal(metadata, &parts); err != nil {
		return nil, err
	}
	raw, ok := parts["proof"]
	if !ok {
		return nil, nil
	}
	p := new(proof)
	if json.Unmarshal(raw, p) != nil || p.Type != proofType {
		return nil, forbidden("bad_proof", "metadata.proof: its type must be %s, with a signature", proofType)
	}
	delete(parts, "proof")
	rest, err := json.Marshal(parts)
	p.rest = rest
	if err == nil {
		err = p.rest.Canonicalize()
	}
	return p, err
}

// check verifies the proof with the key that the sender has registered. to is what the
// sender says, whose own name has no home; payload is in its RFC 8785 form.
func (p *proof) check(key string, m *message, to string, payload jsontext.Value) error {
	public, ok := decodeKey(key)
	if !ok {
		return forbidden("bad_proof", "metadata.proof: the sender has registered no Ed25519 public_key to check it with")
	}
	signature, ok := decode64(p.Signature)
	if !ok || !ed25519.Verify(public, p.signed(m, to, payload), signature) {
		return forbidden("bad_proof", "metadata.proof: the signature is not the sender's over this message")
	}
	return nil
}

// signed returns what is signed: the members sorted by name.
func (p *proof) signed(m *message, to string, payload jsontext.Value) []byte {
	b := make([]byte, 0, 512+len(payload)+len(p.rest))
	b = quote(append(b, `{"channel_id":`...), m.ch.id)
	b = quoteOrNull(append(b, `,"correlation_id":`...), m.correlation)
	b = m.expires.append(append(b, `,"expires_at":`...))
	b = quote(append(b, `,"message_type":`...), m.kind)
	b = append(append(b, `,"metadata":`...), p.rest...)
	b = append(append(b, `,"payload":`...), payload...)
	b = quote(append(b, `,"sender":`...), ownID(m.sender, m.sender))
	b = quoteOrNull(append(b, `,"to":`...), to)
	return append(b, '}')
}

// null is a string that is null in JSON where it is empty.
type null string

func (s null) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return jsontext.AppendQuote(nil, string(s))
}

// decodeKey reads an Ed25519 public key: 32 bytes in base64, with or without "ed25519:".
func decodeKey(text string) (ed25519.PublicKey, bool) {
	if prefix, rest, ok := strings.Cut(text, ":"); ok && strings.EqualFold(prefix, "ed25519") {
		text = rest
	}
	b, ok := decode64(text)
	return b, ok && len(b) == ed25519.PublicKeySize
}

// decode64 reads base64 in either alphabet, padded or not.
func decode64(text string) ([]byte, bool) {
	text = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(text), "=")
	b, err := base64.RawURLEncoding.DecodeString(text)
	return b, err == nil
}
