package chain

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"
)

// CanonicalizeJSON returns the RFC 8785 form of v, which stays as it is.
func CanonicalizeJSON(v jsontext.Value) (jsontext.Value, error) {
	v = v.Clone()
	err := v.Canonicalize()
	return v, err
}

// HashCanonicalJSON returns the SHA-256 of canonical text as RFC-0019 writes it.
func HashCanonicalJSON(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// AppendJSONString appends s, valid UTF-8, to b as JSON.
func AppendJSONString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// AppendJSONStringOrNull appends s to b as JSON, null if it is empty.
func AppendJSONStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return AppendJSONString(b, s)
}
