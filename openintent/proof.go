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
	Type      string `json:"type"`
	Signature string `json:"signature"`
}

const proofType = "Ed25519Signature2026"

// checkProof verifies the proof in metadata, if there is one, with the key that
// the sender has registered.
func checkProof(key string, m *message, payload, metadata jsontext.Value) error {
	if len(metadata) == len("{}") {
		return nil
	}
	var parts map[string]jsontext.Value
	if err := json.Unmarshal(metadata, &parts); err != nil {
		return err
	}
	raw, ok := parts["proof"]
	if !ok {
		return nil
	}
	var p proof
	if json.Unmarshal(raw, &p) != nil || p.Type != proofType {
		return forbidden("bad_proof", "metadata.proof: its type must be %s, with a signature", proofType)
	}
	public, ok := decodeKey(key)
	if !ok {
		return forbidden("bad_proof", "metadata.proof: the sender has registered no Ed25519 public_key to check it with")
	}
	signature, ok := decode64(p.Signature)
	delete(parts, "proof")
	signed, err := signedForm(m, payload, parts)
	if err != nil {
		return err
	}
	if !ok || !ed25519.Verify(public, signed, signature) {
		return forbidden("bad_proof", "metadata.proof: the signature is not the sender's over this message")
	}
	return nil
}

func signedForm(m *message, payload jsontext.Value, metadata map[string]jsontext.Value) ([]byte, error) {
	rest, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	v := members("channel_id", m.ch.id, "sender", m.sender, "to", null(m.to), "message_type", m.kind, "correlation_id", null(m.correlation),
		"payload", payload, "expires_at", m.expires, "metadata", jsontext.Value(rest))
	err = v.Canonicalize()
	return v, err
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
