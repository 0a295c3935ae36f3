package message

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of the reference, in characters after trimming.
const (
	maxID         = 200
	maxSubject    = 200
	maxBody       = 20000
	maxRecipients = 10
)

// optional lists the fields that a message may have, in the order in which the
// reference looks at their shape.
var optional = [...]string{
	"related_packet", "related_pr", "conversation_id", "parent_message_id", "context_keys", "expires_at", "channel",
	"autonomy_hint", "model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd", "auth",
}

// telemetry lists the fields that only the answers to a review may have.
var telemetry = [...]string{"model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd"}

// required lists the fields that a message must have.
var required = [...]string{"id", "from", "to", "type", "priority", "created_at_utc", "subject", "body"}

func isRequiredField(key string) bool { return slices.Contains(required[:], key) }

// findings collects the faults of a document.
type findings struct {
	d     *Document
	lines []string
}

func (f *findings) addFinding(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// Validate returns the lines that the reference's validate reports, in its order, and nil
// for a valid message (OACP message schema; oacp-cli 0.4.0).
func (d *Document) Validate() []string {
	f := &findings{d: d}
	f.checkUnknownFields()
	id := f.checkRequiredField("id")
	from := f.checkRequiredField("from")
	typ := f.checkRequiredField("type")
	priority := f.checkRequiredField("priority")
	created := f.checkRequiredField("created_at_utc")
	subject := f.checkRequiredField("subject")
	body := f.checkRequiredField("body")
	f.checkRecipients(from, typ)
	for _, key := range optional {
		if isNestedNode(d.fields[key]) {
			f.addFinding("field '%s' must be a scalar value", key)
		}
	}
	if from != "" && !IsLegalAgentName(from) {
		f.addFinding("field 'from' must match %s", agentPattern)
	}
	if typ != "" && !slices.Contains(ListMessageTypes(), typ) {
		f.addFinding("field 'type' must be one of: %s", strings.Join(ListMessageTypes(), ", "))
	}
	if priority != "" && !slices.Contains(ListPriorities(), priority) {
		f.addFinding("field 'priority' must be one of: %s", strings.Join(ListPriorities(), ", "))
	}
	f.checkTelemetry(typ)
	if hint := d.fields["autonomy_hint"]; !isNestedNode(hint) {
		if h := stripPythonSpace(formatPythonStr(hint)); h != "" && h != "auto_proceed" {
			f.addFinding("field 'autonomy_hint' must be one of: auto_proceed")
		}
	}
	f.checkTimestamp("created_at_utc", created)
	f.checkReferences()
	f.checkTimestamp("expires_at", f.readOptionalField("expires_at"))
	if channel := f.readOptionalField("channel"); channel != "" && !isLegalChannelName(channel) {
		f.addFinding("field 'channel' must be 1-64 chars of alphanumeric, hyphens, or underscores")
	}
	f.checkLength("id", id, maxID)
	f.checkLength("subject", subject, maxSubject)
	f.checkLength("body", body, maxBody)
	switch {
	case body == "":
	case typ == "handoff":
		f.checkHandoff(body)
	case typ == "handoff_complete":
		f.checkHandoffComplete(body)
	}
	f.checkAuth()
	return f.lines
}

func (f *findings) checkUnknownFields() {
	var names []string
	for key := range f.d.fields {
		if !isRequiredField(key) && !slices.Contains(optional[:], key) {
			names = append(names, key)
		}
	}
	if names != nil {
		slices.Sort(names)
		f.addFinding("unknown field(s): %s", strings.Join(names, ", "))
	}
}

// checkRequiredField checks a required field, and returns it without the space around it.
func (f *findings) checkRequiredField(key string) (value string) {
	switch n := f.d.fields[key]; {
	case n == nil:
		f.addFinding("missing required field: %s", key)
	case isNestedNode(n):
		f.addFinding("field '%s' must be a scalar string, not nested YAML", key)
	default:
		if value = stripPythonSpace(n.Value); value == "" {
			f.addFinding("field '%s' must be non-empty", key)
		}
	}
	return value
}

// readOptionalField returns the text of an optional field, without the space around it. The
// reference looks at the text of a nested value too.
func (f *findings) readOptionalField(key string) string {
	return stripPythonSpace(formatPythonStrOrEmpty(f.d.fields[key]))
}

func (f *findings) checkRecipients(from, typ string) {
	n := f.d.fields["to"]
	switch {
	case n == nil:
		f.addFinding("missing required field: to")
	case n.Kind == yaml.MappingNode:
		f.addFinding("field 'to' must be a string or list of strings, not a mapping")
	case n.Kind == yaml.ScalarNode:
		switch name := stripPythonSpace(n.Value); {
		case name == "":
			f.addFinding("field 'to' must be non-empty")
		case !IsLegalAgentName(name):
			f.addFinding("field 'to' must match %s", agentPattern)
		}
	default:
		f.checkRecipientList(n, from)
		if (typ == "handoff" || typ == "handoff_complete") && len(n.Content) > 1 {
			f.addFinding("type '%s' does not support broadcast (multiple recipients)", typ)
		}
	}
}

func (f *findings) checkRecipientList(n *yaml.Node, from string) {
	if len(n.Content) == 0 {
		f.addFinding("field 'to' list must not be empty")
		return
	}
	if len(n.Content) > maxRecipients {
		f.addFinding("field 'to' list exceeds maximum of %d recipients", maxRecipients)
		return
	}
	toSender := false
	for _, item := range n.Content {
		name := stripPythonSpace(formatPythonStr(resolveYAMLAlias(item)))
		switch {
		case name == "":
			f.addFinding("field 'to' list contains empty entry")
		case !IsLegalAgentName(name):
			f.addFinding("field 'to' list entry '%s' must match %s", name, agentPattern)
		case name == from:
			toSender = true
		}
	}
	if toSender {
		f.addFinding("field 'to' list must not include the sender")
	}
}

func (f *findings) checkTelemetry(typ string) {
	answers := []string{"review_addressed", "review_feedback", "review_lgtm"}
	if !slices.Contains(answers, typ) && slices.ContainsFunc(telemetry[:], func(key string) bool { return f.d.fields[key] != nil }) {
		f.addFinding("review telemetry fields are allowed only for: %s", strings.Join(answers, ", "))
	}
	if n := f.d.fields["model"]; n != nil && (isNestedNode(n) || stripPythonSpace(n.Value) == "") {
		f.addFinding("field 'model' must be a non-empty string")
	}
	for _, key := range []string{"turns", "input_tokens", "output_tokens"} {
		if n := f.d.fields[key]; n != nil && !isAllDigits(stripPythonSpace(formatPythonStr(n))) {
			f.addFinding("field '%s' must be a non-negative integer", key)
		}
	}
	for _, key := range []string{"wall_time_s", "est_cost_usd"} {
		if n := f.d.fields[key]; n != nil && !isNonNegativeNumber(stripPythonSpace(formatPythonStr(n))) {
			f.addFinding("field '%s' must be a non-negative number", key)
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

// checkReferences checks the fields that point elsewhere.
func (f *findings) checkReferences() {
	if pr := f.readOptionalField("related_pr"); pr != "" && !isAllDigits(pr) {
		f.addFinding("field 'related_pr' must be empty or a numeric PR id")
	}
	if c := f.readOptionalField("conversation_id"); c != "" && !isConversation(c) {
		f.addFinding("field 'conversation_id' must match pattern conv-<YYYYMMDD>-<agent>-<seq>")
	}
	f.checkLength("parent_message_id", f.readOptionalField("parent_message_id"), maxID)
	if isNestedNode(f.d.fields["context_keys"]) {
		f.addFinding("field 'context_keys' must be a string (use YAML block scalar)")
	}
}

func (f *findings) checkTimestamp(key, v string) {
	switch {
	case v == "":
	case !isTimestampShaped(v):
		f.addFinding("field '%s' must be UTC RFC3339 seconds format: YYYY-MM-DDTHH:MM:SSZ", key)
	case !isTimestamp(v):
		f.addFinding("field '%s' is not a valid UTC timestamp", key)
	}
}

func (f *findings) checkLength(key, v string, limit int) {
	if len(v) > limit && utf8.RuneCountInString(v) > limit {
		f.addFinding("field '%s' is too long (max %d chars)", key, limit)
	}
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
