package message

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// header is what a signer says of itself: the key, and whose it is.
type header struct{ kid, agent, instance string }

// name is the agent's name at the end of its URN.
func (h header) name() string { return h.agent[strings.LastIndexByte(h.agent, ':')+1:] }

// forbidden lists the parameters that would let a message bring its own key.
var forbidden = [...]string{"jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256"}

// decodeHeader returns a protected header of the one allowed profile.
func decodeHeader(protected string) (header, error) {
	var none header
	if len(protected) > maxProtected {
		return none, errors.New("protected header missing or oversized")
	}
	raw, err := decodeBase64(protected)
	if err != nil {
		return none, err
	}
	decoded, err := decodeJSON(raw, "protected header")
	if err != nil {
		return none, err
	}
	members, ok := decoded.(map[string]any)
	if !ok {
		return none, errors.New("protected header must be a JSON object")
	}
	for _, key := range forbidden {
		if _, ok := members[key]; ok {
			return none, fmt.Errorf("forbidden JOSE parameter: '%s'", key)
		}
	}
	if err := exactly(members, "protected header", "alg", "crit", "kid", "oacp", "typ"); err != nil {
		return none, err
	}
	if members["alg"] != "EdDSA" {
		return none, errors.New("alg must be 'EdDSA'")
	}
	if members["typ"] != "oacp-message+yaml" {
		return none, errors.New("typ must be 'oacp-message+yaml'")
	}
	kid, _ := members["kid"].(string)
	if err := checkKID(kid); err != nil {
		return none, err
	}
	if crit, _ := members["crit"].([]any); len(crit) != 1 || crit[0] != "oacp" {
		return none, errors.New("crit must be exactly ['oacp']")
	}
	oacp, ok := members["oacp"].(map[string]any)
	if !ok {
		return none, errors.New("oacp header member must be a JSON object")
	}
	if err := exactly(oacp, "oacp header", "agent", "domain", "instance", "scheme"); err != nil {
		return none, err
	}
	if oacp["scheme"] != "raw-prefix-v1" {
		return none, fmt.Errorf("unknown signing scheme: %s", shown(oacp["scheme"]))
	}
	if oacp["domain"] != "urn:oacp:message:v1" {
		return none, fmt.Errorf("unknown signing domain: %s", shown(oacp["domain"]))
	}
	agent, _ := oacp["agent"].(string)
	instance, _ := oacp["instance"].(string)
	if err := checkURNs(agent, instance); err != nil {
		return none, err
	}
	return header{kid, agent, instance}, nil
}

// checkKID refuses what is not the thumbprint of a key (RFC 7638) in its one spelling.
func checkKID(kid string) error {
	if len(kid) != thumbprint || !base64URL(kid) {
		return errors.New("kid must be an RFC 7638 SHA-256 JWK thumbprint (43 unpadded base64url characters)")
	}
	_, err := decodeCanonical(kid, "kid")
	return err
}

func checkURNs(agent, instance string) error {
	const agentPrefix, instancePrefix = "urn:oacp:agent:", "urn:uuid:"
	rest, ok := strings.CutPrefix(agent, agentPrefix)
	if !ok {
		return fmt.Errorf("agent identity must start with '%s'", agentPrefix)
	}
	colon := strings.LastIndexByte(rest, ':')
	if colon < 1 || colon == len(rest)-1 {
		return errors.New("agent identity must be urn:oacp:agent:<trust-domain-uuid>:<agent>")
	}
	if !uuid(rest[:colon]) {
		return fmt.Errorf("agent identity trust domain must be a UUID, got %s", quote(rest[:colon]))
	}
	if !LegalAgent(rest[colon+1:]) {
		return fmt.Errorf("agent identity name must match %s", agentPattern)
	}
	rest, ok = strings.CutPrefix(instance, instancePrefix)
	if !ok {
		return fmt.Errorf("instance identity must start with '%s'", instancePrefix)
	}
	if !uuid(rest) {
		return fmt.Errorf("instance identity must be urn:uuid:<uuid>, got suffix %s", quote(rest))
	}
	return nil
}

var uuidNoise = strings.NewReplacer("urn:", "", "uuid:", "")

// uuid is as lenient as Python's: the digits count.
func uuid(s string) bool {
	s = strings.ReplaceAll(strings.Trim(uuidNoise.Replace(s), "{}"), "-", "")
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 32
}
