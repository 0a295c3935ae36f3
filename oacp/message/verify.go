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

// What Verify can find.
const (
	Unsigned  = "unsigned"
	Verified  = "verified"
	Invalid   = "invalid"   // signed, and not by whom it says
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
