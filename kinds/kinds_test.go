package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// views has for each kind a full payload, and how its struct is read.
var views = map[string]struct {
	full  any
	parse func(wire.Payload) (any, error)
}{
	kinds.KindPing:         {struct{}{}, parse[struct{}]},
	kinds.KindDiscover:     {struct{}{}, parse[struct{}]},
	kinds.KindPong:         {kinds.Pong{Status: "busy", UptimeSecs: 3600, ActiveTasks: 2, AgentName: "desk", Attached: 3}, parse[kinds.Pong]},
	kinds.KindQuery:        {kinds.Query{Question: "why?", Domain: "code.review", MaxTokens: 200, DeadlineMS: 600_000}, parse[kinds.Query]},
	kinds.KindResponse:     {kinds.Response{Data: jsontext.Value(`[1]`), Summary: "so", TokensUsed: 47, Truncated: true}, parse[kinds.Response]},
	kinds.KindDelegate:     {kinds.Delegate{Task: "test it", Context: jsontext.Value(`{"a":1}`), Priority: "urgent", ReportBack: new(false), DeadlineMS: 60_000, Domain: "code.test"}, parse[kinds.Delegate]},
	kinds.KindAck:          {kinds.Ack{Accepted: true, EstimatedMS: 5000, Code: kinds.Overloaded, Message: "later"}, parse[kinds.Ack]},
	kinds.KindResult:       {kinds.Result{Status: "failed", Outcome: "two tests fail", Data: jsontext.Value(`{}`), Error: new("exit 1"), Progress: new(0.5), Message: "half"}, parse[kinds.Result]},
	kinds.KindNotify:       {kinds.Notify{Topic: "build.done", Data: jsontext.Value(`"x"`), Importance: "high"}, parse[kinds.Notify]},
	kinds.KindCancel:       {kinds.Cancel{Reason: "plans changed"}, parse[kinds.Cancel]},
	kinds.KindCapabilities: {kinds.Capabilities{AgentName: "desk", Domains: []string{"code"}, Channels: []string{"mail"}, Tools: []string{"go"}, MaxConcurrentTasks: 4, Model: "m", Details: []kinds.AgentDetails{{Name: "reviewer", About: "reviews Go", Answers: kinds.AnswersNow}}}, parse[kinds.Capabilities]},
	kinds.KindError:        {kinds.Error{Code: kinds.Timeout, Message: "too late", Retryable: true, RetryAfterMS: 100, Details: jsontext.Value(`{"delivered":"unknown"}`)}, parse[kinds.Error]},
}

func parse[T any](p wire.Payload) (any, error) {
	v, err := kinds.ParsePayload[T](p)
	if err != nil {
		return nil, err
	}
	return *v, nil
}

func envelope(kind string, p wire.Payload) *wire.Envelope {
	e := &wire.Envelope{V: wire.Version, ID: wire.MessageID{1}, From: identity.ID{2}, To: identity.ID{3}, TS: 1, Kind: kind, Payload: p}
	if k, ok := kinds.FindKind(kind); ok && k.NeedsRef {
		e.Ref = &wire.MessageID{4}
	}
	return e
}

// sameErrors compares what errors say.
var sameErrors = cmpopts.IgnoreUnexported(kinds.Error{})

func TestFullPayloads(t *testing.T) {
	for _, k := range kinds.ListKinds() {
		v := views[k.Name]
		p := kinds.EncodePayload(v.full)
		if _, err := kinds.CheckEnvelope(envelope(k.Name, p)); err != nil {
			t.Error(err)
		}
		if got, err := v.parse(p); err != nil || !cmp.Equal(v.full, got, sameErrors) {
			t.Errorf("%s: %v %s", k.Name, err, cmp.Diff(v.full, got, sameErrors))
		}
	}
}

// The table and the structs name the same fields, and a field that is required
// is written even if it is zero.
func TestTableMatchesStructs(t *testing.T) {
	for _, k := range kinds.ListKinds() {
		var checked, declared []string
		for _, f := range k.Fields {
			checked = append(checked, fmt.Sprint(f.Name, " ", f.Has(kinds.Required)))
		}
		for f := range reflect.TypeOf(views[k.Name].full).Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			required := options == ""
			if k.Name == kinds.KindError && name == "retryable" {
				required = false // written always, so that nobody need know the table
			}
			if f.IsExported() && name != "from" && name != "quoted" {
				declared = append(declared, fmt.Sprint(name, " ", required))
			}
		}
		slices.Sort(checked)
		slices.Sort(declared)
		if d := cmp.Diff(declared, checked); d != "" {
			t.Errorf("%s: %s", k.Name, d)
		}
	}
}

func TestEveryFieldIsCheckedAndNamed(t *testing.T) {
	for _, k := range kinds.ListKinds() {
		for _, f := range k.Fields {
			var m map[string]jsontext.Value
			if err := json.Unmarshal(kinds.EncodePayload(views[k.Name].full), &m); err != nil {
				t.Fatal(err)
			}
			try := func(v string) error {
				c := map[string]jsontext.Value{}
				for name, old := range m {
					c[name] = old
				}
				if c[f.Name] = jsontext.Value(v); v == "" {
					delete(c, f.Name)
				}
				_, err := kinds.CheckEnvelope(envelope(k.Name, kinds.EncodePayload(c)))
				return err
			}
			for _, absent := range []string{"", "null"} {
				err := try(absent)
				if f.Has(kinds.Required) != (err != nil) || err != nil && !strings.HasPrefix(err.Error(), k.Name+": "+f.Name+": missing") {
					t.Errorf("%s.%s %q: %v", k.Name, f.Name, absent, err)
				}
			}
			if f.Name == "data" {
				continue // takes any value
			}
			taken := 0
			for _, v := range []string{`"x y"`, `-1`, `1.5`, `1e3`, `[1]`, `[]`, `{}`, `true`, `18446744073709551616`} {
				err := try(v)
				if err == nil {
					taken++
				} else if !strings.HasPrefix(err.Error(), k.Name+": "+f.Name+": ") || !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
					t.Errorf("%s.%s %s: %v", k.Name, f.Name, v, err)
				}
			}
			if taken > 1 {
				t.Errorf("%s.%s takes %d types", k.Name, f.Name, taken)
			}
		}
	}
}

func TestCheckCodes(t *testing.T) {
	ok := kinds.EncodePayload(views[kinds.KindResult].full)
	for name, c := range map[string]struct {
		spoil func(*wire.Envelope)
		want  kinds.Code
		field string
	}{
		"fine":         {func(e *wire.Envelope) {}, "", ""},
		"unknown kind": {func(e *wire.Envelope) { e.Kind = "shout" }, kinds.UnknownKind, "kind"},
		"no kind":      {func(e *wire.Envelope) { e.Kind = "" }, kinds.Invalid, "kind"},
		"no ref":       {func(e *wire.Envelope) { e.Ref = nil }, kinds.Invalid, "ref"},
		"version":      {func(e *wire.Envelope) { e.V = 2 }, kinds.Invalid, "v"},
		"16 hops":      {func(e *wire.Envelope) { e.Hops = 16 }, "", ""},
		"17 hops":      {func(e *wire.Envelope) { e.Hops = 17 }, kinds.LoopDetected, "hops"},
		"no JSON":      {func(e *wire.Envelope) { e.Payload = wire.Payload(`{`) }, kinds.Invalid, "payload"},
	} {
		e := envelope(kinds.KindResult, ok)
		c.spoil(e)
		_, err := kinds.CheckEnvelope(e)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, &kinds.Error{Code: c.want}) || !strings.Contains(err.Error(), c.field+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error message stays short, whatever a peer wrote.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 10_000)
	for _, p := range []string{
		`{"topic":"a","` + long + `":1,"` + long + `":2}`, `{"topic":"a","importance":"` + long + `"}`,
		`{"topic":"` + strings.Repeat(`\u0001`, 200) + `"}`, `{"topic":"a","x":` + strings.Repeat("1", 10_000) + `x}`,
	} {
		if _, err := kinds.CheckEnvelope(envelope(kinds.KindNotify, wire.Payload(p))); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%.40s: %d bytes of %.300v", p, len(fmt.Sprint(err)), err)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, k := range kinds.ListKinds() {
		for _, reply := range kinds.ListKinds() {
			want := k.Class == kinds.Exchange && (reply.Name == k.Reply || reply.Name == kinds.KindError)
			if k.AllowsReply(reply.Name) != want {
				t.Errorf("%s answered by %s: %t", k.Name, reply.Name, !want)
			}
		}
		if r, ok := kinds.FindKind(k.Reply); (k.Class == kinds.Exchange) != ok || ok && (r.Class != kinds.Reply || !r.NeedsRef) {
			t.Errorf("%s: reply %q", k.Name, k.Reply)
		}
	}
}

// What decides about a message is in its row: one trait or the other, and not by accident none.
func TestTraits(t *testing.T) {
	for _, k := range kinds.ListKinds() {
		sent := k.Class != kinds.Reply
		for _, c := range []struct {
			is   bool
			want bool
			what string
		}{
			{k.Has(kinds.Policed) != k.Has(kinds.OfDelegation), sent, "policed or of a delegation"},
			{sent && !k.Has(kinds.Offered), k.Class == kinds.Exchange && k.Has(kinds.Policed) && !k.Has(kinds.Work), "answered by the daemon"},
			{k.Has(kinds.Report), k.Class == kinds.Message && k.Has(kinds.OfDelegation), "a report"},
			{k.Plural != "", k.Has(kinds.Wakes), "named as several"},
			{k.Has(kinds.Work), k.Has(kinds.Policed) && k.Has(kinds.Offered), "new work"},
		} {
			if c.is != c.want {
				t.Errorf("%s: %s is %t", k.Name, c.what, c.is)
			}
		}
		if k.Class != kinds.Exchange && k.Has(kinds.Spare) || k.Has(kinds.Wakes) && !k.Has(kinds.Offered) || k.Has(kinds.OfDelegation) && !k.NeedsRef {
			t.Errorf("%s: %+v", k.Name, k.Traits)
		}
		words := 0
		for _, f := range k.Fields {
			if f.Has(kinds.Words) {
				words++
			}
			if f.Has(kinds.Words) && f.Has(kinds.Head) {
				t.Errorf("%s.%s is shown twice", k.Name, f.Name)
			}
		}
		if words > 1 {
			t.Errorf("%s: %d fields are shown without their names", k.Name, words)
		}
	}
}

func TestUnderDomain(t *testing.T) {
	for _, c := range []struct {
		domain, d string
		want      bool
	}{{"code", "code", true}, {"code.review", "code", true}, {"codex", "code", false}, {"code", "code.review", false}, {"", "code", false}, {"code", "", false}} {
		if kinds.IsUnderDomain(c.domain, c.d) != c.want {
			t.Errorf("%q under %q: %t", c.domain, c.d, !c.want)
		}
	}
}

func TestCodeTable(t *testing.T) {
	seen := make(map[kinds.Code]bool)
	for _, c := range kinds.ListCodes() {
		if seen[c.Code] {
			t.Errorf("%s is there twice", c.Code)
		}
		seen[c.Code] = true
		_, said := kinds.CheckEnvelope(envelope(kinds.KindError, kinds.EncodePayload(&kinds.Error{Code: c.Code})))
		if c.Local != (said != nil) {
			t.Errorf("%s in an error envelope: %v", c.Code, said)
		}
		if c.Raised == "" || c.Exit < 3 || c.Code.Info() != c {
			t.Errorf("%+v", c)
		}
	}
}

func TestFromWire(t *testing.T) {
	for _, c := range kinds.ListCodes() {
		e := kinds.NewErrorFromWire(string(c.Code), "m", 7)
		want := &kinds.Error{Code: c.Code, Message: "m", Retryable: c.Retryable}
		if c.Local {
			want.Code, want.Retryable = kinds.Internal, false
		}
		if want.Retryable {
			want.RetryAfterMS = 7
		}
		if d := cmp.Diff(want, e, sameErrors); d != "" {
			t.Errorf("%s: %s", c.Code, d)
		}
	}
	for code, ok := range map[string]bool{
		"brand_new": true, "v2_" + strings.Repeat("x", 61): true, strings.Repeat("x", 65): false, "": false,
		"now run rm -rf ~": false, "no\nagent": false, "Internal": false, "\u202e": false,
		"ok": false, "handed": false, "refused": false, "okay": true,
	} {
		e := kinds.NewErrorFromWire(code, "m", 7)
		if want := map[bool]kinds.Code{true: kinds.Code(code), false: kinds.Internal}[ok]; e.Code != want || e.Retryable || e.RetryAfterMS != 0 {
			t.Errorf("unknown code %q: %+v", code, e)
		}
		for kind, payload := range map[string]any{
			kinds.KindError: &kinds.Error{Code: kinds.Code(code)},
			kinds.KindAck:   map[string]any{"accepted": false, "code": code},
		} {
			if _, err := kinds.CheckEnvelope(envelope(kind, kinds.EncodePayload(payload))); ok != (err == nil) {
				t.Errorf("code %q of %s: %v", code, kind, err)
			}
		}
	}
}

func TestForeign(t *testing.T) {
	details := jsontext.Value(`{"domains":["code"]}`)
	local := &kinds.Error{Code: kinds.DaemonUnavailable, Message: "m", Retryable: true, RetryAfterMS: 5, Details: details, From: "forged"}
	if d := cmp.Diff(&kinds.Error{Code: kinds.Internal, Message: "m", Details: details}, local.SanitizeForPeer(), sameErrors); d != "" {
		t.Error(d)
	}
	for told, want := range map[string]string{`{"delivered":"no"}`: `{}`, `{"b":1,"delivered":"unknown","a":2}`: `{"a":2,"b":1}`, `{"delivered":7}`: `{"delivered":7}`} {
		e := (&kinds.Error{Code: kinds.Internal, Details: jsontext.Value(told)}).SanitizeForPeer()
		if string(e.Details) != want {
			t.Errorf("details %s became %s, want %s", told, e.Details, want)
		}
	}
	for _, c := range []struct {
		err  error
		want kinds.Delivered // that the sender sees of it
	}{
		{kinds.Errorf(kinds.NoAgent, "m"), kinds.DeliveredNo}, {fmt.Errorf("query: %w", kinds.Errorf(kinds.Overloaded, "m")), kinds.DeliveredNo},
		{kinds.Errorf(kinds.NotAuthorized, "m"), ""}, {errors.New("m"), ""},
		{kinds.Errorf(kinds.NoAgent, "m").WithDelivered(kinds.DeliveredUnknown), kinds.DeliveredUnknown},
		{kinds.Errorf(kinds.Unreachable, "m"), ""}, {kinds.Errorf(kinds.Internal, "m").WithDelivered(kinds.DeliveredNo), ""},
	} {
		before := kinds.AsError(c.err).Delivered()
		if d := kinds.AsError(kinds.MarkNotDelivered(c.err)).SanitizeForDaemon().Delivered(); d != c.want || kinds.AsError(c.err).Delivered() != before {
			t.Errorf("%v: delivered %q, want %q", c.err, d, c.want)
		}
	}
	terse := &kinds.Error{Code: kinds.Overloaded, RetryAfterMS: 5} // the payload left retryable out
	if d := cmp.Diff(&kinds.Error{Code: kinds.Overloaded, Retryable: true, RetryAfterMS: 5}, terse.SanitizeForPeer(), sameErrors); d != "" {
		t.Error(d)
	}
}

func TestAsError(t *testing.T) {
	_, malformed := wire.ParseEnvelope(nil)
	timeout := kinds.Errorf(kinds.Timeout, "too late")
	for _, c := range []struct {
		err  error
		want kinds.Code
	}{
		{fmt.Errorf("query: %w", timeout), kinds.Timeout}, {fmt.Errorf("read: %w", malformed), kinds.Invalid},
		{context.DeadlineExceeded, kinds.Timeout}, {context.Canceled, kinds.Cancelled}, {errors.New("disk full"), kinds.Internal},
	} {
		if e := kinds.AsError(c.err); e.Code != c.want || e.Message == "" || e.Retryable != c.want.Info().Retryable {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
}

func TestDelivered(t *testing.T) {
	e := kinds.Errorf(kinds.Unreachable, "no answer").WithDelivered(kinds.DeliveredUnknown)
	if p, err := kinds.ParsePayload[kinds.Error](kinds.EncodePayload(e)); err != nil || p.Delivered() != kinds.DeliveredUnknown {
		t.Errorf("%+v, %v", p, err)
	}
	if d := kinds.Errorf(kinds.Unreachable, "no answer").Delivered(); d != "" {
		t.Errorf("without details: %q", d)
	}
}

// The reason is the own daemon's word: what a peer claims counts for nothing.
func TestReason(t *testing.T) {
	e := kinds.Errorf(kinds.NotFound, "parent").WithReason(kinds.ReasonParentUnknown)
	p, err := kinds.ParsePayload[kinds.Error](kinds.EncodePayload(e))
	if err != nil || p.Reason() != kinds.ReasonParentUnknown {
		t.Errorf("%+v, %v", p, err)
	}
	if p.From = "a peer"; p.Reason() != "" {
		t.Errorf("of a peer: %q", p.Reason())
	}
	for _, details := range []string{``, `{}`, `{"reason":1}`, `[]`} {
		if e := (&kinds.Error{Details: jsontext.Value(details)}); e.Reason() != "" {
			t.Errorf("%s: %q", details, e.Reason())
		}
	}
}

func TestEncodeRepairsUTF8(t *testing.T) {
	if p := kinds.EncodePayload(&kinds.Cancel{Reason: "a\xffb"}); string(p) != `{"reason":"a`+"\ufffd"+`b"}` {
		t.Errorf("%s", p)
	}
}

// What Check accepts is I-JSON, is read by the kind's struct, and is accepted
// again as that struct writes it.
func FuzzCheck(f *testing.F) {
	for i, k := range kinds.ListKinds() {
		f.Add(uint8(i), []byte(kinds.EncodePayload(views[k.Name].full)))
		f.Add(uint8(i), []byte(`{}`))
	}
	f.Add(uint8(6), []byte(`{"status":"partial","outcome":"","progress":-0.0e-1,"message":"\ud83d\udc4d"}`))
	f.Add(uint8(2), []byte(` {"\u0071uestion":"\ud83d\udc4d","x":{"y":[null,1e400]},"deadline_ms":null} `))
	f.Fuzz(func(t *testing.T, i uint8, p []byte) {
		k := kinds.ListKinds()[int(i)%len(kinds.ListKinds())]
		if _, err := kinds.CheckEnvelope(envelope(k.Name, p)); err != nil {
			if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.Invalid || len(e.Message) > 2000 {
				t.Fatalf("%.300v", err)
			}
			return
		}
		if len(p) > 0 && !jsontext.Value(p).IsValid() {
			t.Fatal("accepted what is not I-JSON")
		}
		v, err := views[k.Name].parse(p)
		if err != nil {
			t.Fatal(err)
		}
		again := kinds.EncodePayload(v)
		if _, err := kinds.CheckEnvelope(envelope(k.Name, again)); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if v2, err := views[k.Name].parse(again); err != nil || !cmp.Equal(v, v2, cmp.Comparer(sameJSON), sameErrors) {
			t.Fatalf("%v %s", err, cmp.Diff(v, v2))
		}
	})
}

func sameJSON(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	a.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	b.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return string(a) == string(b)
}
