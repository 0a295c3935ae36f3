package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/wire"
)

// Field is a payload field that the daemon checks. A null field is taken as absent.
type Field struct {
	Name   string
	Traits FieldTraits
	check  fieldCheck
}

// FieldTraits are whether a field must be there, and who is shown it in which place.
type FieldTraits uint8

const (
	Required FieldTraits = 1 << iota
	Head                 // a model sees it before all else, behind its name
	Words                // a model sees it after that, as text without its name
	Line                 // it is on the one line that watchers see; a topic is shown with it
)

// Has reports whether the field has one of the traits.
func (f *Field) Has(traits FieldTraits) bool { return f.Traits&traits != 0 }

// fieldCheck returns what is wrong with a field's value, "" for nothing. The value is valid
// JSON and not null.
type fieldCheck func(jsontext.Value) string

func acceptAnyValue(jsontext.Value) string { return "" }

func checkText(v jsontext.Value) string { return checkJSONKind(v, '"', "a string") }

func checkNonEmpty(v jsontext.Value) string {
	if string(v) == `""` {
		return "empty"
	}
	return checkText(v)
}

// checkDomainText is the rule of a domain: text by which messages are routed.
func checkDomainText(v jsontext.Value) string {
	if p := checkText(v); p != "" {
		return p
	}
	return findDomainProblem(unquoteText(v))
}

func checkTopic(v jsontext.Value) string {
	if p := checkNonEmpty(v); p != "" {
		return p
	}
	return checkDomainText(v)
}

// checkErrorCode is the rule of an error code, known or not, that may cross to a peer.
func checkErrorCode(v jsontext.Value) string {
	if p := checkNonEmpty(v); p != "" {
		return p
	}
	switch c := Code(unquoteText(v)); {
	case !c.isWord():
		return "expected up to 64 of a to z, 0 to 9 and _"
	case c.isOutcome():
		return string(c) + " says that a message has not failed; use internal"
	case c.Info().Local:
		return string(c) + " is never sent to a peer: only the daemon here raises it; use internal"
	}
	return ""
}

func newOneOfCheck(words ...string) fieldCheck {
	list := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	return func(v jsontext.Value) string {
		if p := checkText(v); p != "" {
			return p
		}
		got := unquoteText(v)
		if slices.ContainsFunc(words, func(w string) bool { return string(got) == w }) {
			return ""
		}
		return "expected " + list
	}
}

func checkNumber(v jsontext.Value) string { return checkWholeNumber(v, math.MaxUint64) }

func newMillisCheck(limit time.Duration) fieldCheck {
	return func(v jsontext.Value) string { return checkWholeNumber(v, uint64(limit.Milliseconds())) }
}

// checkWholeNumber returns what is wrong with a number up to limit. It accepts only digits: 1e3
// is refused like 1.5.
func checkWholeNumber(v jsontext.Value, limit uint64) string {
	const want = "a whole number, 0 or more"
	if v.Kind() != '0' {
		return checkJSONKind(v, '0', want)
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return "expected " + want + ", in digits alone"
	case err != nil || n > limit:
		return fmt.Sprintf("over the limit of %d", limit)
	}
	return ""
}

// checkProgress is the rule of a share from 0 to 1, written in any way that JSON has.
func checkProgress(v jsontext.Value) string {
	const want = "a number from 0 to 1"
	if v.Kind() != '0' {
		return checkJSONKind(v, '0', want)
	}
	if n, err := strconv.ParseFloat(string(v), 64); err != nil || n > 1 || v[0] == '-' {
		return "expected " + want
	}
	return ""
}

// checkProgressMessage is the rule of the message in a partial result.
func checkProgressMessage(v jsontext.Value) string {
	if p := checkText(v); p != "" {
		return p
	}
	if n := len(unquoteText(v)); n > MaxProgressMessage {
		return fmt.Sprintf("%d bytes: the limit is %d", n, MaxProgressMessage)
	}
	return ""
}

func checkBoolean(v jsontext.Value) string {
	if k := v.Kind(); k != 't' && k != 'f' {
		return checkJSONKind(v, 't', "true or false")
	}
	return ""
}

func checkObject(v jsontext.Value) string { return checkJSONKind(v, '{', "an object") }

func checkTexts(v jsontext.Value) string {
	const want = "a list of strings"
	if v.Kind() != '[' {
		return checkJSONKind(v, '[', want)
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

// checkDetails is the rule of what capabilities say of agents.
func checkDetails(v jsontext.Value) string {
	var all []AgentDetails
	if json.Unmarshal(v, &all) != nil || slices.ContainsFunc(all, func(a AgentDetails) bool { return a.Name == "" || a.Answers == "" }) {
		return "expected a list of agents, each with name, answers and perhaps about, which are strings"
	}
	if len(all) > MaxDetails {
		return fmt.Sprintf("%d agents: the limit is %d", len(all), MaxDetails)
	}
	if slices.ContainsFunc(all, func(a AgentDetails) bool { return utf8.RuneCountInString(a.About) > MaxAbout }) {
		return fmt.Sprintf("about: the limit is %d characters", MaxAbout)
	}
	return ""
}

// CheckAbout returns an error unless the text is valid as the description of an agent; field names it there.
func CheckAbout(field, about string) error {
	if utf8.RuneCountInString(about) > MaxAbout || strings.ContainsFunc(about, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return &wire.FormatError{Field: field, Problem: fmt.Sprintf("expected one line of at most %d printable characters", MaxAbout)}
	}
	return nil
}

func checkJSONKind(v jsontext.Value, kind jsontext.Kind, want string) string {
	if v.Kind() == kind {
		return ""
	}
	got := map[jsontext.Kind]string{'"': "a string", '0': "a number", 't': "true", 'f': "false", '[': "a list", '{': "an object"}[v.Kind()]
	return "expected " + want + ", got " + got
}

// unquoteText returns the text of a valid JSON string, in place if it is ASCII and nothing is escaped.
func unquoteText(v jsontext.Value) []byte {
	text, _ := jsonscan.Unquote(v)
	return text
}

// readPayload validates a payload of this kind, in one pass over its text, and returns
// what [Checked] keeps of it. The error has the code invalid and names the field.
func (k *Kind) readPayload(p wire.Payload) (Checked, error) {
	r := &payloadReader{Checked: Checked{Spec: k}}
	if err := r.readFields(p); err != nil {
		return Checked{}, Errorf(Invalid, "%s: %s", k.Name, err)
	}
	return r.Checked, nil
}

// payloadReader walks a payload's top level; what is below is validated and not kept.
type payloadReader struct {
	Checked
	seen  uint32            // bit i: Fields[i] is there and not null
	fault *wire.FormatError // of the field that broke its rule
}

// readFields reads the payload: quickly if it is plain JSON, else strictly. The error is a
// [wire.FormatError].
func (r *payloadReader) readFields(p wire.Payload) error {
	start := *r
	if !jsonscan.IsPlainObject(p.Object(), wire.MaxDepth, r.checkMember) {
		*r = start
		if err := r.readStrictly(p); err != nil {
			return err
		}
	}
	for i, f := range r.Spec.Fields {
		if f.Has(Required) && r.seen&(1<<i) == 0 {
			return &wire.FormatError{Field: f.Name, Problem: "missing"}
		}
	}
	return nil
}

// readStrictly reads any payload, with the JSON package's decoder.
func (r *payloadReader) readStrictly(p wire.Payload) error {
	if err := p.CheckShape(); err != nil {
		return err
	}
	err := json.Unmarshal(p.Object(), r)
	if r.fault != nil {
		return r.fault
	}
	if err != nil {
		return &wire.FormatError{Field: "payload", Problem: describeSyntaxError(err)}
	}
	if number := jsonscan.FindUnusableNumber(p.Object()); number != nil {
		return &wire.FormatError{Field: "payload", Problem: fmt.Sprintf("the number %s: expected at most %d characters, and no more than the largest double, 1.8e308: write it as a string", number[:min(len(number), 20)], jsonscan.MaxNumber)}
	}
	return nil
}

// UnmarshalJSONFrom reads the payload's top level, for json.Unmarshal.
func (r *payloadReader) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		i := r.Spec.findField(unquoteText(name))
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if !r.checkField(i, value) {
			return r.fault
		}
	}
	_, err := dec.ReadToken()
	return err
}

// checkMember is [payloadReader.checkField] for a member of the payload.
func (r *payloadReader) checkMember(name, value []byte) bool {
	return r.checkField(r.Spec.findField(name), value)
}

// checkField reports whether the value of the i-th field, which is valid JSON, follows its
// rule, and keeps the value if that is needed.
func (r *payloadReader) checkField(i int, v jsontext.Value) bool {
	if i < 0 || v.Kind() == 'n' {
		return true
	}
	field := &r.Spec.Fields[i]
	if problem := field.check(v); problem != "" {
		r.fault = &wire.FormatError{Field: field.Name, Problem: problem}
		return false
	}
	r.seen |= 1 << i
	r.storeRoutingValue(field.Name, v)
	return true
}

// storeRoutingValue stores the value of a valid field, if [Checked] has it. In every kind that has
// it, a name means the same.
func (r *payloadReader) storeRoutingValue(name string, v jsontext.Value) {
	switch name {
	case "domain":
		r.Domain = string(unquoteText(v))
	case "topic":
		r.Topic = string(unquoteText(v))
	case "deadline_ms":
		ms, _ := strconv.ParseUint(string(v), 10, 64) // cannot fail: the rule has read it
		r.Deadline = time.Duration(ms) * time.Millisecond
	}
}

func (k *Kind) findField(name []byte) int {
	return slices.IndexFunc(k.Fields, func(f Field) bool { return f.Name == string(name) })
}

// describeSyntaxError describes what is wrong with JSON text, without quoting any of it.
func describeSyntaxError(err error) string {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return "not valid JSON"
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("a name stands twice in an object: the second begins at byte %d", syntax.ByteOffset)
	}
	return fmt.Sprintf("not valid JSON at byte %d", syntax.ByteOffset)
}

// CheckDomain returns an error if a domain or topic is too long or has control characters;
// field names it there. That it is dot-separated lower-case labels, like code.review, is a
// convention and is not enforced.
func CheckDomain(field, domain string) error {
	if p := findDomainProblem([]byte(domain)); p != "" {
		return &wire.FormatError{Field: field, Problem: p}
	}
	return nil
}

func findDomainProblem(s []byte) string {
	if len(s) > MaxDomain {
		return fmt.Sprintf("%d bytes: the limit is %d", len(s), MaxDomain)
	}
	if bytes.ContainsFunc(s, unicode.IsControl) {
		return "control characters are not allowed; write labels like code.review"
	}
	return ""
}

// IsUnderDomain reports whether domain is d or below it, on label boundaries.
func IsUnderDomain(domain, d string) bool {
	return domain == d || strings.HasPrefix(domain, d) && domain[len(d)] == '.'
}
