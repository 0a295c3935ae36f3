package message

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSubject bounds a subject, in characters.
const MaxSubject = 200

// Bounds of the reference, in characters after trimming.
const (
	maxID         = 200
	maxBody       = 20000
	maxRecipients = 10
)

// required lists the fields that a message must have.
var required = [...]string{"id", "from", "to", "type", "priority", "created_at_utc", "subject", "body"}

// optional lists the fields that a message may have.
var optional = [...]string{
	"related_packet", "related_pr", "conversation_id", "parent_message_id", "context_keys", "expires_at", "channel",
	"autonomy_hint", "model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd", "auth",
}

func isRequiredField(key string) bool { return slices.Contains(required[:], key) }

func isKnownField(key string) bool { return isRequiredField(key) || slices.Contains(optional[:], key) }

// fieldRule is what the value of a field must be. The rule does not apply to an empty value.
type fieldRule struct {
	key   string
	isMet func(value string) bool
	text  string // the fault of a value that does not meet the rule
}

const (
	nameText = "must be a name: a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens"
	timeText = "must be a time in UTC, like 2026-01-31T12:00:00Z"
)

var fieldRules = [...]fieldRule{
	{"from", IsLegalAgentName, nameText},
	{"type", func(v string) bool { return slices.Contains(ListMessageTypes(), v) }, "must be one of: " + strings.Join(ListMessageTypes(), ", ")},
	{"priority", func(v string) bool { return slices.Contains(ListPriorities(), v) }, "must be one of: " + strings.Join(ListPriorities(), ", ")},
	{"created_at_utc", isTimestamp, timeText},
	{"expires_at", isTimestamp, timeText},
	{"related_pr", isAllDigits, "must be the number of a pull request"},
	{"conversation_id", isConversation, "must be conv-YYYYMMDD-AGENT-NUMBER"},
	{"channel", isLegalChannelName, "must be 1 to 64 letters, digits, hyphens and underscores"},
	{"autonomy_hint", func(v string) bool { return v == "auto_proceed" }, "must be auto_proceed"},
	newLengthRule("id", maxID),
	newLengthRule("parent_message_id", maxID),
	newLengthRule("subject", MaxSubject),
	newLengthRule("body", maxBody),
}

func newLengthRule(key string, limit int) fieldRule {
	return fieldRule{key, func(v string) bool { return utf8.RuneCountInString(v) <= limit }, fmt.Sprintf("must have at most %d characters", limit)}
}

// telemetryRules has the fields that only the answers to a review may have. They apply to
// empty values too.
var telemetryRules = [...]fieldRule{
	{"model", func(v string) bool { return v != "" }, "must not be empty"},
	{"turns", isAllDigits, "must be a whole number"},
	{"input_tokens", isAllDigits, "must be a whole number"},
	{"output_tokens", isAllDigits, "must be a whole number"},
	{"wall_time_s", isNonNegativeNumber, "must be a number, 0 or more"},
	{"est_cost_usd", isNonNegativeNumber, "must be a number, 0 or more"},
}

// findings collects the faults of a document.
type findings struct {
	d     *Document
	lines []string
}

func (f *findings) addFinding(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// Validate returns the faults of a message, one a line, and nil for a valid message (OACP
// message schema). A message is valid if it is for release 0.4.0 of the reference tool.
func (d *Document) Validate() []string {
	f := &findings{d: d}
	f.checkFields()
	f.checkRecipients()
	for _, r := range fieldRules {
		if v := d.readField(r.key); v != "" && !r.isMet(v) {
			f.addFinding("field '%s' %s", r.key, r.text)
		}
	}
	f.checkTelemetry()
	switch body := d.readField("body"); {
	case body == "":
	case d.readField("type") == "handoff":
		f.checkHandoff(body)
	case d.readField("type") == "handoff_complete":
		f.checkHandoffComplete(body)
	}
	f.checkAuth()
	return f.lines
}

// readField returns the text of a field without the space around it. It returns "" for a
// field that is missing, a list or a mapping.
func (d *Document) readField(key string) string {
	if n := d.fields[key]; n != nil {
		return stripPythonSpace(n.Value)
	}
	return ""
}

// checkFields finds fields that are unknown, missing, empty, or lists or mappings.
func (f *findings) checkFields() {
	for _, key := range slices.Sorted(maps.Keys(f.d.fields)) {
		switch {
		case !isKnownField(key):
			f.addFinding("unknown field '%s'", key)
		case key != "to" && isNestedNode(f.d.fields[key]):
			f.addFinding("field '%s' must be text, not a list or mapping", key)
		}
	}
	for _, key := range required {
		switch n := f.d.fields[key]; {
		case n == nil:
			f.addFinding("field '%s' is missing", key)
		case !isNestedNode(n) && stripPythonSpace(n.Value) == "":
			f.addFinding("field '%s' is empty", key)
		}
	}
}

// checkRecipients checks field to, which is a name or a list of names.
func (f *findings) checkRecipients() {
	n := f.d.fields["to"]
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && stripPythonSpace(n.Value) == "": // checkFields reports it
	case n.Kind == yaml.MappingNode:
		f.addFinding("field 'to' must be a name or a list of names")
	case n.Kind == yaml.ScalarNode && !IsLegalAgentName(f.d.readField("to")):
		f.addFinding("field 'to' %s", nameText)
	case n.Kind == yaml.SequenceNode:
		f.checkRecipientList(n.Content)
	}
}

func (f *findings) checkRecipientList(items []*yaml.Node) {
	if len(items) == 0 || len(items) > maxRecipients {
		f.addFinding("field 'to' must name 1 to %d agents", maxRecipients)
		return
	}
	if typ := f.d.readField("type"); len(items) > 1 && (typ == "handoff" || typ == "handoff_complete") {
		f.addFinding("field 'to' must name one agent for type %s", typ)
	}
	from := f.d.readField("from")
	for i, item := range items {
		switch name := stripPythonSpace(resolveYAMLAlias(item).Value); {
		case !IsLegalAgentName(name):
			f.addFinding("field 'to', entry %d %s", i+1, nameText)
		case name == from:
			f.addFinding("field 'to', entry %d is the sender", i+1)
		}
	}
}

func (f *findings) checkTelemetry() {
	answers := []string{"review_addressed", "review_feedback", "review_lgtm"}
	for _, r := range telemetryRules {
		switch {
		case f.d.fields[r.key] == nil:
		case !slices.Contains(answers, f.d.readField("type")):
			f.addFinding("field '%s' belongs to the types %s", r.key, strings.Join(answers, ", "))
		case !r.isMet(f.d.readField(r.key)):
			f.addFinding("field '%s' %s", r.key, r.text)
		}
	}
}

// conversationForm matches the id of a conversation, whose agent has at most maxConversationAgent bytes. A bound in
// the expression itself would cost every daemon the memory of as many copies of it.
var conversationForm = regexp.MustCompile(`^conv-[0-9]{8}-([A-Za-z0-9._-]+)-[0-9]{1,6}$`)

const maxConversationAgent = 64

func isConversation(id string) bool {
	m := conversationForm.FindStringSubmatch(id)
	return m != nil && len(m[1]) <= maxConversationAgent
}

func isLegalChannelName(s string) bool {
	return len(s) <= 64 && hasNameCharactersOnly(s) && !strings.Contains(s, ".")
}

func isAllDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// numberForm matches what Python reads as a finite float.
var numberForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[+-]?([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?$`)
})

func isNonNegativeNumber(s string) bool {
	if !numberForm().MatchString(s) {
		return false
	}
	v, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return v >= 0 && !math.IsInf(v, 0)
}
