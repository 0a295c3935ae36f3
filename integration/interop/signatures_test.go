package interop

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/oacp/message"
)

const signaturesFile = "../vectors/oacp/signatures.json"

// pinsName stands for the path of the pin file in recorded judgements.
const pinsName = "PINS"

type signatures struct {
	Pins    string   `json:"pins"`
	Vectors []signed `json:"vectors"`
}

// A signed vector is what vectors/oacp/README.md describes.
type signed struct {
	Name     string         `json:"name"`
	Text     string         `json:"text"`
	Base64   []byte         `json:"base64"`
	Pins     *string        `json:"pins"`
	Unpinned bool           `json:"unpinned"`
	Auth     map[string]any `json:"auth"`
	Line     string         `json:"line"`
}

func (v signed) data() []byte {
	if v.Base64 != nil {
		return v.Base64
	}
	return []byte(v.Text)
}

// pins is the pin file for a vector.
func (s signatures) pins(v signed) string {
	if v.Pins != nil {
		return *v.Pins
	}
	return s.Pins
}

func readSignatures(t *testing.T) signatures {
	t.Helper()
	text, err := os.ReadFile(signaturesFile)
	if err != nil {
		t.Fatal(err)
	}
	var s signatures
	if err := json.Unmarshal(text, &s, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(s.Vectors) < 50 {
		t.Fatalf("%d vectors", len(s.Vectors))
	}
	return s
}

func TestSignatures(t *testing.T) {
	s := readSignatures(t)
	for _, v := range s.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			var pins message.Pins
			if !v.Unpinned {
				pins = message.ParsePins(pinsName, []byte(s.pins(v)))
			}
			now := time.Now()
			judgement := message.Verify(v.data(), pins, now)
			if ok := v.Auth["status"] == "unsigned" || v.Auth["status"] == "verified"; judgement.OK() != ok {
				t.Errorf("OK is %t, expected %t", judgement.OK(), ok)
			}
			if judgement.VerifiedAt != message.Stamp(now) {
				t.Errorf("verified at %s", judgement.VerifiedAt)
			}
			if got := shorten(judgement.String()); got != v.Line {
				t.Errorf("says    %s\nexpected %s", got, v.Line)
			}
			text, err := json.Marshal(judgement)
			if err != nil {
				t.Fatal(err)
			}
			got, err := normal(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Auth, got); diff != "" {
				t.Errorf("%q (-reference +ours):\n%s", v.data(), diff)
			}
		})
	}
}

// normal is a judgement without its time, and without the words of a library.
func normal(text []byte) (map[string]any, error) {
	var auth map[string]any
	if err := json.Unmarshal(text, &auth); err != nil {
		return nil, err
	}
	if auth["verified_at_utc"] == nil {
		return nil, errors.New("no time of verification")
	}
	delete(auth, "verified_at_utc")
	if reason, ok := auth["reason"].(string); ok {
		auth["reason"] = shorten(reason)
	}
	return auth, nil
}

// shorten cuts off what a library says.
func shorten(reason string) string {
	for _, library := range []string{"cannot read pin file " + pinsName, "is not valid JSON"} {
		if i := strings.Index(reason, library); i >= 0 {
			return reason[:i+len(library)]
		}
	}
	return reason
}
