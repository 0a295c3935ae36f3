package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A signed message ends with the line
//
//	auth: "<base64url of {"signatures":[{"protected":…,"signature":…}, …]}>"
//
// and one newline: detached General JWS (RFC 7515, section 7.2.1 and appendix F) over
// the bytes before that line. Everything in it has one spelling.

const (
	maxAuth       = 16384 // characters of the value
	maxProtected  = 4096
	maxSignatures = 8
	thumbprint    = 43 // characters of a SHA-256 in base64url
)

// checkAuth checks the form and the place of a signature. VerifyMessage checks the signature itself.
func (f *findings) checkAuth() {
	n := f.d.fields["auth"]
	if n == nil {
		return
	}
	if !isNestedNode(n) {
		if _, err := decodeAuthValue(n.Value); err != nil {
			f.addFinding("field 'auth': %s", err)
		}
	}
	if f.d.raw == nil {
		return // not a file
	}
	switch _, trailer, ok := cutAuthLine(f.d.raw); {
	case !ok:
		f.addFinding("field 'auth' must be the final physical line of the file: auth: \"<base64url>\" followed by exactly one LF (no CRLF)")
	case trailer != formatPythonStr(n):
		f.addFinding("field 'auth' parsed value does not match the raw trailer line")
	}
}

// cutAuthLine cuts the last line off if it has the exact form of a signature.
func cutAuthLine(raw []byte) (prefix []byte, value string, ok bool) {
	body, ok := bytes.CutSuffix(raw, []byte("\n"))
	if !ok {
		return raw, "", false
	}
	start := bytes.LastIndexByte(body, '\n') + 1
	line, ok := strings.CutPrefix(string(body[start:]), `auth: "`)
	if !ok {
		return raw, "", false
	}
	value, ok = strings.CutSuffix(line, `"`)
	if !ok || !isBase64URL(value) || len(value) > maxAuth {
		return raw, "", false
	}
	return raw[:start], value, true
}

func isBase64URL(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r > 0x7f || !isAlphanumeric(byte(r)) && r != '-' && r != '_'
	}) < 0
}

func decodeBase64URL(s string) ([]byte, error) {
	if !isBase64URL(s) {
		return nil, errors.New("invalid base64url value")
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("invalid base64url length")
	}
	return b, nil
}

// decodeCanonicalBase64 decodes base64url, and refuses a second spelling of the same bytes.
func decodeCanonicalBase64(s, what string) ([]byte, error) {
	b, err := decodeBase64URL(s)
	if err == nil && base64.RawURLEncoding.EncodeToString(b) != s {
		err = fmt.Errorf("%s is not the canonical base64url encoding of its bytes — non-zero unused pad bits give the same bytes a second spelling", what)
	}
	return b, err
}

// signature is one entry of the container: a header and its signature, both as base64url.
type signature struct{ protected, signature string }

// decodeAuthValue returns the signatures of a value whose form is right.
func decodeAuthValue(value string) ([]signature, error) {
	if len(value) > maxAuth {
		return nil, errors.New("auth value missing or oversized")
	}
	raw, err := decodeCanonicalBase64(value, "auth value")
	if err != nil {
		return nil, err
	}
	container, err := decodeJSONObject(raw, "auth container")
	if err != nil {
		return nil, err
	}
	if extra := listUnexpectedMembers(container, "signatures"); extra != nil {
		return nil, fmt.Errorf("auth container has unexpected member(s): %s", strings.Join(extra, ", "))
	}
	list, _ := container["signatures"].([]any)
	if len(list) == 0 {
		return nil, errors.New("auth container must carry a non-empty signatures array")
	}
	if len(list) > maxSignatures {
		return nil, fmt.Errorf("signatures array exceeds maximum of %d", maxSignatures)
	}
	signatures := make([]signature, len(list))
	for i, item := range list {
		if signatures[i], err = decodeSignature(i, item); err != nil {
			return nil, err
		}
	}
	if !bytes.Equal(raw, encodeAuthValue(signatures)) {
		return nil, errors.New("auth container is not the signer's canonical compact JSON emit — formatting variants give one signed message a second wire spelling")
	}
	for _, s := range signatures {
		if _, err := decodeSignatureHeader(s.protected); err != nil {
			return nil, err
		}
	}
	return signatures, nil
}

func decodeSignature(i int, item any) (signature, error) {
	entry, ok := item.(map[string]any)
	if !ok || len(entry) != 2 || listUnexpectedMembers(entry, "protected", "signature") != nil {
		return signature{}, fmt.Errorf("signatures[%d] must be exactly {protected, signature}", i)
	}
	for _, member := range []string{"protected", "signature"} {
		if v, ok := entry[member].(string); !ok || !isBase64URL(v) {
			return signature{}, fmt.Errorf("signatures[%d].%s must be unpadded base64url", i, member)
		}
	}
	s := signature{entry["protected"].(string), entry["signature"].(string)}
	_, err := decodeCanonicalBase64(s.signature, fmt.Sprintf("signatures[%d].signature", i))
	return s, err
}

// encodeAuthValue writes a container in its one spelling. Nothing in it needs an escape.
func encodeAuthValue(signatures []signature) []byte {
	var entries []string
	for _, s := range signatures {
		entries = append(entries, fmt.Sprintf(`{"protected":"%s","signature":"%s"}`, s.protected, s.signature))
	}
	return []byte(`{"signatures":[` + strings.Join(entries, ",") + "]}")
}

var duplicateName = regexp.MustCompile(`duplicate object member name ("(?:[^"\\]|\\.)*")`)

// decodeJSONObject reads a JSON object, which errors call what.
func decodeJSONObject(raw []byte, what string) (map[string]any, error) {
	var v any
	err := json.Unmarshal(raw, &v)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		if m := duplicateName.FindStringSubmatch(err.Error()); m != nil {
			if name, err := jsontext.AppendUnquote(nil, m[1]); err == nil {
				return nil, fmt.Errorf("duplicate JSON key: %s", formatPythonRepr(string(name)))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not valid JSON: %w", what, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a JSON object", what)
	}
	return object, nil
}

// checkObjectMembers refuses an object that has other members than the given ones, which are
// sorted, or lacks one. The error calls the object what.
func checkObjectMembers(object map[string]any, what string, members ...string) error {
	if extra := listUnexpectedMembers(object, members...); extra != nil {
		return fmt.Errorf("unknown %s member(s): %s", what, strings.Join(extra, ", "))
	}
	var missing []string
	for _, key := range members {
		if _, ok := object[key]; !ok {
			missing = append(missing, key)
		}
	}
	if missing != nil {
		return fmt.Errorf("missing %s member(s): %s", what, strings.Join(missing, ", "))
	}
	return nil
}

// listUnexpectedMembers returns the names of an object's other members, sorted.
func listUnexpectedMembers(object map[string]any, members ...string) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(members, key) {
			names = append(names, key)
		}
	}
	return names
}

// formatJSONMember writes a value of JSON as Python would.
func formatJSONMember(v any) string {
	switch v := v.(type) {
	case string:
		return formatPythonRepr(v)
	case nil:
		return "None"
	}
	return fmt.Sprint(v)
}
