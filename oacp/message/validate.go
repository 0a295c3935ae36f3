package message

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

func required(key string) bool {
	switch key {
	case "id", "from", "to", "type", "priority", "created_at_utc", "subject", "body":
		return true
	}
	return false
}

// findings collects what is wrong with a document.
type findings struct {
	d     *Document
	lines []string
}

func (f *findings) add(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// Validate returns what the reference's validate reports, line by line in its order;
// nil for a valid message (OACP message schema; oacp-cli 0.4.0).
func (d *Document) Validate() []string {
	f := &findings{d: d}
	f.unknown()
	id := f.scalar("id")
	from := f.scalar("from")
	typ := f.scalar("type")
	priority := f.scalar("priority")
	created := f.scalar("created_at_utc")
	subject := f.scalar("subject")
	body := f.scalar("body")
	f.to(from, typ)
	for _, key := range optional {
		if nested(d.fields[key]) {
			f.add("field '%s' must be a scalar value", key)
		}
	}
	if from != "" && !LegalAgent(from) {
		f.add("field 'from' must match %s", agentPattern)
	}
	if typ != "" && !slices.Contains(Types(), typ) {
		f.add("field 'type' must be one of: %s", strings.Join(Types(), ", "))
	}
	if priority != "" && !slices.Contains(Priorities(), priority) {
		f.add("field 'priority' must be one of: %s", strings.Join(Priorities(), ", "))
	}
	f.telemetry(typ)
	if hint := d.fields["autonomy_hint"]; !nested(hint) {
		if h := strip(str(hint)); h != "" && h != "auto_proceed" {
			f.add("field 'autonomy_hint' must be one of: auto_proceed")
		}
	}
	f.stamp("created_at_utc", created)
	f.references()
	f.stamp("expires_at", f.word("expires_at"))
	if channel := f.word("channel"); channel != "" && !legalChannel(channel) {
		f.add("field 'channel' must be 1-64 chars of alphanumeric, hyphens, or underscores")
	}
	f.length("id", id, maxID)
	f.length("subject", subject, maxSubject)
	f.length("body", body, maxBody)
	switch {
	case body == "":
	case typ == "handoff":
		f.handoff(body)
	case typ == "handoff_complete":
		f.handoffComplete(body)
	}
	f.auth()
	return f.lines
}

func (f *findings) unknown() {
	var names []string
	for key := range f.d.fields {
		if !required(key) && !slices.Contains(optional[:], key) {
			names = append(names, key)
		}
	}
	if names != nil {
		slices.Sort(names)
		f.add("unknown field(s): %s", strings.Join(names, ", "))
	}
}

// scalar returns a required field without the space around it.
func (f *findings) scalar(key string) string {
	n := f.d.fields[key]
	switch {
	case n == nil:
		f.add("missing required field: %s", key)
		return ""
	case nested(n):
		f.add("field '%s' must be a scalar string, not nested YAML", key)
		return ""
	}
	v := strip(n.Value)
	if v == "" {
		f.add("field '%s' must be non-empty", key)
	}
	return v
}

// word returns an optional field, without the space around it, even if it is nested:
// the reference looks at the text of that too.
func (f *findings) word(key string) string { return strip(orEmpty(f.d.fields[key])) }

func (f *findings) to(from, typ string) {
	n := f.d.fields["to"]
	switch {
	case n == nil:
		f.add("missing required field: to")
	case n.Kind == yaml.MappingNode:
		f.add("field 'to' must be a string or list of strings, not a mapping")
	case n.Kind == yaml.ScalarNode:
		switch name := strip(n.Value); {
		case name == "":
			f.add("field 'to' must be non-empty")
		case !LegalAgent(name):
			f.add("field 'to' must match %s", agentPattern)
		}
	default:
		f.toList(n, from)
		if (typ == "handoff" || typ == "handoff_complete") && len(n.Content) > 1 {
			f.add("type '%s' does not support broadcast (multiple recipients)", typ)
		}
	}
}

func (f *findings) toList(n *yaml.Node, from string) {
	if len(n.Content) == 0 {
		f.add("field 'to' list must not be empty")
		return
	}
	if len(n.Content) > maxRecipients {
		f.add("field 'to' list exceeds maximum of %d recipients", maxRecipients)
		return
	}
	self := false
	for _, item := range n.Content {
		name := strip(str(resolve(item)))
		switch {
		case name == "":
			f.add("field 'to' list contains empty entry")
		case !LegalAgent(name):
			f.add("field 'to' list entry '%s' must match %s", name, agentPattern)
		case name == from:
			self = true
		}
	}
	if self {
		f.add("field 'to' list must not include the sender")
	}
}

func (f *findings) telemetry(typ string) {
	answers := []string{"review_addressed", "review_feedback", "review_lgtm"}
	if !slices.Contains(answers, typ) && slices.ContainsFunc(telemetry[:], func(key string) bool { return f.d.fields[key] != nil }) {
		f.add("review telemetry fields are allowed only for: %s", strings.Join(answers, ", "))
	}
	if n := f.d.fields["model"]; n != nil && (nested(n) || strip(n.Value) == "") {
		f.add("field 'model' must be a non-empty string")
	}
	for _, key := range []string{"turns", "input_tokens", "output_tokens"} {
		if n := f.d.fields[key]; n != nil && !digits(strip(str(n))) {
			f.add("field '%s' must be a non-negative integer", key)
		}
	}
	for _, key := range []string{"wall_time_s", "est_cost_usd"} {
		if n := f.d.fields[key]; n != nil && !nonNegative(strip(str(n))) {
			f.add("field '%s' must be a non-negative number", key)
		}
	}
}

var conversationForm = regexp.MustCompile(`^conv-[0-9]{8}-[A-Za-z0-9._-]{1,64}-[0-9]{1,6}$`)

// references checks the fields that point elsewhere.
func (f *findings) references() {
	if pr := f.word("related_pr"); pr != "" && !digits(pr) {
		f.add("field 'related_pr' must be empty or a numeric PR id")
	}
	if c := f.word("conversation_id"); c != "" && !conversationForm.MatchString(c) {
		f.add("field 'conversation_id' must match pattern conv-<YYYYMMDD>-<agent>-<seq>")
	}
	f.length("parent_message_id", f.word("parent_message_id"), maxID)
	if nested(f.d.fields["context_keys"]) {
		f.add("field 'context_keys' must be a string (use YAML block scalar)")
	}
}

func (f *findings) stamp(key, v string) {
	switch {
	case v == "":
	case !stampShaped(v):
		f.add("field '%s' must be UTC RFC3339 seconds format: YYYY-MM-DDTHH:MM:SSZ", key)
	case !isStamp(v):
		f.add("field '%s' is not a valid UTC timestamp", key)
	}
}

func (f *findings) length(key, v string, limit int) {
	if len(v) > limit && utf8.RuneCountInString(v) > limit {
		f.add("field '%s' is too long (max %d chars)", key, limit)
	}
}

func legalChannel(s string) bool { return len(s) <= 64 && word(s) && !strings.Contains(s, ".") }

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// numberForm is what Python reads as a finite float.
var numberForm = regexp.MustCompile(`^[+-]?([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?$`)

func nonNegative(s string) bool {
	if !numberForm.MatchString(s) {
		return false
	}
	v, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return v >= 0 && !math.IsInf(v, 0)
}
