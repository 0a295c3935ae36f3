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

// auth checks the form and the place of a signature, not what it proves.
func (f *findings) auth() {
	n := f.d.fields["auth"]
	if n == nil {
		return
	}
	if !nested(n) {
		if _, err := decodeAuth(n.Value); err != nil {
			f.add("field 'auth': %s", err)
		}
	}
	if f.d.raw == nil {
		return // not a file
	}
	switch _, trailer, ok := splitAuth(f.d.raw); {
	case !ok:
		f.add("field 'auth' must be the final physical line of the file: auth: \"<base64url>\" followed by exactly one LF (no CRLF)")
	case trailer != str(n):
		f.add("field 'auth' parsed value does not match the raw trailer line")
	}
}

// splitAuth cuts the last line off if it has the exact form of a signature.
func splitAuth(raw []byte) (prefix []byte, value string, ok bool) {
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
	if !ok || !base64URL(value) || len(value) > maxAuth {
		return raw, "", false
	}
	return raw[:start], value, true
}

func base64URL(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r > 0x7f || !alphanumeric(byte(r)) && r != '-' && r != '_'
	}) < 0
}

func decodeBase64(s string) ([]byte, error) {
	if !base64URL(s) {
		return nil, errors.New("invalid base64url value")
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("invalid base64url length")
	}
	return b, nil
}

// decodeCanonical refuses a second spelling of the same bytes.
func decodeCanonical(s, what string) ([]byte, error) {
	b, err := decodeBase64(s)
	if err == nil && base64.RawURLEncoding.EncodeToString(b) != s {
		err = fmt.Errorf("%s is not the canonical base64url encoding of its bytes — non-zero unused pad bits give the same bytes a second spelling", what)
	}
	return b, err
}

// signature is one entry of the container: a header, as base64url, and its signature.
type signature struct{ protected, signature string }

// decodeAuth returns the signatures of a value whose form is right.
func decodeAuth(value string) ([]signature, error) {
	if len(value) > maxAuth {
		return nil, errors.New("auth value missing or oversized")
	}
	raw, err := decodeCanonical(value, "auth value")
	if err != nil {
		return nil, err
	}
	decoded, err := decodeJSON(raw, "auth container")
	if err != nil {
		return nil, err
	}
	container, ok := decoded.(map[string]any)
	if !ok {
		return nil, errors.New("auth container must be a JSON object")
	}
	if extra := without(container, "signatures"); extra != nil {
		return nil, fmt.Errorf("auth container has unexpected member(s): %s", strings.Join(extra, ", "))
	}
	list, _ := container["signatures"].([]any)
	if len(list) == 0 {
		return nil, errors.New("auth container must carry a non-empty signatures array")
	}
	if len(list) > maxSignatures {
		return nil, fmt.Errorf("signatures array exceeds maximum of %d", maxSignatures)
	}
	var signatures []signature
	for i, item := range list {
		s, err := decodeSignature(i, item)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, s)
	}
	if !bytes.Equal(raw, encodeAuth(signatures)) {
		return nil, errors.New("auth container is not the signer's canonical compact JSON emit — formatting variants give one signed message a second wire spelling")
	}
	for _, s := range signatures {
		if _, err := decodeHeader(s.protected); err != nil {
			return nil, err
		}
	}
	return signatures, nil
}

func decodeSignature(i int, item any) (signature, error) {
	entry, ok := item.(map[string]any)
	if !ok || len(entry) != 2 || without(entry, "protected", "signature") != nil {
		return signature{}, fmt.Errorf("signatures[%d] must be exactly {protected, signature}", i)
	}
	for _, member := range []string{"protected", "signature"} {
		if v, ok := entry[member].(string); !ok || !base64URL(v) {
			return signature{}, fmt.Errorf("signatures[%d].%s must be unpadded base64url", i, member)
		}
	}
	s := signature{entry["protected"].(string), entry["signature"].(string)}
	_, err := decodeCanonical(s.signature, fmt.Sprintf("signatures[%d].signature", i))
	return s, err
}

// encodeAuth is the one spelling of a container: nothing in it needs an escape.
func encodeAuth(signatures []signature) []byte {
	var b bytes.Buffer
	b.WriteString(`{"signatures":[`)
	for i, s := range signatures {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"protected":"%s","signature":"%s"}`, s.protected, s.signature)
	}
	b.WriteString("]}")
	return b.Bytes()
}

var duplicateName = regexp.MustCompile(`duplicate object member name ("(?:[^"\\]|\\.)*")`)

func decodeJSON(raw []byte, what string) (any, error) {
	var v any
	err := json.Unmarshal(raw, &v)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		if m := duplicateName.FindStringSubmatch(err.Error()); m != nil {
			if name, err := jsontext.AppendUnquote(nil, m[1]); err == nil {
				return nil, fmt.Errorf("duplicate JSON key: %s", quote(string(name)))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not valid JSON: %w", what, err)
	}
	return v, nil
}

// exactly refuses an object that does not have the given members, which are sorted.
func exactly(object map[string]any, what string, members ...string) error {
	if extra := without(object, members...); extra != nil {
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

// without returns the names of an object's other members, sorted.
func without(object map[string]any, members ...string) []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(members, key) {
			names = append(names, key)
		}
	}
	return names
}

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case nil:
		return "None"
	}
	return fmt.Sprint(v)
}
