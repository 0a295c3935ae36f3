package chain

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Proof holds metadata.proof of a message, in the form of RFC-0018's EventProof. It signs the
// RFC 8785 form of an object with the message's channel_id, sender, to, message_type,
// correlation_id, payload, expires_at and metadata (without proof).
type Proof struct {
	Type      string         `json:"type"`
	Signature string         `json:"signature"`
	rest      jsontext.Value // the RFC 8785 form of metadata without it
}

// ProofError says what is wrong with a proof.
type ProofError string

func (e ProofError) Error() string { return string(e) }

// Message holds the parts of a message that a proof signs, without the metadata.
type Message struct {
	ChannelID, Sender, To, Kind, Correlation string

	ExpiresAt Time
	Payload   jsontext.Value // in its RFC 8785 form
}

// ProofType is the one type of proof that is known.
const ProofType = "Ed25519Signature2026"

// FindProof reads the proof in metadata, an object. It returns nil if there is none, and a
// [ProofError] if it is of another form.
func FindProof(metadata jsontext.Value) (*Proof, error) {
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
	p := new(Proof)
	if json.Unmarshal(raw, p) != nil || p.Type != ProofType {
		return nil, ProofError("its type must be " + ProofType + ", with a signature")
	}
	delete(parts, "proof")
	rest, err := json.Marshal(parts)
	p.rest = rest
	if err == nil {
		err = p.rest.Canonicalize()
	}
	return p, err
}

// CheckSignature verifies the proof of m with the public key that the sender has registered. Its
// error is a [ProofError].
func (p *Proof) CheckSignature(key string, m *Message) error {
	public, ok := ParsePublicKey(key)
	if !ok {
		return ProofError("the sender has registered no Ed25519 public_key to check it with")
	}
	signature, ok := decodeBase64(p.Signature)
	if !ok || !ed25519.Verify(public, p.encodeSignedText(m), signature) {
		return ProofError("the signature is not the sender's over this message")
	}
	return nil
}

// encodeSignedText returns the text that the proof of m signs: members sorted by name.
func (p *Proof) encodeSignedText(m *Message) []byte {
	b := make([]byte, 0, 512+len(m.Payload)+len(p.rest))
	b = AppendJSONString(append(b, `{"channel_id":`...), m.ChannelID)
	b = AppendJSONStringOrNull(append(b, `,"correlation_id":`...), m.Correlation)
	b = m.ExpiresAt.AppendJSON(append(b, `,"expires_at":`...))
	b = AppendJSONString(append(b, `,"message_type":`...), m.Kind)
	b = append(append(b, `,"metadata":`...), p.rest...)
	b = append(append(b, `,"payload":`...), m.Payload...)
	b = AppendJSONString(append(b, `,"sender":`...), m.Sender)
	b = AppendJSONStringOrNull(append(b, `,"to":`...), m.To)
	return append(b, '}')
}

// ParsePublicKey reads an Ed25519 public key: 32 bytes in base64, with or without "ed25519:".
func ParsePublicKey(text string) (ed25519.PublicKey, bool) {
	if prefix, rest, ok := strings.Cut(text, ":"); ok && strings.EqualFold(prefix, "ed25519") {
		text = rest
	}
	b, ok := decodeBase64(text)
	return b, ok && len(b) == ed25519.PublicKeySize
}

// decodeBase64 reads base64 in either alphabet, padded or not.
func decodeBase64(text string) ([]byte, bool) {
	text = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(text), "=")
	b, err := base64.RawURLEncoding.DecodeString(text)
	return b, err == nil
}
