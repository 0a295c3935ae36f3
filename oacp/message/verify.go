package message

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// What Verify can find.
const (
	Unsigned  = "unsigned"
	Verified  = "verified"
	Invalid   = "invalid"   // signed, and not by whom it says
	Untrusted = "untrusted" // no signature is by a pinned key
	Revoked   = "revoked"   // the pinned keys are revoked
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

// Auth is the judgement on one file's signatures, in the reference's JSON form.
type Auth struct {
	Status           string  `json:"status"`
	Alg              *string `json:"alg"`
	Scheme           *string `json:"scheme"`
	ClaimedSender    *string `json:"claimed_sender"`
	VerifiedSigner   *string `json:"verified_signer"`
	VerifiedInstance *string `json:"verified_instance"`
	KID              *string `json:"kid"`
	PayloadSHA256    *string `json:"payload_sha256"`
	TrustSource      *string `json:"trust_source"`
	Checked          []Check `json:"signatures_checked"`
	Reason           *string `json:"reason"`
	VerifiedAt       string  `json:"verified_at_utc"`
}

// Check is what became of one signature.
type Check struct {
	KID     string `json:"kid"`
	Agent   string `json:"agent"`
	Outcome string `json:"outcome"`
}

// OK tells whether the message may be processed as before there were signatures: it is
// verified, or not signed at all.
func (a Auth) OK() bool { return a.Status == Unsigned || a.Status == Verified }

// String is the judgement as one line.
func (a Auth) String() string {
	label := map[string]string{
		Unsigned: "unsigned", Verified: "signed-verified", Untrusted: "signed-unknown-kid", Invalid: "signed-INVALID", Revoked: "signed-REVOKED",
	}[a.Status]
	line := "[oacp-auth] " + label
	if a.VerifiedSigner != nil {
		line += " signer=" + *a.VerifiedSigner
	}
	if a.KID != nil {
		line += " kid=" + (*a.KID)[:12] + "…"
	}
	if a.Reason != nil {
		line += " reason: " + *a.Reason
	}
	return line
}

// Verify judges the signatures of a message file against pins, before anything in it
// is parsed. One valid signature of the agent that the message names as its sender is
// enough; a key that is revoked proves nothing, whatever the date.
func Verify(raw []byte, pins Pins, now time.Time) Auth {
	a := Auth{Status: Unsigned, Checked: []Check{}, VerifiedAt: Stamp(now)}
	if pins.Source != "" {
		a.TrustSource = &pins.Source
	}
	if pins.Err != nil {
		a.Reason = new(pins.Err.Error())
	}
	if len(raw) > MaxBytes {
		return a.found(Invalid, "message exceeds size bound")
	}
	prefix, value, ok := splitAuth(raw)
	digest := sha256.Sum256(prefix)
	a.PayloadSHA256 = new(hex.EncodeToString(digest[:]))
	if !ok {
		if looksSigned(raw) {
			return a.found(Invalid, `auth framing: final line is auth-like but violates exact framing (auth: "<base64url>" + exactly one LF, bounded size)`)
		}
		return a
	}
	a.Alg, a.Scheme = new("EdDSA"), new("raw-prefix-v1")
	signatures, err := decodeAuth(value)
	if err != nil {
		return a.found(Invalid, "auth framing: "+err.Error())
	}
	return a.judge(signatures, prefix, pins)
}

func (a Auth) found(status, reason string) Auth {
	a.Status, a.Reason = status, &reason
	return a
}

// looksSigned tells a damaged signature from none: the last line with text begins
// with the field's name.
func looksSigned(raw []byte) bool {
	text := bytes.TrimRight(raw, " \t\r\n")
	return bytes.HasPrefix(text[bytes.LastIndexByte(text, '\n')+1:], []byte("auth:"))
}

// judge tries every signature, so that their order does not matter.
func (a Auth) judge(signatures []signature, prefix []byte, pins Pins) Auth {
	var signers []header // who has signed, in step with proven
	var proven []int
	bad, revoked := false, false
	for i, s := range signatures {
		h, _ := decodeHeader(s.protected) // decodeAuth has seen it
		p, known := pins.keys[h.kid]
		outcome := "verified"
		switch {
		case !known:
			outcome = "unknown_kid"
		case p.revoked:
			outcome, revoked = "revoked", true
		case p.agent != h.name():
			outcome, bad = "pin_agent_mismatch", true
		case !s.by(p.key, prefix):
			outcome, bad = "bad_signature", true
		default:
			signers, proven = append(signers, h), append(proven, i)
		}
		a.Checked = append(a.Checked, Check{h.kid, h.agent, outcome})
	}
	switch {
	case signers != nil:
		return a.attribute(signers, proven, prefix)
	case bad:
		return a.found(Invalid, "signature present but failed verification")
	case revoked:
		return a.found(Revoked, "all matching pins are revoked")
	case pins.Err != nil:
		return a.found(Untrusted, fmt.Sprintf("no signature matches a receiver-pinned kid (trust root unusable: %s)", pins.Err))
	}
	return a.found(Untrusted, "no signature matches a receiver-pinned kid")
}

func (s signature) by(key ed25519.PublicKey, prefix []byte) bool {
	sig, err := decodeBase64(s.signature)
	input := s.protected + "." + base64.RawURLEncoding.EncodeToString(prefix)
	return err == nil && len(prefix) > 0 && ed25519.Verify(key, []byte(input), sig)
}

// attribute compares who has signed with whom the message names: only now is it parsed.
func (a Auth) attribute(signers []header, proven []int, prefix []byte) Auth {
	claimed := "None"
	if d, err := Parse(prefix); err == nil {
		if from := d.fields["from"]; from != nil && !nested(from) {
			a.ClaimedSender = new(strip(from.Value))
			claimed = quote(*a.ClaimedSender)
		}
	}
	var names []string
	for i, h := range signers {
		names = append(names, h.name())
		if a.ClaimedSender == nil || h.name() != *a.ClaimedSender {
			a.Checked[proven[i]].Outcome = "identity_mismatch"
			continue
		}
		if a.Status != Verified {
			a.Status, a.Reason = Verified, nil
			a.VerifiedSigner, a.VerifiedInstance, a.KID = &h.agent, &h.instance, &h.kid
		}
	}
	if a.Status != Verified {
		slices.Sort(names)
		return a.found(Invalid, fmt.Sprintf("signer identity mismatch: verified %s, message claims %s",
			strings.Join(slices.Compact(names), ", "), claimed))
	}
	return a
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
	if v := member(root, "version"); v == nil || nested(v) || v.Value != "1" {
		return nil, fmt.Errorf(" has unsupported version %s", version(v))
	}
	signers := member(root, "signers")
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
			n := member(resolve(item), column)
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
	kid, _ := text(member(entry, "kid"))
	if kid == "" {
		return "", p, errors.New(" missing kid")
	}
	if err := checkKID(kid); err != nil {
		return "", p, fmt.Errorf(": %w", err)
	}
	if p.agent, _ = text(member(entry, "agent")); p.agent == "" {
		return "", p, errors.New(" missing agent")
	}
	status := "active"
	if n := member(entry, "status"); n != nil {
		status = strings.ToLower(strip(shownNode(n)))
	}
	if status != "active" && status != "revoked" {
		return "", p, fmt.Errorf(" has unknown status '%s'", status)
	}
	p.revoked = status == "revoked"
	jwk := member(entry, "jwk")
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
	kty, _ := text(member(jwk, "kty"))
	crv, _ := text(member(jwk, "crv"))
	if kty != "OKP" || crv != "Ed25519" {
		return "", nil, errors.New("jwk must be an Ed25519 OKP public key")
	}
	x, _ = text(member(jwk, "x"))
	key, err = decodeCanonical(x, "jwk x")
	if err == nil && len(key) != ed25519.PublicKeySize {
		err = fmt.Errorf("jwk x must decode to exactly 32 bytes (got %d)", len(key))
	}
	return x, key, err
}

// member returns a mapping's value, nil if it has none.
func member(n *yaml.Node, key string) *yaml.Node {
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
