package kinds_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestChecked(t *testing.T) {
	for name, c := range map[string]struct {
		kind, payload string
		want          kinds.Checked
	}{
		"query":       {kinds.KindQuery, `{"question":"why","domain":"code.\u0072eview","deadline_ms":1500}`, kinds.Checked{Domain: "code.review", Deadline: 1500 * time.Millisecond}},
		"bare query":  {kinds.KindQuery, `{"question":"why","domain":null,"deadline_ms":null}`, kinds.Checked{}},
		"delegate":    {kinds.KindDelegate, `{"deadline_ms":2592000000,"task":"t","domain":"ops","context":{"domain":"deep"}}`, kinds.Checked{Domain: "ops", Deadline: kinds.MaxTaskDeadline}},
		"notify":      {kinds.KindNotify, `{"topic":"build.done","domain":"unread","data":{"topic":"deep"}}`, kinds.Checked{Topic: "build.done"}},
		"escape name": {kinds.KindNotify, `{"\u0074opic":"build.done"}`, kinds.Checked{Topic: "build.done"}},
		"nothing":     {kinds.KindPing, ``, kinds.Checked{}},
	} {
		got, err := kinds.CheckEnvelope(envelope(c.kind, wire.Payload(c.payload)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Spec.Name != c.kind || string(got.Payload) != c.payload {
			t.Errorf("%s: the envelope is %v, of kind %s", name, got.Envelope, got.Spec.Name)
		}
		if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(kinds.Checked{}, "Envelope", "Spec")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
