package message

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Pins holds the keys that a receiver trusts: the file trust/allowed_signers.yaml in its
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
	root, err := loadYAMLText(data)
	if err != nil {
		p.Err = fmt.Errorf("cannot read pin file %s: %w", source, err)
		return p
	}
	if p.keys, err = parsePinList(root); err != nil {
		p.Err = fmt.Errorf("pin file %s%w", source, err)
	}
	return p
}

// parsePinList returns the keys by their ids, or an error whose text goes on after the file's name.
func parsePinList(root *yaml.Node) (map[string]pin, error) {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, errors.New(" must be a YAML mapping")
	}
	if v := FindYAMLMember(root, "version"); v == nil || isNestedNode(v) || v.Value != "1" {
		version := formatPythonStrOrNone(v)
		if s, ok := readStringNode(v); ok {
			version = formatPythonRepr(s)
		}
		return nil, fmt.Errorf(" has unsupported version %s", version)
	}
	signers := FindYAMLMember(root, "signers")
	if isNullNode(signers) {
		return nil, nil
	}
	if signers.Kind != yaml.SequenceNode {
		return nil, errors.New(": signers must be a list")
	}
	keys := make(map[string]pin)
	for i, item := range signers.Content {
		kid, p, err := parsePin(resolveYAMLAlias(item))
		if err != nil {
			return nil, fmt.Errorf(": signers[%d]%w", i, err)
		}
		if _, ok := keys[kid]; ok {
			return nil, fmt.Errorf(": duplicate kid '%s'", kid)
		}
		for _, column := range []string{"domain", "instance"} {
			n := FindYAMLMember(resolveYAMLAlias(item), column)
			if s, ok := readStringNode(n); !isNullNode(n) && (!ok || stripPythonSpace(s) == "") {
				return nil, fmt.Errorf(": signers[%d]: reserved column '%s' must be a non-empty string or null", i, column)
			}
		}
		keys[kid] = p
	}
	return keys, nil
}

func parsePin(entry *yaml.Node) (string, pin, error) {
	var p pin
	if entry.Kind != yaml.MappingNode {
		return "", p, errors.New(" must be a mapping")
	}
	kid, _ := readStringNode(FindYAMLMember(entry, "kid"))
	if kid == "" {
		return "", p, errors.New(" missing kid")
	}
	if err := checkKID(kid); err != nil {
		return "", p, fmt.Errorf(": %w", err)
	}
	if p.agent, _ = readStringNode(FindYAMLMember(entry, "agent")); p.agent == "" {
		return "", p, errors.New(" missing agent")
	}
	if n := FindYAMLMember(entry, "status"); n != nil {
		status := strings.ToLower(stripPythonSpace(formatPythonStrOrNone(n)))
		if status != "active" && status != "revoked" {
			return "", p, fmt.Errorf(" has unknown status '%s'", status)
		}
		p.revoked = status == "revoked"
	}
	jwk := FindYAMLMember(entry, "jwk")
	if p.revoked && isNullNode(jwk) {
		return kid, p, nil
	}
	x, key, err := parseJWK(jwk)
	if err != nil {
		return "", p, fmt.Errorf(": %w", err)
	}
	if computeKID(x) != kid {
		return "", p, errors.New(": kid is not the RFC 7638 thumbprint of its jwk")
	}
	p.key = key
	return kid, p, nil
}

// parseJWK returns the public key of an OKP key (RFC 8037, section 2), and refuses one that
// has other members.
func parseJWK(jwk *yaml.Node) (x string, key ed25519.PublicKey, err error) {
	if jwk == nil || jwk.Kind != yaml.MappingNode {
		return "", nil, errors.New("jwk must be a mapping")
	}
	var extra []string
	for _, p := range listMappingPairs(jwk) {
		if p.key != "kty" && p.key != "crv" && p.key != "x" {
			extra = append(extra, formatPythonRepr(p.key))
		}
	}
	if extra != nil {
		slices.Sort(extra)
		return "", nil, fmt.Errorf("jwk carries unexpected members [%s] — only kty/crv/x are allowed (a private 'd' component must never enter a trust file)",
			strings.Join(extra, ", "))
	}
	kty, _ := readStringNode(FindYAMLMember(jwk, "kty"))
	crv, _ := readStringNode(FindYAMLMember(jwk, "crv"))
	if kty != "OKP" || crv != "Ed25519" {
		return "", nil, errors.New("jwk must be an Ed25519 OKP public key")
	}
	x, _ = readStringNode(FindYAMLMember(jwk, "x"))
	key, err = decodeCanonicalBase64(x, "jwk x")
	if err == nil && len(key) != ed25519.PublicKeySize {
		err = fmt.Errorf("jwk x must decode to exactly 32 bytes (got %d)", len(key))
	}
	return x, key, err
}

// formatPythonStrOrNone returns Python's str of a value: None for null.
func formatPythonStrOrNone(n *yaml.Node) string {
	if isNullNode(n) {
		return "None"
	}
	return formatPythonStr(n)
}
