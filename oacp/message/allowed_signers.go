package message

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Pins are the keys that a receiver trusts: the file trust/allowed_signers.yaml in its
// folder. The zero value trusts nobody.
type Pins struct {
	Source string // the file's path, if there is one
	Err    error  // why the file cannot be used: then no key is pinned
	keys   map[string]pin
}

type pin struct {
	agent   string
	key     ed25519.PublicKey // nil in a revoked pin that dropped it
	revoked bool
}

// ParsePins reads a pin file. A file that cannot be used pins nothing: Err says why.
func ParsePins(source string, data []byte) Pins {
	p := Pins{Source: source}
	root, err := load(data)
	if err != nil {
		p.Err = fmt.Errorf("cannot read pin file %s: %w", source, err)
		return p
	}
	if p.keys, err = readPins(root); err != nil {
		p.Err = fmt.Errorf("pin file %s%w", source, err)
	}
	return p
}

// readPins returns the keys, or an error whose text goes on after the file's name.
func readPins(root *yaml.Node) (map[string]pin, error) {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, errors.New(" must be a YAML mapping")
	}
	if v := Member(root, "version"); v == nil || nested(v) || v.Value != "1" {
		return nil, fmt.Errorf(" has unsupported version %s", version(v))
	}
	signers := Member(root, "signers")
	if null(signers) {
		return nil, nil
	}
	if signers.Kind != yaml.SequenceNode {
		return nil, errors.New(": signers must be a list")
	}
	keys := make(map[string]pin)
	for i, item := range signers.Content {
		kid, p, err := readPin(resolve(item))
		if err != nil {
			return nil, fmt.Errorf(": signers[%d]%w", i, err)
		}
		if _, ok := keys[kid]; ok {
			return nil, fmt.Errorf(": duplicate kid '%s'", kid)
		}
		for _, column := range []string{"domain", "instance"} {
			n := Member(resolve(item), column)
			if s, ok := text(n); !null(n) && (!ok || strip(s) == "") {
				return nil, fmt.Errorf(": signers[%d]: reserved column '%s' must be a non-empty string or null", i, column)
			}
		}
		keys[kid] = p
	}
	return keys, nil
}

func readPin(entry *yaml.Node) (string, pin, error) {
	var p pin
	if entry.Kind != yaml.MappingNode {
		return "", p, errors.New(" must be a mapping")
	}
	kid, _ := text(Member(entry, "kid"))
	if kid == "" {
		return "", p, errors.New(" missing kid")
	}
	if err := checkKID(kid); err != nil {
		return "", p, fmt.Errorf(": %w", err)
	}
	if p.agent, _ = text(Member(entry, "agent")); p.agent == "" {
		return "", p, errors.New(" missing agent")
	}
	status := "active"
	if n := Member(entry, "status"); n != nil {
		status = strings.ToLower(strip(shownNode(n)))
	}
	if status != "active" && status != "revoked" {
		return "", p, fmt.Errorf(" has unknown status '%s'", status)
	}
	p.revoked = status == "revoked"
	jwk := Member(entry, "jwk")
	if p.revoked && null(jwk) {
		return kid, p, nil
	}
	x, key, err := readJWK(jwk)
	if err != nil {
		return "", p, fmt.Errorf(": %w", err)
	}
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`)) // RFC 7638, section 3
	if base64.RawURLEncoding.EncodeToString(sum[:]) != kid {
		return "", p, errors.New(": kid is not the RFC 7638 thumbprint of its jwk")
	}
	p.key = key
	return kid, p, nil
}

// readJWK returns the public key of an OKP key (RFC 8037, section 2) that has nothing else in it.
func readJWK(jwk *yaml.Node) (x string, key ed25519.PublicKey, err error) {
	if jwk == nil || jwk.Kind != yaml.MappingNode {
		return "", nil, errors.New("jwk must be a mapping")
	}
	var extra []string
	for _, p := range pairs(jwk) {
		if p.key != "kty" && p.key != "crv" && p.key != "x" {
			extra = append(extra, quote(p.key))
		}
	}
	if extra != nil {
		slices.Sort(extra)
		return "", nil, fmt.Errorf("jwk carries unexpected members [%s] — only kty/crv/x are allowed (a private 'd' component must never enter a trust file)",
			strings.Join(extra, ", "))
	}
	kty, _ := text(Member(jwk, "kty"))
	crv, _ := text(Member(jwk, "crv"))
	if kty != "OKP" || crv != "Ed25519" {
		return "", nil, errors.New("jwk must be an Ed25519 OKP public key")
	}
	x, _ = text(Member(jwk, "x"))
	key, err = decodeCanonical(x, "jwk x")
	if err == nil && len(key) != ed25519.PublicKeySize {
		err = fmt.Errorf("jwk x must decode to exactly 32 bytes (got %d)", len(key))
	}
	return x, key, err
}

// Member returns the last value of a mapping under a key, what it refers to if it is
// an alias, and nil if n is no mapping that has it.
func Member(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for _, p := range pairs(n) {
		if p.key == key {
			return resolve(p.value)
		}
	}
	return nil
}

func null(n *yaml.Node) bool { return n == nil || !nested(n) && n.ShortTag() == "!!null" }

// text returns a scalar that YAML takes for a string.
func text(n *yaml.Node) (string, bool) {
	if n == nil || nested(n) || n.ShortTag() != "!!str" {
		return "", false
	}
	return n.Value, true
}

// version shows a version that is not 1: text in quotes, numbers without.
func version(n *yaml.Node) string {
	if s, ok := text(n); ok {
		return quote(s)
	}
	return shownNode(n)
}

// shownNode is Python's str of a value, with nulls as they are there.
func shownNode(n *yaml.Node) string {
	if null(n) {
		return "None"
	}
	return str(n)
}
