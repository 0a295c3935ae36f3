package message

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// signatureHeader names the signer: the key, and the agent and machine to which it belongs.
type signatureHeader struct{ kid, agent, instance string }

// agentName returns the agent's name, which ends its URN.
func (h signatureHeader) agentName() string { return h.agent[strings.LastIndexByte(h.agent, ':')+1:] }

// forbidden lists the parameters that would let a message bring its own key.
var forbidden = [...]string{"jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256"}

// decodeSignatureHeader returns a protected header of the one allowed profile.
func decodeSignatureHeader(protected string) (signatureHeader, error) {
	var none signatureHeader
	if len(protected) > maxProtected {
		return none, errors.New("protected header missing or oversized")
	}
	raw, err := decodeBase64URL(protected)
	if err != nil {
		return none, err
	}
	members, err := decodeJSONObject(raw, "protected header")
	if err != nil {
		return none, err
	}
	for _, key := range forbidden {
		if _, ok := members[key]; ok {
			return none, fmt.Errorf("forbidden JOSE parameter: '%s'", key)
		}
	}
	kid, _ := members["kid"].(string)
	crit, _ := members["crit"].([]any)
	oacp, isObject := members["oacp"].(map[string]any)
	agent, _ := oacp["agent"].(string)
	instance, _ := oacp["instance"].(string)
	if err := checkObjectMembers(members, "protected header", "alg", "crit", "kid", "oacp", "typ"); err != nil {
		return none, err
	}
	switch {
	case members["alg"] != "EdDSA":
		return none, errors.New("alg must be 'EdDSA'")
	case members["typ"] != "oacp-message+yaml":
		return none, errors.New("typ must be 'oacp-message+yaml'")
	}
	if err := checkKID(kid); err != nil {
		return none, err
	}
	switch {
	case len(crit) != 1 || crit[0] != "oacp":
		return none, errors.New("crit must be exactly ['oacp']")
	case !isObject:
		return none, errors.New("oacp header member must be a JSON object")
	}
	if err := checkObjectMembers(oacp, "oacp header", "agent", "domain", "instance", "scheme"); err != nil {
		return none, err
	}
	switch {
	case oacp["scheme"] != "raw-prefix-v1":
		return none, fmt.Errorf("unknown signing scheme: %s", formatJSONMember(oacp["scheme"]))
	case oacp["domain"] != "urn:oacp:message:v1":
		return none, fmt.Errorf("unknown signing domain: %s", formatJSONMember(oacp["domain"]))
	}
	if err := checkSignerURNs(agent, instance); err != nil {
		return none, err
	}
	return signatureHeader{kid, agent, instance}, nil
}

// computeKID returns the thumbprint (RFC 7638, section 3) of a public key, which is base64url.
func computeKID(public string) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + public + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// checkKID refuses what is not the thumbprint of a key (RFC 7638) in its one spelling.
func checkKID(kid string) error {
	if len(kid) != thumbprint || !isBase64URL(kid) {
		return errors.New("kid must be an RFC 7638 SHA-256 JWK thumbprint (43 unpadded base64url characters)")
	}
	_, err := decodeCanonicalBase64(kid, "kid")
	return err
}

func checkSignerURNs(agent, instance string) error {
	const agentPrefix, instancePrefix = "urn:oacp:agent:", "urn:uuid:"
	id, isAgent := strings.CutPrefix(agent, agentPrefix)
	colon := strings.LastIndexByte(id, ':')
	machine, isInstance := strings.CutPrefix(instance, instancePrefix)
	switch {
	case !isAgent:
		return fmt.Errorf("agent identity must start with '%s'", agentPrefix)
	case colon < 1 || colon == len(id)-1:
		return errors.New("agent identity must be urn:oacp:agent:<trust-domain-uuid>:<agent>")
	case !isUUID(id[:colon]):
		return fmt.Errorf("agent identity trust domain must be a UUID, got %s", formatPythonRepr(id[:colon]))
	case !IsLegalAgentName(id[colon+1:]):
		return fmt.Errorf("agent identity name must match %s", agentPattern)
	case !isInstance:
		return fmt.Errorf("instance identity must start with '%s'", instancePrefix)
	case !isUUID(machine):
		return fmt.Errorf("instance identity must be urn:uuid:<uuid>, got suffix %s", formatPythonRepr(machine))
	}
	return nil
}

var uuidNoise = strings.NewReplacer("urn:", "", "uuid:", "")

// isUUID reports whether Python takes s for a UUID: only the digits count.
func isUUID(s string) bool {
	s = strings.ReplaceAll(strings.Trim(uuidNoise.Replace(s), "{}"), "-", "")
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 32
}
