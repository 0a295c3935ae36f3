package message

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// A signed message ends with the line
//
//	auth: "<base64url of {"signatures":[{"protected":…,"signature":…}, …]}>"
//
// and one newline: detached General JWS (RFC 7515, section 7.2.1 and appendix F) over the
// bytes before that line. acpd checks the form. The reference tool checks the signatures.

const (
	maxAuth       = 16384 // characters of the value
	maxProtected  = 4096  // characters of a protected header
	maxSignatures = 8
	thumbprint    = 43 // characters of a SHA-256 in base64url
)

// signatureList is the value of auth, decoded.
type signatureList struct {
	Signatures []struct {
		Protected string `json:"protected"`
		Signature string `json:"signature"`
	} `json:"signatures"`
}

// signatureHeader is a protected header, decoded.
type signatureHeader struct {
	Alg  string   `json:"alg"`
	Crit []string `json:"crit"`
	KID  string   `json:"kid"`
	OACP struct {
		Agent    string `json:"agent"`
		Domain   string `json:"domain"`
		Instance string `json:"instance"`
		Scheme   string `json:"scheme"`
	} `json:"oacp"`
	Typ string `json:"typ"`
}

// checkAuth checks the form and the place of a signature.
func (f *findings) checkAuth() {
	n := f.d.fields["auth"]
	if n == nil || isNestedNode(n) { // Validate reports a nested one
		return
	}
	if err := checkAuthValue(n.Value); err != nil {
		f.addFinding("field 'auth': %v", err)
	} else if !bytes.HasSuffix(f.d.raw, []byte("\nauth: \""+n.Value+"\"\n")) {
		f.addFinding("field 'auth' must be the last line of the file: auth: \"…\" and one newline")
	}
}

// checkAuthValue checks the form of a value of auth, which has one spelling.
func checkAuthValue(value string) error {
	text, ok := decodeBase64URL(value)
	if !ok || len(value) > maxAuth {
		return fmt.Errorf("it must be base64url of at most %d characters", maxAuth)
	}
	var list signatureList
	if json.Unmarshal(text, &list) != nil || len(list.Signatures) == 0 || len(list.Signatures) > maxSignatures {
		return fmt.Errorf("it must hold 1 to %d signatures as JSON", maxSignatures)
	}
	var entries []string
	for _, s := range list.Signatures {
		if _, ok := decodeBase64URL(s.Signature); !ok {
			return errors.New("a signature is not base64url")
		}
		if err := checkSignatureHeader(s.Protected); err != nil {
			return err
		}
		entries = append(entries, fmt.Sprintf(`{"protected":"%s","signature":"%s"}`, s.Protected, s.Signature))
	}
	if string(text) != `{"signatures":[`+strings.Join(entries, ",")+"]}" {
		return errors.New("its JSON must have the members protected and signature, in this order, and no spaces")
	}
	return nil
}

// checkSignatureHeader checks a protected header: the only kind of key and scheme that there
// is, and who has signed.
func checkSignatureHeader(protected string) error {
	text, err := base64.RawURLEncoding.DecodeString(protected)
	var h signatureHeader
	if err != nil || len(protected) > maxProtected || json.Unmarshal(text, &h, json.RejectUnknownMembers(true)) != nil {
		return errors.New("a protected header is not the JSON that it must be")
	}
	if h.Alg != "EdDSA" || h.Typ != "oacp-message+yaml" || len(h.Crit) != 1 || h.Crit[0] != "oacp" ||
		h.OACP.Scheme != "raw-prefix-v1" || h.OACP.Domain != "urn:oacp:message:v1" {
		return errors.New("a protected header has another algorithm, type or scheme than the one that there is")
	}
	if _, ok := decodeBase64URL(h.KID); !ok || len(h.KID) != thumbprint {
		return errors.New("a key's id must be its SHA-256 thumbprint (RFC 7638)")
	}
	id, isAgent := strings.CutPrefix(h.OACP.Agent, "urn:oacp:agent:")
	colon := strings.LastIndexByte(id, ':')
	if !isAgent || colon < 0 || !isUUID(id[:colon]) || !IsLegalAgentName(id[colon+1:]) {
		return errors.New("the signer must be urn:oacp:agent:UUID:AGENT")
	}
	if machine, ok := strings.CutPrefix(h.OACP.Instance, "urn:uuid:"); !ok || !isUUID(machine) {
		return errors.New("the signer's machine must be urn:uuid:UUID")
	}
	return nil
}

// decodeBase64URL decodes base64url without padding. It refuses a second spelling of the same
// bytes.
func decodeBase64URL(s string) (b []byte, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return b, err == nil && s != "" && !strings.ContainsAny(s, "\r\n")
}

var uuidNoise = strings.NewReplacer("urn:", "", "uuid:", "")

// isUUID reports whether the reference takes s for a UUID: 32 digits, with hyphens anywhere.
func isUUID(s string) bool {
	s = strings.ReplaceAll(strings.Trim(uuidNoise.Replace(s), "{}"), "-", "")
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 32
}
