package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// Field is a payload field that the daemon checks. Null counts as absent.
type Field struct {
	Name     string
	Required bool
	rule     rule
}

// rule returns what is wrong with a field's value, "" for nothing. The value is valid
// JSON and not null.
type rule func(jsontext.Value) string

func required(name string, r rule) Field { return Field{name, true, r} }
func optional(name string, r rule) Field { return Field{name, false, r} }

func anything(jsontext.Value) string { return "" }

func text(v jsontext.Value) string { return expectKind(v, '"', "a string") }

func nonEmpty(v jsontext.Value) string {
	if string(v) == `""` {
		return "empty"
	}
	return text(v)
}

// domainText is the rule of a domain: text by which messages are routed.
func domainText(v jsontext.Value) string {
	if p := text(v); p != "" {
		return p
	}
	return domainProblem(unquote(v))
}

func topic(v jsontext.Value) string {
	if p := nonEmpty(v); p != "" {
		return p
	}
	return domainText(v)
}

// errorCode is the rule of an error code, known or not, that may cross to a peer.
func errorCode(v jsontext.Value) string {
	if p := nonEmpty(v); p != "" {
		return p
	}
	if c := Code(unquote(v)); c.Info().Local {
		return string(c) + " is never sent to a peer: the own daemon alone raises it; use internal"
	}
	return ""
}

func oneOf(words ...string) rule {
	list := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	return func(v jsontext.Value) string {
		if p := text(v); p != "" {
			return p
		}
		got := unquote(v)
		for _, w := range words {
			if string(got) == w {
				return ""
			}
		}
		return fmt.Sprintf("%q: expected %s", clipText(string(got)), list)
	}
}

func number(v jsontext.Value) string { return wholeNumber(v, math.MaxUint64) }

func millis(limit time.Duration) rule {
	return func(v jsontext.Value) string { return wholeNumber(v, uint64(limit.Milliseconds())) }
}

// wholeNumber returns what is wrong with a number up to limit. It takes digits alone: 1e3
// is refused like 1.5.
func wholeNumber(v jsontext.Value, limit uint64) string {
	const want = "a whole number, 0 or more"
	if v.Kind() != '0' {
		return expectKind(v, '0', want)
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return "expected " + want + ", in digits alone, got " + clipText(string(v))
	case err != nil || n > limit:
		return fmt.Sprintf("%s is over the limit of %d", clipText(string(v)), limit)
	}
	return ""
}

func boolean(v jsontext.Value) string {
	if k := v.Kind(); k != 't' && k != 'f' {
		return expectKind(v, 't', "true or false")
	}
	return ""
}

func object(v jsontext.Value) string { return expectKind(v, '{', "an object") }

func texts(v jsontext.Value) string {
	const want = "a list of strings"
	if v.Kind() != '[' {
		return expectKind(v, '[', want)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	dec.ReadToken()
	for dec.PeekKind() != ']' {
		if dec.PeekKind() != '"' || dec.SkipValue() != nil {
			return "expected " + want
		}
	}
	return ""
}

func expectKind(v jsontext.Value, kind jsontext.Kind, want string) string {
	if v.Kind() == kind {
		return ""
	}
	got := map[jsontext.Kind]string{'"': "a string", '0': "a number", 't': "true", 'f': "false", '[': "a list", '{': "an object"}[v.Kind()]
	return "expected " + want + ", got " + got
}

// unquote returns the text of a valid JSON string, in place if nothing is escaped.
func unquote(v jsontext.Value) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	s, _ := jsontext.AppendUnquote(nil, v)
	return s
}

// checkPayload validates a payload of this kind, in one pass over its text, and returns
// what [Checked] keeps of it. The error has the code invalid and names the field.
func (k *Kind) checkPayload(p wire.Payload) (Checked, error) {
	r := &reader{Checked: Checked{Spec: k}}
	if err := r.read(p); err != nil {
		return Checked{}, Errorf(Invalid, "%s: %s", k.Name, err)
	}
	return r.Checked, nil
}

// reader walks a payload's top level; what is below is validated and not kept.
type reader struct {
	Checked
	seen  uint32            // bit i: Fields[i] is there and not null
	fault *wire.FormatError // of the field that broke its rule
}

// read reads the payload: quickly if it is plain JSON, else strictly. The error is a
// [wire.FormatError].
func (r *reader) read(p wire.Payload) error {
	quick, start := scanner{text: p.Object()}, *r
	if !quick.members(func(name, value []byte) bool { return r.applyRule(r.Spec.fieldIndex(name), value) }) {
		*r = start
		if err := r.readStrictly(p); err != nil {
			return err
		}
	}
	for i, f := range r.Spec.Fields {
		if f.Required && r.seen&(1<<i) == 0 {
			return &wire.FormatError{Field: f.Name, Problem: "missing"}
		}
	}
	return nil
}

// readStrictly reads any payload, with the JSON package's decoder.
func (r *reader) readStrictly(p wire.Payload) error {
	if err := p.CheckShape(); err != nil {
		return err
	}
	err := json.Unmarshal(p.Object(), r)
	if r.fault != nil {
		return r.fault
	}
	if err != nil {
		return &wire.FormatError{Field: "payload", Problem: syntaxProblem(err)}
	}
	return nil
}

// UnmarshalJSONFrom reads the payload's top level, for json.Unmarshal.
func (r *reader) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		i := r.Spec.fieldIndex(unquote(name))
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if !r.applyRule(i, value) {
			return r.fault
		}
	}
	_, err := dec.ReadToken()
	return err
}

// applyRule reports whether the value of the i-th field, which is valid JSON, follows its
// rule, and keeps the value if that is needed.
func (r *reader) applyRule(i int, v jsontext.Value) bool {
	if i < 0 || v.Kind() == 'n' {
		return true
	}
	field := &r.Spec.Fields[i]
	if problem := field.rule(v); problem != "" {
		r.fault = &wire.FormatError{Field: field.Name, Problem: problem}
		return false
	}
	r.seen |= 1 << i
	r.keep(field.Name, v)
	return true
}

// keep keeps the value of a valid field, if [Checked] has it. In every kind that has
// it, a name means the same.
func (r *reader) keep(name string, v jsontext.Value) {
	switch name {
	case "domain":
		r.Domain = string(unquote(v))
	case "topic":
		r.Topic = string(unquote(v))
	case "deadline_ms":
		ms, _ := strconv.ParseUint(string(v), 10, 64) // cannot fail: the rule has read it
		r.Deadline = time.Duration(ms) * time.Millisecond
	}
}

func (k *Kind) fieldIndex(name []byte) int {
	for i := range k.Fields {
		if k.Fields[i].Name == string(name) {
			return i
		}
	}
	return -1
}

// syntaxProblem says what is wrong with JSON text.
func syntaxProblem(err error) string {
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		err = se
	}
	return clipText(strings.TrimPrefix(err.Error(), "jsontext: "))
}

// CheckDomain returns an error if a domain or topic is too long or has control characters;
// field names it there. That it is dot-separated lower-case labels, like code.review, is a
// convention and is not enforced.
func CheckDomain(field, domain string) error {
	if p := domainProblem([]byte(domain)); p != "" {
		return &wire.FormatError{Field: field, Problem: p}
	}
	return nil
}

func domainProblem(s []byte) string {
	if len(s) > MaxDomain {
		return fmt.Sprintf("%d bytes: the limit is %d", len(s), MaxDomain)
	}
	if bytes.ContainsFunc(s, unicode.IsControl) {
		return fmt.Sprintf("%q: control characters are not allowed; write labels like code.review", clipText(string(s)))
	}
	return ""
}

// UnderDomain reports whether domain is d or below it, on label boundaries.
func UnderDomain(domain, d string) bool {
	return domain == d || strings.HasPrefix(domain, d) && domain[len(d)] == '.'
}

// clipText shortens a peer's or agent's text for an error message.
func clipText(s string) string {
	const most = 200 // bytes: enough to recognise it
	if len(s) <= most {
		return s
	}
	for n := most; ; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n] + "…"
		}
	}
}
