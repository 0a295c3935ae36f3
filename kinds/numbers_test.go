package kinds

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/wire"
)

// A number that parsers of other languages refuse is invalid wherever it stands; digits in text are none.
func TestUnusableNumbers(t *testing.T) {
	long := strings.Repeat("9", jsonscan.MaxNumber+1)
	for number, usable := range map[string]bool{
		"0": true, "-1.5e3": true, "9223372036854775807": true, "18446744073709551617": true, "1e308": true, "1.7976931348623157e308": true, "1e-999": true,
		long[1:]: true, "-" + long[2:]: true, `"` + long + `"`: true, `"\\\"1e999"`: true,
		"1e309": false, "-1e999": false, "1.8e308": false, "1E+400": false, long: false, "-" + long[1:]: false, "0." + long: false, strings.Repeat("9", 5000): false,
	} {
		for _, payload := range []string{
			`{"topic":"t","data":` + number + `}`, `{"topic":"t","data":{"a":[{"b":` + number + `}]}}`, `{"topic":"t","unknown":[1, ` + number + `]}`, `{"\u0074opic":"t","data":` + number + `}`,
		} {
			env := wire.NewEnvelope(identity.ID{1}, identity.ID{2}, KindNotify, wire.Payload(payload))
			_, err := CheckEnvelope(env)
			if (err == nil) != usable {
				t.Errorf("%.80s: %v", payload, err)
			}
			if e := AsError(err); err != nil && (e.Code != Invalid || !strings.Contains(e.Message, "payload: the number ") || len(e.Message) > 500) {
				t.Errorf("%.80s: %v", payload, err)
			}
		}
	}
}

// What the scanner passes, the JSON package passes, and both learn the same of it.
func FuzzScanner(f *testing.F) {
	f.Add(uint8(2), []byte(`{"question":"why","deadline_ms":1500,"domain":"code.review"}`))
	f.Add(uint8(2), []byte(`{"question":"\n","domain":1,"deadline_ms":1e3}`))
	f.Add(uint8(7), []byte(`{"topic":"build.done","data":{"topic":"deep"},"title":null}`))
	f.Fuzz(func(t *testing.T, i uint8, text []byte) {
		if len(text) == 0 {
			return // stands for {}
		}
		k := &kindTable[int(i)%len(kindTable)]
		quick, strict := payloadReader{Checked: Checked{Spec: k}}, payloadReader{Checked: Checked{Spec: k}}
		if !jsonscan.IsPlainObject(text, wire.MaxDepth, quick.checkMember) {
			return
		}
		if err := strict.readStrictly(text); err != nil {
			t.Fatalf("%s passed: %v", k.Name, err)
		}
		if quick.seen != strict.seen || quick.Domain != strict.Domain || quick.Topic != strict.Topic || quick.Deadline != strict.Deadline {
			t.Fatalf("%s: learned %+v, not %+v", k.Name, quick, strict)
		}
	})
}
