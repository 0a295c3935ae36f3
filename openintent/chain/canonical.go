package chain

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the RFC 8785 form of v, which stays as it is.
func Canonical(v jsontext.Value) (jsontext.Value, error) {
	v = v.Clone()
	err := v.Canonicalize()
	return v, err
}

// Hash returns the SHA-256 of canonical text as RFC-0019 writes it.
func Hash(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// AppendString appends s, valid UTF-8, to b as JSON.
func AppendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// AppendStringOrNull appends s to b as JSON, null if it is empty.
func AppendStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return AppendString(b, s)
}
