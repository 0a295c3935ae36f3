package message

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The statuses that VerifyMessage can find.
const (
	Unsigned  = "unsigned"
	Verified  = "verified"
	Invalid   = "invalid"   // signed, but not by the agent that the message names
	Untrusted = "untrusted" // no signature is by a pinned key
	Revoked   = "revoked"   // the pinned keys are revoked
)

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

// Check holds the outcome for one signature.
type Check struct {
	KID     string `json:"kid"`
	Agent   string `json:"agent"`
	Outcome string `json:"outcome"`
}

// IsAcceptable reports whether the message may be processed: it is verified, or not signed at all.
func (a Auth) IsAcceptable() bool { return a.Status == Unsigned || a.Status == Verified }

// String returns the judgement as one line.
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

// VerifyMessage judges the signatures of a message file against pins, before it parses anything in
// the file. One valid signature of the agent that the message names as its sender is enough.
// A revoked key proves nothing, whatever the date.
func VerifyMessage(raw []byte, pins Pins, now time.Time) Auth {
	a := Auth{Status: Unsigned, Checked: []Check{}, VerifiedAt: FormatTimestamp(now)}
	if pins.Source != "" {
		a.TrustSource = &pins.Source
	}
	if pins.Err != nil {
		a.Reason = new(pins.Err.Error())
	}
	if len(raw) > MaxBytes {
		return a.withStatus(Invalid, "message exceeds size bound")
	}
	prefix, value, ok := cutAuthLine(raw)
	digest := sha256.Sum256(prefix)
	a.PayloadSHA256 = new(hex.EncodeToString(digest[:]))
	if !ok {
		if looksSigned(raw) {
			return a.withStatus(Invalid, `auth framing: final line is auth-like but violates exact framing (auth: "<base64url>" + exactly one LF, bounded size)`)
		}
		return a
	}
	a.Alg, a.Scheme = new("EdDSA"), new("raw-prefix-v1")
	signatures, err := decodeAuthValue(value)
	if err != nil {
		return a.withStatus(Invalid, "auth framing: "+err.Error())
	}
	return a.judgeSignatures(signatures, prefix, pins)
}

func (a Auth) withStatus(status, reason string) Auth {
	a.Status, a.Reason = status, &reason
	return a
}

// looksSigned tells a damaged signature from none: it reports whether the last line with
// text begins with the field's name.
func looksSigned(raw []byte) bool {
	text := bytes.TrimRight(raw, " \t\r\n")
	return bytes.HasPrefix(text[bytes.LastIndexByte(text, '\n')+1:], []byte("auth:"))
}

// judgeSignatures tries every signature, so that their order does not matter.
func (a Auth) judgeSignatures(signatures []signature, prefix []byte, pins Pins) Auth {
	var signers []signatureHeader // of the valid signatures
	var proven []int              // their places among signatures
	bad, revoked := false, false
	for i, s := range signatures {
		h, _ := decodeSignatureHeader(s.protected) // decodeAuthValue has seen it
		p, known := pins.keys[h.kid]
		outcome := "verified"
		switch {
		case !known:
			outcome = "unknown_kid"
		case p.revoked:
			outcome, revoked = "revoked", true
		case p.agent != h.agentName():
			outcome, bad = "pin_agent_mismatch", true
		case !s.isMadeByKey(p.key, prefix):
			outcome, bad = "bad_signature", true
		default:
			signers, proven = append(signers, h), append(proven, i)
		}
		a.Checked = append(a.Checked, Check{h.kid, h.agent, outcome})
	}
	switch {
	case signers != nil:
		return a.matchSignersWithSender(signers, proven, prefix)
	case bad:
		return a.withStatus(Invalid, "signature present but failed verification")
	case revoked:
		return a.withStatus(Revoked, "all matching pins are revoked")
	case pins.Err != nil:
		return a.withStatus(Untrusted, fmt.Sprintf("no signature matches a receiver-pinned kid (trust root unusable: %s)", pins.Err))
	}
	return a.withStatus(Untrusted, "no signature matches a receiver-pinned kid")
}

func (s signature) isMadeByKey(key ed25519.PublicKey, prefix []byte) bool {
	sig, err := decodeBase64URL(s.signature)
	input := s.protected + "." + base64.RawURLEncoding.EncodeToString(prefix)
	return err == nil && len(prefix) > 0 && ed25519.Verify(key, []byte(input), sig)
}

// matchSignersWithSender compares the agents that have signed with the one that the message
// names. Only now is the message parsed.
func (a Auth) matchSignersWithSender(signers []signatureHeader, proven []int, prefix []byte) Auth {
	claimed := "None"
	if d, err := ParseDocument(prefix); err == nil {
		if from := d.fields["from"]; from != nil && !isNestedNode(from) {
			a.ClaimedSender = new(stripPythonSpace(from.Value))
			claimed = formatPythonRepr(*a.ClaimedSender)
		}
	}
	var names []string
	for i, h := range signers {
		names = append(names, h.agentName())
		if a.ClaimedSender == nil || h.agentName() != *a.ClaimedSender {
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
		return a.withStatus(Invalid, fmt.Sprintf("signer identity mismatch: verified %s, message claims %s",
			strings.Join(slices.Compact(names), ", "), claimed))
	}
	return a
}
